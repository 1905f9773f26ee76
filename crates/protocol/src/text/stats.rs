//! stats and its subjects.

use super::reply;
use crate::admin::{DetailMode, StatsRequest};
use crate::fields::LIMITS;
use crate::request::Request;
use crate::words;
use crate::words::{Refusal, Words};

/// `[<subject> [<more>]]`.
pub(super) fn stats<'a>(words: &Words<'a>) -> Result<Request<'a>, Refusal> {
    Ok(Request::Stats(match words.at(0) {
        b"" => StatsRequest::General,
        b"settings" => StatsRequest::Settings,
        b"items" => StatsRequest::Items,
        b"slabs" => StatsRequest::Slabs,
        b"sizes" => StatsRequest::Sizes,
        b"sizes_enable" => StatsRequest::SizesEnable,
        b"sizes_disable" => StatsRequest::SizesDisable,
        b"conns" => StatsRequest::Conns,
        b"cost" => StatsRequest::Cost,
        b"moves" => StatsRequest::Moves,
        b"profile" => StatsRequest::Profile,
        b"sizes_plan" => StatsRequest::SizesPlan,
        b"plan" => StatsRequest::Plan,
        b"reset" => StatsRequest::Reset,
        b"detail" => StatsRequest::Detail(detail(words.at(1))),
        b"cachedump" => cachedump(words)?,
        other => StatsRequest::Unknown(other),
    }))
}

fn detail(mode: &[u8]) -> DetailMode {
    match mode {
        b"on" => DetailMode::On,
        b"off" => DetailMode::Off,
        b"dump" => DetailMode::Dump,
        _ => DetailMode::Unknown,
    }
}

fn cachedump<'a>(words: &Words<'_>) -> Result<StatsRequest<'a>, Refusal> {
    if words.len() < 3 {
        return Err(Refusal::new(reply::CACHEDUMP_USAGE));
    }
    let number = |index| words::exact_u32(words.at(index)).ok_or(Refusal::new(reply::BAD_FORMAT));
    let (class_number, limit) = (number(1)?, number(2)?);
    if class_number >= LIMITS.class_number_max {
        return Err(Refusal::new(reply::CACHEDUMP_BAD_CLASS));
    }
    Ok(StatsRequest::Cachedump { class_number, limit })
}
