//! What an option takes: its type, unit and range, from text to value.

use super::raw::Raw;

/// One row of an option table.
pub(super) struct OptionRow {
    /// The long name of a flag, or the name in `-o`.
    pub name: &'static str,
    /// The short name of a flag.
    pub short: Option<char>,
    pub kind: Kind,
    /// As the help shows it.
    pub default: &'static str,
    pub help: &'static str,
    /// Writes the value into what was said; an error is a whole sentence.
    pub apply: fn(&mut Raw, Value<'_>) -> Result<(), String>,
}

/// What an option takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Nothing.
    Switch,
    /// A whole number from `min` to `max`, in `unit` (may be empty).
    Number { min: i64, max: i64, unit: &'static str },
    /// A whole number, or nothing, which means `absent`.
    OptionalNumber { min: i64, max: i64, absent: i64 },
    /// A number above `above`, up to `max`.
    Fraction { above: f64, max: f64 },
    /// Bytes, with an optional `k` or `m` behind.
    Size,
    /// An octal number.
    Octal,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Anything; the name is for the help.
    Text(&'static str),
}

/// A value of its option's kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Nothing,
    Number(i64),
    Fraction(f64),
    Text(&'a str),
    Choice(&'static str),
}

impl Kind {
    /// What the option takes, for messages and the help; empty for a switch.
    pub fn describe(self) -> String {
        let with_unit =
            |unit: &str| if unit.is_empty() { String::new() } else { format!(" {unit}") };
        match self {
            Kind::Switch => String::new(),
            Kind::Number { min, max: i64::MAX, unit } => {
                format!("a whole number from {min}{}", with_unit(unit))
            }
            Kind::Number { min, max, unit } => {
                format!("a whole number from {min} to {max}{}", with_unit(unit))
            }
            Kind::OptionalNumber { min, max, .. } => format!("a whole number from {min} to {max}"),
            Kind::Fraction { above, max } if max.is_infinite() => format!("a number above {above}"),
            Kind::Fraction { above, max } => format!("a number above {above}, up to {max}"),
            Kind::Size => "a size in bytes, such as 2m, 512k or 1048576".to_owned(),
            Kind::Octal => "an octal number, such as 700".to_owned(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Text(name) => name.to_owned(),
        }
    }

    /// The word that stands for the value in the help; `None` for a switch.
    pub fn placeholder(self) -> Option<String> {
        match self {
            Kind::Switch => None,
            Kind::Number { .. } | Kind::OptionalNumber { .. } | Kind::Fraction { .. } => {
                Some("<num>".to_owned())
            }
            Kind::Size => Some("<size>".to_owned()),
            Kind::Octal => Some("<mask>".to_owned()),
            Kind::Choice(words) => Some(words.join("|")),
            Kind::Text(name) => Some(format!("<{name}>")),
        }
    }

    /// The value that `text` means; an error says what is allowed.
    pub fn read(self, text: Option<&str>) -> Result<Value<'_>, String> {
        let refused = |text: &str| format!("takes {}, not '{text}'", self.describe());
        let Some(text) = text else {
            return match self {
                Kind::Switch => Ok(Value::Nothing),
                Kind::OptionalNumber { absent, .. } => Ok(Value::Number(absent)),
                _ => Err(format!("needs {}", self.describe())),
            };
        };
        match self {
            // memcached ignores what follows a switch; so do we.
            Kind::Switch => Ok(Value::Nothing),
            Kind::Number { min, max, .. } | Kind::OptionalNumber { min, max, .. } => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                number.map(Value::Number).ok_or_else(|| refused(text))
            }
            Kind::Fraction { above, max } => {
                let number = text.parse().ok().filter(|&number| number > above && number <= max);
                number.map(Value::Fraction).ok_or_else(|| refused(text))
            }
            Kind::Size => read_size(text).map(Value::Number).ok_or_else(|| refused(text)),
            Kind::Octal => {
                let number = i64::from_str_radix(text, 8).ok().filter(|mode| *mode >= 0);
                number.map(Value::Number).ok_or_else(|| refused(text))
            }
            Kind::Choice(words) => {
                let word = words.iter().find(|word| **word == text);
                word.map(|word| Value::Choice(word)).ok_or_else(|| refused(text))
            }
            Kind::Text(_) if text.is_empty() => Err(format!("needs {}", self.describe())),
            Kind::Text(_) => Ok(Value::Text(text)),
        }
    }
}

fn read_size(text: &str) -> Option<i64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<i64>().ok().filter(|count| *count >= 0)?.checked_mul(unit)
}

/// The reading methods panic when the table asks for another type than its row's kind gives: the
/// tests apply every row.
impl<'a> Value<'a> {
    pub fn number(self) -> i64 {
        let Value::Number(number) = self else { panic!("{self:?} is no number") };
        number
    }

    /// For rows whose range lies in 32 bits.
    pub fn number_u32(self) -> u32 {
        u32::try_from(self.number()).expect("the row's range lies in 32 bits")
    }

    pub fn fraction(self) -> f64 {
        let Value::Fraction(number) = self else { panic!("{self:?} is no fraction") };
        number
    }

    pub fn text(self) -> &'a str {
        let Value::Text(text) = self else { panic!("{self:?} is no text") };
        text
    }

    pub fn choice(self) -> &'static str {
        let Value::Choice(word) = self else { panic!("{self:?} is no choice") };
        word
    }
}
