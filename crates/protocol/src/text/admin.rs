//! Parsers of the arguments of administrative commands and of `stats`.

use super::reply;
use crate::admin::{
    Admin, Attempt, Automove, ChunkSizes, Classes, CrawlKind, Crawler, Debug, DetailMode, LruMode,
    LruRequest, ShutdownMode, StatsRequest,
};
use crate::request::Request;
use crate::words::{self, CLASS_NUMBER_MAX, Exptime, LineRefusal, WatchKinds, Words};

type ParseResult<'a> = Result<Request<'a>, LineRefusal>;

/// Returns the first name that starts with `word`, because memcached accepts a prefix of a name. Returns an empty
/// string if no name starts with the word.
fn complete_name<'n>(word: &[u8], names: &[&'n str]) -> &'n str {
    names.iter().find(|name| name.as_bytes().starts_with(word)).copied().unwrap_or_default()
}

/// Parses `flush_all [<exptime>]`.
pub(super) fn flush_all<'a>(words: &Words<'a>) -> ParseResult<'a> {
    let exptime = match words.len {
        0 => 0,
        1 if words.end_in_noreply() => 0,
        _ => words::exact_i32(words.at(0)).ok_or(reply::BAD_EXPTIME)?,
    };
    Ok(Request::Admin(Admin::FlushAll(Exptime::of_signed(exptime))))
}

/// Parses `verbosity <level>`.
pub(super) fn verbosity<'a>(words: &Words<'a>) -> ParseResult<'a> {
    let level = words::exact_u32(words.at(0)).ok_or(reply::BAD_FORMAT)?;
    Ok(Request::Admin(Admin::Verbosity(level)))
}

/// Parses `cache_memlimit <MiB>`.
pub(super) fn memory_limit<'a>(words: &Words<'a>) -> ParseResult<'a> {
    let limit_mib = words::exact_u32(words.at(0)).ok_or(reply::ERROR)?;
    Ok(Request::Admin(Admin::MemoryLimit(limit_mib)))
}

/// Parses `shutdown [graceful]`.
pub(super) fn shutdown<'a>(words: &Words<'a>) -> ParseResult<'a> {
    Ok(Request::Admin(Admin::Shutdown(
        match (words.len, complete_name(words.at(0), &["graceful"])) {
            (0, _) => ShutdownMode::Now,
            (1, "graceful") => ShutdownMode::Graceful,
            _ => ShutdownMode::Unknown,
        },
    )))
}

/// Parses `debugtime p|r|<seconds>`.
pub(super) fn debug_time<'a>(words: &Words<'a>) -> ParseResult<'a> {
    let debug = match words.at(0) {
        b"p" => Debug::TimePause,
        b"r" => Debug::TimeResume,
        word => Debug::TimeMove(words::exact_u32(word).ok_or(reply::ERROR)?),
    };
    Ok(Request::Admin(Admin::Debug(debug)))
}

/// Parses `debugitem ref|lock|unref|unlock <key>`.
pub(super) fn debug_item<'a>(words: &Words<'a>) -> ParseResult<'a> {
    let key = words.at(1);
    let debug = match complete_name(words.at(0), &["lock", "unlock", "ref", "unref"]) {
        _ if key.is_empty() => return Err(reply::ERROR.into()),
        "ref" | "lock" => Debug::ItemHold(key),
        "unref" | "unlock" => Debug::ItemRelease(key),
        _ => return Err(reply::ERROR.into()),
    };
    Ok(Request::Admin(Admin::Debug(debug)))
}

/// Parses `debugconfine <operation>` and `debugconfine read|create|remove <path>`.
pub(super) fn debug_confine<'a>(words: &Words<'a>) -> ParseResult<'a> {
    let attempt = match (words.at(0), words.at(1)) {
        (b"execute", b"") => Attempt::Execute,
        (b"fork", b"") => Attempt::Fork,
        (b"thread", b"") => Attempt::Thread,
        (b"socket", b"") => Attempt::Socket,
        (b"trace", b"") => Attempt::Trace,
        (b"map_executable", b"") => Attempt::MapExecutable,
        (b"working_directory", b"") => Attempt::WorkingDirectory,
        (b"abort", b"") => Attempt::Abort,
        (_, b"") => return Err(reply::ERROR.into()),
        (b"read", path) => Attempt::Read(path),
        (b"create", path) => Attempt::Create(path),
        (b"remove", path) => Attempt::Remove(path),
        _ => return Err(reply::ERROR.into()),
    };
    Ok(Request::Admin(Admin::Debug(Debug::Attempt(attempt))))
}

/// Parses `slabs reassign <victim> <receiver>`, `slabs automove <level>`, `slabs automove ratio|freeratio|window
/// <number>` and `slabs classes [<size>-<size>-...|learned]`.
pub(super) fn slabs<'a>(words: &Words<'a>) -> ParseResult<'a> {
    match (complete_name(words.at(0), &["reassign", "automove", "classes"]), words.len) {
        ("reassign", 3) => {
            let class = |index| words::exact_i32(words.at(index)).ok_or(reply::BAD_FORMAT);
            let (victim, receiver) = (class(1)?, class(2)?);
            Ok(Request::Admin(Admin::Reassign { victim, receiver }))
        }
        ("classes", 1) => Ok(Request::Admin(Admin::Classes(Classes::Show))),
        ("classes", 2) if words.at(1) == b"learned" => {
            Ok(Request::Admin(Admin::Classes(Classes::Learn)))
        }
        ("classes", 2) => {
            let sizes = ChunkSizes::of_word(words.at(1)).ok_or(reply::BAD_FORMAT)?;
            Ok(Request::Admin(Admin::Classes(Classes::Set(sizes))))
        }
        ("automove", 2..) => Ok(Request::Admin(Admin::Automove(automove(words)?))),
        _ => Err(reply::ERROR.into()),
    }
}

/// Parses `slabs automove <level>` and `slabs automove ratio|freeratio|window <number>`.
fn automove(words: &Words<'_>) -> Result<Automove, LineRefusal> {
    let fraction = || words::fraction(words.at(2)).ok_or(reply::ERROR);
    match complete_name(words.at(1), &["ratio", "freeratio", "window"]) {
        "ratio" => Ok(Automove::Ratio(fraction()?)),
        "freeratio" => Ok(Automove::FreeRatio(fraction()?)),
        "window" => match words::exact_u32(words.at(2)).ok_or(reply::BAD_FORMAT)? {
            seconds @ 3..=1800 => Ok(Automove::Window(seconds)),
            _ => Err(reply::BAD_WINDOW.into()),
        },
        _ => match words::exact_u32(words.at(1)).ok_or(reply::BAD_FORMAT)? {
            level @ 0..=2 => Ok(Automove::Level(level)),
            _ => Err(reply::ERROR.into()),
        },
    }
}

/// Parses `lru tune <hot percent> <warm percent> <hot age factor> <warm age factor>`, `lru mode flat|segmented` and
/// `lru temp_ttl <seconds>`.
pub(super) fn lru<'a>(words: &Words<'a>) -> ParseResult<'a> {
    // `t` is a prefix of `tune` and of `temp_ttl`. As in memcached, `t` means `temp_ttl` if fewer than five words
    // follow `lru`.
    let names: &[&str] = match words.len {
        5.. => &["tune", "mode", "temp_ttl"],
        _ => &["mode", "temp_ttl"],
    };
    let request = match (complete_name(words.at(0), names), words.len) {
        ("tune", _) => tune(words)?,
        ("mode", 2..) => {
            LruRequest::Mode(match complete_name(words.at(1), &["flat", "segmented"]) {
                "flat" => LruMode::Flat,
                "segmented" => LruMode::Segmented,
                _ => return Err(reply::ERROR.into()),
            })
        }
        ("temp_ttl", 2..) => {
            LruRequest::TemporaryTtl(words::exact_i32(words.at(1)).ok_or(reply::ERROR)?)
        }
        _ => return Err(reply::ERROR.into()),
    };
    Ok(Request::Admin(Admin::Lru(request)))
}

/// Parses `lru tune`.
fn tune(words: &Words<'_>) -> Result<LruRequest, LineRefusal> {
    let percent = |index| words::exact_u32(words.at(index)).ok_or(reply::ERROR);
    let factor = |index| words::fraction(words.at(index)).ok_or(reply::ERROR);
    let (hot_percent, warm_percent) = (percent(1)?, percent(2)?);
    let (hot_age_factor, warm_age_factor) = (factor(3)?, factor(4)?);
    if hot_percent.saturating_add(warm_percent) > 80 {
        return Err(reply::LRU_PERCENT_TOO_HIGH.into());
    }
    if hot_age_factor <= 0.0 || warm_age_factor <= 0.0 {
        return Err(reply::LRU_FACTOR_TOO_LOW.into());
    }
    Ok(LruRequest::Tune { hot_percent, warm_percent, hot_age_factor, warm_age_factor })
}

/// Parses `lru_crawler enable|disable`, `lru_crawler sleep|tocrawl <number>` and
/// `lru_crawler crawl|metadump|mgdump <classes>`.
pub(super) fn crawler<'a>(words: &Words<'a>) -> ParseResult<'a> {
    let argument = words.at(1);
    let count = || words::exact_u32(argument).ok_or(reply::BAD_FORMAT);
    let names = ["crawl", "metadump", "mgdump", "tocrawl", "sleep", "enable", "disable"];
    let request = match (complete_name(words.at(0), &names), words.len) {
        ("enable", 1) => Crawler::Enable,
        ("disable", 1) => Crawler::Disable,
        ("crawl", 2) => Crawler::Crawl(CrawlKind::Expire, argument),
        ("metadump", 2) => Crawler::Crawl(CrawlKind::Metadump, argument),
        ("mgdump", 2) => Crawler::Crawl(CrawlKind::Mgdump, argument),
        ("tocrawl", 2) => Crawler::Tocrawl(count()?),
        ("sleep", 2) => match count()? {
            microseconds @ 0..=1_000_000 => Crawler::Sleep(microseconds),
            _ => return Err(reply::CRAWLER_SLEEP_TOO_LONG.into()),
        },
        _ => return Err(reply::ERROR.into()),
    };
    Ok(Request::Admin(Admin::Crawler(request)))
}

/// Parses `refresh_certs`, whose arguments are ignored.
pub(super) fn refresh_certificates<'a>(_: &Words<'a>) -> ParseResult<'a> {
    Ok(Request::Admin(Admin::RefreshCertificates))
}

/// Parses `watch [<kind> <kind> ...]`.
pub(super) fn watch<'a>(words: &Words<'a>) -> ParseResult<'a> {
    Ok(Request::Admin(Admin::Watch(WatchKinds::of_words(words.all()))))
}

/// Parses `stats`, `stats <subject>` and `stats <subject> <argument> ...`.
pub(super) fn stats<'a>(words: &Words<'a>) -> ParseResult<'a> {
    Ok(Request::Stats(match words.at(0) {
        b"settings" => StatsRequest::Settings,
        b"sizes_enable" => StatsRequest::SizesEnable,
        b"sizes_disable" => StatsRequest::SizesDisable,
        b"conns" => StatsRequest::Conns,
        b"reset" => StatsRequest::Reset,
        b"detail" => StatsRequest::Detail(detail(words.at(1))),
        b"cachedump" => cachedump(words)?,
        name => StatsRequest::of_name(name),
    }))
}

/// Parses the argument of `stats detail`.
fn detail(mode: &[u8]) -> DetailMode {
    match mode {
        b"on" => DetailMode::On,
        b"off" => DetailMode::Off,
        b"dump" => DetailMode::Dump,
        _ => DetailMode::Unknown,
    }
}

/// Parses `stats cachedump <class> <limit>`.
fn cachedump<'a>(words: &Words<'_>) -> Result<StatsRequest<'a>, LineRefusal> {
    if words.len < 3 {
        return Err(reply::CACHEDUMP_USAGE.into());
    }
    let number = |index| words::exact_u32(words.at(index)).ok_or(reply::BAD_FORMAT);
    let (class_number, limit) = (number(1)?, number(2)?);
    if class_number >= CLASS_NUMBER_MAX {
        return Err(reply::CACHEDUMP_BAD_CLASS.into());
    }
    Ok(StatsRequest::Cachedump { class_number, limit })
}
