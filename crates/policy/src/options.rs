//! The options of page policies, by name, as one table.
//!
//! ```text
//!   psa:misses=1000000                 a policy, then its options, as in `-o page_policy=` whose list commas
//!   tail_age:gap_percent=5:moves_max=2   divide
//! ```
//!
//! A row of the table says what its option is called, where it lies in a policy, and what values it takes. A
//! policy has the option if the row finds its place there; defaults are those of the policy's own options.

use crate::split::Objective;
use crate::{CurveSource, PagePolicy, Pick};
use slabwise_base::Ticks;
use std::fmt;

/// What an option is called, what it takes, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// The values that it takes, in words.
    pub values: String,
    /// Its value unless another is given.
    pub default: String,
    /// What it decides, in words.
    pub help: &'static str,
}

/// Why a policy could not be made as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyOptionError {
    /// There is no policy of this name.
    UnknownPolicy {
        /// The name given.
        name: String,
    },
    /// The policy has no such option.
    UnknownOption {
        /// The policy.
        policy: &'static str,
        /// The option given.
        name: String,
    },
    /// An option without `=` and a value.
    NoValue {
        /// What was given.
        option: String,
    },
    /// The option takes other values.
    BadValue {
        /// The policy.
        policy: &'static str,
        /// The option.
        name: &'static str,
        /// The value given.
        value: String,
        /// The values that it takes, in words.
        values: String,
    },
}

impl fmt::Display for PolicyOptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyOptionError::UnknownPolicy { name } => {
                write!(
                    f,
                    "page policy '{name}' is unknown: choose {}",
                    PagePolicy::NAMES.join(", ")
                )
            }
            PolicyOptionError::UnknownOption { policy, name } => {
                let infos = PagePolicy::options(policy).unwrap_or_default();
                let names: Vec<&str> = infos.iter().map(|info| info.name).collect();
                match names[..] {
                    [] => write!(f, "page policy '{policy}' takes no options: remove '{name}'"),
                    _ => write!(
                        f,
                        "page policy '{policy}' has no option '{name}': choose {}",
                        names.join(", ")
                    ),
                }
            }
            PolicyOptionError::NoValue { option } => {
                write!(f, "'{option}' has no value: write it as option=value")
            }
            PolicyOptionError::BadValue { policy, name, value, values } => {
                write!(f, "'{value}' does not suit {name} of page policy '{policy}': give {values}")
            }
        }
    }
}

impl std::error::Error for PolicyOptionError {}

/// Where an option lies in a policy; `None` in one that does not have it.
type Place<T> = fn(&mut PagePolicy) -> Option<&mut T>;

/// An option's place, and its least and greatest value.
enum Kind {
    U32(Place<u32>, u32, u32),
    U64(Place<u64>, u64, u64),
    Usize(Place<usize>, usize, usize),
    Real(Place<f64>, f64, f64),
    Choice(Place<dyn Choice>),
}

/// A value that is one of a few words.
pub(crate) trait Choice {
    /// All of them.
    fn words(&self) -> &'static [&'static str];
    /// Which of them it is.
    fn word(&self) -> &'static str;
    /// Makes it another.
    fn choose(&mut self, word: &str);
}

impl Choice for bool {
    fn words(&self) -> &'static [&'static str] {
        &["on", "off"]
    }

    fn word(&self) -> &'static str {
        if *self { "on" } else { "off" }
    }

    fn choose(&mut self, word: &str) {
        *self = word == "on";
    }
}

impl Choice for Objective {
    fn words(&self) -> &'static [&'static str] {
        &["miss_ratio", "request_time", "cost"]
    }

    fn word(&self) -> &'static str {
        match self {
            Objective::MissRatio => "miss_ratio",
            Objective::RequestTime => "request_time",
            Objective::Cost => "cost",
        }
    }

    fn choose(&mut self, word: &str) {
        *self = match word {
            "request_time" => Objective::RequestTime,
            "cost" => Objective::Cost,
            _ => Objective::MissRatio,
        };
    }
}

impl Choice for CurveSource {
    fn words(&self) -> &'static [&'static str] {
        &["footprint", "distance"]
    }

    fn word(&self) -> &'static str {
        match self {
            CurveSource::Footprint => "footprint",
            CurveSource::Distance => "distance",
        }
    }

    fn choose(&mut self, word: &str) {
        *self = match word {
            "distance" => CurveSource::Distance,
            _ => CurveSource::Footprint,
        };
    }
}

struct Row {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

const fn row(name: &'static str, kind: Kind, help: &'static str) -> Row {
    Row { name, kind, help }
}

/// A place in the options of the policies named.
macro_rules! place {
    ($($variant:ident)|+ . $field:ident) => {
        |policy| match policy {
            $(PagePolicy::$variant(policy) => Some(&mut policy.options.$field),)+
            _ => None,
        }
    };
}

/// The longest time between two steps, or of a window: a day.
const TICKS_MAX: u32 = 86_400 * Ticks::PER_SECOND;
/// More events than any cache sees between two steps.
const COUNT_MAX: u64 = 1_000_000_000_000;
/// More pages than any cache has.
const PAGES_MAX: u64 = 1 << 31;

/// Every option of every policy.
const ROWS: [Row; 28] = [
    row(
        "window_ticks",
        Kind::U32(place!(AutomoveClassic.window_ticks), 1, TICKS_MAX),
        "ticks (1/64 s) of a window whose evictions are compared",
    ),
    row(
        "windows",
        Kind::U32(place!(AutomoveClassic.windows), 1, 1_000),
        "windows that a class wins, or evicts nothing in, before a page moves",
    ),
    row(
        "window_len",
        Kind::Usize(place!(Automove.window_len), 1, 86_400),
        "seconds that a decision looks back (slab_automove_window)",
    ),
    row(
        "age_ratio",
        Kind::Real(place!(Automove.age_ratio), 0.0, 1.0),
        "how young the youngest tail is beside the oldest when a page moves (slab_automove_ratio)",
    ),
    row(
        "evictions",
        Kind::U64(place!(Twemcache | CostPerByte.evictions), 1, COUNT_MAX),
        "allocations without a free chunk between two steps",
    ),
    row(
        "half_life",
        Kind::U64(half_life, 1, COUNT_MAX),
        "accesses after which one counts half in the order of pages",
    ),
    row(
        "misses",
        Kind::U64(place!(Psa | CostPartition.misses), 1, COUNT_MAX),
        "gets that miss between two steps",
    ),
    row(
        "period_ticks",
        Kind::U32(place!(TailAge | ReservedCost | Marginal.period_ticks), 1, TICKS_MAX),
        "ticks (1/64 s) between two steps",
    ),
    row(
        "moves_max",
        Kind::Usize(
            place!(TailAge | Twemcache | CostPerByte | Cliffhanger | Lama | Dynacache.moves_max),
            1,
            usize::MAX,
        ),
        "pages that move in a step",
    ),
    row(
        "gap_percent",
        Kind::U32(place!(TailAge.gap_percent), 0, 100),
        "how much below the others' mean a class in need is",
    ),
    row(
        "hold_ticks",
        Kind::U32(place!(TailAge.hold_ticks), 0, TICKS_MAX),
        "ticks (1/64 s) for which a class that gave does not receive, and the other way round",
    ),
    row(
        "spare_pages",
        Kind::U64(place!(TailAge.spare_pages), 0, PAGES_MAX),
        "pages' worth of free chunks that a class in use keeps",
    ),
    row(
        "samples",
        Kind::U32(place!(ReservedCost.samples), 1, 1_000),
        "steps, each with a sample of the hit ratio, from look to look",
    ),
    row(
        "fall",
        Kind::Real(place!(ReservedCost.fall), 0.0, 1.0),
        "how far below the best hit ratio, as a part of it, a sample is when a page moves",
    ),
    row(
        "credit_bytes",
        Kind::U64(place!(Cliffhanger.credit_bytes), 1, 1 << 30),
        "bytes that a shadow hit earns its class",
    ),
    row(
        "shadow_hits",
        Kind::U64(place!(Cliffhanger.shadow_hits), 1, COUNT_MAX),
        "shadow hits between two steps",
    ),
    row(
        "cliffs",
        Kind::Choice(place!(Cliffhanger.cliffs)),
        "whether classes are carried over cliffs of their curves",
    ),
    row(
        "period_gets",
        Kind::U64(place!(Lama | Dynacache.period_gets), 1, COUNT_MAX),
        "gets between two steps",
    ),
    row(
        "gain_min",
        Kind::Real(place!(Lama | Marginal.gain_min), 0.0, 1.0),
        "the least gain to move for, in misses a get or their mean costs",
    ),
    row("objective", Kind::Choice(place!(Lama | Marginal.objective)), "what is made least"),
    row(
        "curve",
        Kind::Choice(place!(Lama.curve)),
        "whether curves are of footprints, or of stack distances that fade",
    ),
    row(
        "footprint_gets",
        Kind::U64(place!(Lama.footprint_gets), 0, COUNT_MAX),
        "gets that footprints are of, at least, and twice as many at most; 0: those from step to step",
    ),
    row(
        "buckets",
        Kind::U64(place!(Dynacache.buckets), 1, 1_000_000),
        "buckets that a class's stack distances are counted in",
    ),
    row(
        "look_gets",
        Kind::U64(place!(Marginal.look_gets), 1, COUNT_MAX),
        "gets between looks at the curves",
    ),
    row(
        "window_gets",
        Kind::U64(place!(Marginal.window_gets), 1, COUNT_MAX),
        "gets after which references count half, and free chunks are idle",
    ),
    row(
        "gain_sure",
        Kind::Real(place!(Marginal.gain_sure), 0.0, 1.0),
        "the gain, in misses a get or their mean costs, that needs no proof",
    ),
    row(
        "move_price",
        Kind::Real(place!(Marginal.move_price), 0.0, 1.0),
        "what moving all pages costs, in misses a get or their mean costs",
    ),
    row(
        "item_price",
        Kind::Real(place!(Marginal.item_price), 0.0, 1.0),
        "misses that an item costs which a move drops",
    ),
];

/// A random page is of no order.
fn half_life(policy: &mut PagePolicy) -> Option<&mut u64> {
    match policy {
        PagePolicy::Twemcache(twemcache) if twemcache.pick() == Pick::LeastRecentlyAccessed => {
            Some(&mut twemcache.options.half_life)
        }
        _ => None,
    }
}

impl Kind {
    /// The value in this policy, in words; `None` if it does not have the option.
    fn get(&self, policy: &mut PagePolicy) -> Option<String> {
        match self {
            Kind::U32(place, ..) => place(policy).map(|value| value.to_string()),
            Kind::U64(place, ..) => place(policy).map(|value| value.to_string()),
            Kind::Usize(place, ..) => place(policy).map(|value| value.to_string()),
            Kind::Real(place, ..) => place(policy).map(|value| value.to_string()),
            Kind::Choice(place) => place(policy).map(|value| value.word().to_string()),
        }
    }

    /// Gives the option another value; `None` if it takes no such, or the policy does not have it.
    fn set(&self, policy: &mut PagePolicy, text: &str) -> Option<()> {
        match *self {
            Kind::U32(place, min, max) => *place(policy)? = number(text, min, max)?,
            Kind::U64(place, min, max) => *place(policy)? = number(text, min, max)?,
            Kind::Usize(place, min, max) => *place(policy)? = number(text, min, max)?,
            Kind::Real(place, min, max) => *place(policy)? = number(text, min, max)?,
            Kind::Choice(place) => {
                let choice = place(policy)?;
                choice.words().contains(&text).then(|| choice.choose(text))?;
            }
        }
        Some(())
    }

    /// What it takes in this policy, in words.
    fn values(&self, policy: &mut PagePolicy) -> String {
        match self {
            Kind::Usize(_, min, usize::MAX) => format!("a whole number from {min}"),
            Kind::U32(_, min, max) => format!("a whole number from {min} to {max}"),
            Kind::U64(_, min, max) => format!("a whole number from {min} to {max}"),
            Kind::Usize(_, min, max) => format!("a whole number from {min} to {max}"),
            Kind::Real(_, min, max) => format!("a number from {min} to {max}"),
            Kind::Choice(place) => {
                let words = place(policy).map_or(&[][..], |choice| choice.words());
                words.join(" or ")
            }
        }
    }
}

fn number<T: std::str::FromStr + PartialOrd>(text: &str, min: T, max: T) -> Option<T> {
    text.parse().ok().filter(|value| (min..=max).contains(value))
}

impl PagePolicy {
    /// The policy that a text like `psa:misses=1000000` asks for: a name, and options behind colons.
    pub fn parse(text: &str) -> Result<PagePolicy, PolicyOptionError> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let option = |word: &'_ str| match word.split_once('=') {
            Some((name, value)) => Ok((name.to_string(), value.to_string())),
            None => Err(PolicyOptionError::NoValue { option: word.to_string() }),
        };
        let options = words.map(option).collect::<Result<Vec<_>, _>>()?;
        let borrowed: Vec<_> =
            options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        PagePolicy::with_options(name, &borrowed)
    }

    /// The policy of this name, with these options by name and value, and defaults otherwise. Of an option
    /// given twice the last value counts.
    pub fn with_options(
        name: &str,
        options: &[(&str, &str)],
    ) -> Result<PagePolicy, PolicyOptionError> {
        let unknown = || PolicyOptionError::UnknownPolicy { name: name.to_string() };
        let mut policy = PagePolicy::named(name).ok_or_else(unknown)?;
        for &(option, value) in options {
            let row = ROWS
                .iter()
                .find(|row| row.name == option && row.kind.get(&mut policy).is_some())
                .ok_or_else(|| PolicyOptionError::UnknownOption {
                    policy: policy.name(),
                    name: option.to_string(),
                })?;
            if row.kind.set(&mut policy, value).is_none() {
                return Err(PolicyOptionError::BadValue {
                    policy: policy.name(),
                    name: row.name,
                    value: value.to_string(),
                    values: row.kind.values(&mut policy),
                });
            }
        }
        Ok(policy)
    }

    /// The options of the policy of this name; `None` for an unknown name.
    pub fn options(name: &str) -> Option<Vec<OptionInfo>> {
        let mut policy = PagePolicy::named(name)?;
        let info = |row: &Row| {
            let Row { name, kind, help } = row;
            let default = kind.get(&mut policy)?;
            let values = kind.values(&mut policy);
            Some(OptionInfo { name, values, default, help })
        };
        Some(ROWS.iter().filter_map(info).collect())
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
