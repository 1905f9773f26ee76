//! The options of page policies: each has a name and is set from a text.
//!
//! A [`PolicyOption`] borrows its field in the policy, so a new value takes effect at the policy's next step.

use slabwise_base::Ticks;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use thiserror::Error;

/// The maximum value of options that are times, such as the time between two steps: a day, in ticks.
pub(crate) const TICKS_MAX: u32 = 86_400 * Ticks::PER_SECOND;
/// The maximum value of options that count events. No cache has this many events between two steps.
pub(crate) const COUNT_MAX: u64 = 1_000_000_000_000;

/// The former name and the current name of each renamed option. Former names are accepted until version 1.0.
pub(crate) const FORMER_NAMES: [(&str, &str); 7] = [
    ("fall", "hit_ratio_drop"),
    ("gain_sure", "gain_certain"),
    ("gap_percent", "tolerance_percent"),
    ("hold_ticks", "cooldown_ticks"),
    ("item_price", "item_cost"),
    ("look_gets", "evaluate_gets"),
    ("move_price", "move_cost"),
];

/// The name, values, default and help text of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// The name of the option.
    pub name: &'static str,
    /// The accepted values in words, such as `a whole number from 1 to 100`.
    pub values: String,
    /// The default value.
    pub default: String,
    /// The effect of the option in words, as `--help=policies` prints it.
    pub help: &'static str,
}

/// The error for an unknown page policy, an unknown option or an invalid value. Its text names the accepted ones.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct PolicyOptionError(#[from] BadOption);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum BadOption {
    #[error("unknown page policy '{name}': choose one of {known}")]
    UnknownPolicy { name: String, known: String },
    #[error("page policy '{policy}' has no options: remove '{name}'")]
    NoOptions { policy: &'static str, name: String },
    #[error("page policy '{policy}' has no option '{name}': choose one of {known}")]
    UnknownOption { policy: &'static str, name: String, known: String },
    #[error("'{option}' has no value: write it as option=value")]
    NoValue { option: String },
    #[error("page policy '{policy}': {name}={value} is not valid: give {values}")]
    BadValue { policy: &'static str, name: &'static str, value: String, values: String },
}

/// The treatment of a number outside the limits of its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// The number is rejected.
    Enforced,
    /// The number is accepted.
    Waived,
}

/// Parses a text and sets the option if the value is valid and within the limits. Returns true if the option was set.
type Set<'p> = dyn FnOnce(&str, Limits) -> bool + 'p;

/// An option of a policy, with a function that sets the policy's field. `info.default` is the current value of the
/// field, which is the default only in a new policy.
pub(crate) struct PolicyOption<'p> {
    pub info: OptionInfo,
    pub set: Box<Set<'p>>,
}

/// A type whose values an option names with words.
pub(crate) trait Choice: Copy + PartialEq + 'static {
    /// The word and the value of each choice, in the order of help.
    const WORDS: &'static [(&'static str, Self)];
}

impl Choice for bool {
    const WORDS: &'static [(&'static str, bool)] = &[("on", true), ("off", false)];
}

impl<'p> PolicyOption<'p> {
    pub fn whole<T>(
        name: &'static str,
        place: &'p mut T,
        range: RangeInclusive<T>,
        help: &'static str,
    ) -> PolicyOption<'p>
    where
        T: FromStr + PartialOrd + Display + 'static,
    {
        let values = format!("a whole number from {} to {}", range.start(), range.end());
        PolicyOption::number(values, name, place, range, help)
    }

    pub fn real(
        name: &'static str,
        place: &'p mut f64,
        range: RangeInclusive<f64>,
        help: &'static str,
    ) -> PolicyOption<'p> {
        let values = format!("a number from {} to {}", range.start(), range.end());
        PolicyOption::number(values, name, place, range, help)
    }

    fn number<T>(
        values: String,
        name: &'static str,
        place: &'p mut T,
        range: RangeInclusive<T>,
        help: &'static str,
    ) -> PolicyOption<'p>
    where
        T: FromStr + PartialOrd + Display + 'static,
    {
        PolicyOption {
            info: OptionInfo { name, values, default: place.to_string(), help },
            set: Box::new(move |text, limits| {
                let number = text.parse().ok();
                let number = number.filter(|it| limits == Limits::Waived || range.contains(it));
                number.map(|number| *place = number).is_some()
            }),
        }
    }

    pub fn choice<C: Choice>(
        name: &'static str,
        place: &'p mut C,
        help: &'static str,
    ) -> PolicyOption<'p> {
        let words: Vec<&str> = C::WORDS.iter().map(|&(word, _)| word).collect();
        let current = C::WORDS.iter().find(|(_, value)| *value == *place);
        let default = current.map_or("", |&(word, _)| word).to_string();
        PolicyOption {
            info: OptionInfo { name, values: words.join(" or "), default, help },
            set: Box::new(move |text, _| {
                let row = C::WORDS.iter().find(|&&(word, _)| word == text);
                row.map(|&(_, value)| *place = value).is_some()
            }),
        }
    }

    pub fn period_ticks(name: &'static str, place: &'p mut u32) -> PolicyOption<'p> {
        PolicyOption::whole(name, place, 1..=TICKS_MAX, "ticks (1/64 s) between two steps")
    }

    pub fn memory_divisor(name: &'static str, place: &'p mut u64) -> PolicyOption<'p> {
        let help = "the bytes stored between two steps are the memory divided by this number";
        PolicyOption::whole(name, place, 1..=COUNT_MAX, help)
    }

    pub fn events(name: &'static str, place: &'p mut u64, help: &'static str) -> PolicyOption<'p> {
        PolicyOption::whole(name, place, 1..=COUNT_MAX, help)
    }

    pub fn moves_max(name: &'static str, place: &'p mut usize) -> PolicyOption<'p> {
        let values = "a whole number from 1".to_string();
        let help = "maximum number of pages moved per step";
        PolicyOption::number(values, name, place, 1..=usize::MAX, help)
    }

    pub fn moves_max_or_stored(name: &'static str, place: &'p mut usize) -> PolicyOption<'p> {
        let values =
            "a whole number; 0: the pages stored between two steps, at least 8".to_string();
        let help = "maximum number of pages moved per step";
        PolicyOption::number(values, name, place, 0..=usize::MAX, help)
    }

    pub fn gain_min(name: &'static str, place: &'p mut f64) -> PolicyOption<'p> {
        let help = "minimum gain of a new partition, in misses (or mean miss costs) per get";
        PolicyOption::real(name, place, 0.0..=1.0, help)
    }
}

/// A policy with options that an operator can set.
pub(crate) trait Adjustable {
    fn options(&mut self) -> Vec<PolicyOption<'_>> {
        Vec::new()
    }
}

/// Defines a struct of options. Each option is a row `name: type = default, kind(range), help`, in the order of help.
/// `kind` is the name of a constructor of [`PolicyOption`]. Some constructors have a fixed range or a fixed help text;
/// their rows omit it. `of Policy` implements [`Adjustable`] for that policy, which must have the struct in its field
/// `options`.
macro_rules! options {
    (
        $(#[$doc:meta])*
        pub struct $Options:ident $(of $Policy:ty)? {
            $(
                $(#[$row_doc:meta])*
                $name:ident: $type:ty = $default:expr, $kind:ident $(($range:expr))? $(, $help:literal)?;
            )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $Options { $($(#[$row_doc])* pub $name: $type,)+ }

        impl Default for $Options {
            fn default() -> $Options {
                $Options { $($name: $default,)+ }
            }
        }

        impl $Options {
            pub fn rows(&mut self) -> Vec<$crate::options::PolicyOption<'_>> {
                vec![$($crate::options::PolicyOption::$kind(
                    stringify!($name), &mut self.$name $(, $range)? $(, $help)?
                ),)+]
            }
        }

        $(impl $crate::options::Adjustable for $Policy {
            fn options(&mut self) -> Vec<$crate::options::PolicyOption<'_>> {
                self.options.rows()
            }
        })?
    };
}
pub(crate) use options;
