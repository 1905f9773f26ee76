//! [`ServerOption`]: a row of an option table. The row defines how an option is parsed, described and reported.

use super::draft::Draft;
use super::settings::Running;
use slabwise_engine::EvictionKind;

/// A row of an option table: one option of the server.
#[derive(Clone, Copy)]
pub(super) struct ServerOption {
    /// The long name of a flag, without `--`, or the name of an option of `-o`.
    pub name: &'static str,
    /// The letter of a flag; `None` for an option of `-o`.
    pub short: Option<char>,
    /// The type of the value that the option takes, with the function that sets the value.
    pub takes: ValueKind,
    /// The default as the help shows it; empty if the help shows none.
    pub default: &'static str,
    /// The description. `--help` shows only the part before the first semicolon.
    pub help: &'static str,
    /// True if `--help` lists the option. `--help=all` lists every option.
    pub is_frequent: bool,
    /// The reason why the option has no effect, which a warning shows; empty if the option has an effect.
    pub no_effect: &'static str,
    /// A former name of a value, and the current name of the value. The former name is accepted until version 1.0.
    pub former: Option<(&'static str, &'static str)>,
    /// The lines of `stats settings` that show the option: none, one or two.
    pub stats: [Option<Stat>; 2],
}

/// A line of `stats settings`.
#[derive(Clone, Copy)]
pub(super) struct Stat {
    pub name: &'static str,
    /// Returns the value of the line.
    pub value: fn(&Running<'_>) -> String,
    /// A command that changes the value while the server runs; `None` if no command can change the value.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test sends each such command"))]
    pub changed_by: Option<&'static str>,
}

impl Stat {
    pub const fn new(
        name: &'static str,
        changed_by: Option<&'static str>,
        value: fn(&Running<'_>) -> String,
    ) -> Stat {
        Stat { name, value, changed_by }
    }
}

/// The type of the value that an option takes, and the function that sets the value in the draft of the settings.
#[derive(Clone, Copy)]
pub(super) enum ValueKind {
    /// The option is a switch: it takes no value.
    Nothing(fn(&mut Draft)),
    /// A whole number.
    Number {
        min: i64,
        max: i64,
        /// The unit of the number, for error texts; empty if the number has no unit.
        unit: &'static str,
        /// The number that is set if the option is given without a value; `None` if a value is required.
        absent: Option<i64>,
        set: fn(&mut Draft, i64),
    },
    /// A number that may have a fraction.
    Fraction {
        /// The number must be greater than this limit, and at most `max`.
        above: f64,
        max: f64,
        set: fn(&mut Draft, f64),
    },
    /// A number of bytes with an optional suffix: `k` for KiB or `m` for MiB.
    Size(fn(&mut Draft, i64)),
    /// A number in octal digits.
    Octal(fn(&mut Draft, u32)),
    /// One of these words.
    Choice(&'static [&'static str], fn(&mut Draft, &'static str)),
    /// Any text that is not empty. The first field is the placeholder for the text in the help.
    Text(&'static str, fn(&mut Draft, &str)),
    /// A text that the setter validates. The first field is the placeholder for the text in the help.
    Checked(&'static str, fn(&mut Draft, &str) -> Result<(), String>),
}

/// The maximum value of options that are counts or times.
pub(super) const COUNT_MAX: i64 = i32::MAX as i64;

/// Returns a row for an option of `-o`. The option is a switch without effect until the functions of [`ServerOption`]
/// complete the row.
pub(super) const fn option(name: &'static str) -> ServerOption {
    ServerOption {
        name,
        short: None,
        takes: ValueKind::Nothing(|_| ()),
        default: "",
        help: "",
        is_frequent: false,
        no_effect: "",
        former: None,
        stats: [None, None],
    }
}

/// Returns a row for an option of `-o` that takes no value.
pub(super) const fn switch(name: &'static str, set: fn(&mut Draft)) -> ServerOption {
    option(name).takes(ValueKind::Nothing(set))
}

/// Returns a row for a flag. The flag is a switch without effect until the functions of [`ServerOption`] complete the
/// row.
pub(super) const fn flag(short: char, name: &'static str) -> ServerOption {
    ServerOption { short: Some(short), ..option(name) }
}

/// Returns a row for a flag that takes no value.
pub(super) const fn switch_flag(
    short: char,
    name: &'static str,
    set: fn(&mut Draft),
) -> ServerOption {
    flag(short, name).takes(ValueKind::Nothing(set))
}

pub(super) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

impl ServerOption {
    pub const fn takes(self, takes: ValueKind) -> ServerOption {
        ServerOption { takes, ..self }
    }

    pub const fn number(
        self,
        min: i64,
        max: i64,
        unit: &'static str,
        set: fn(&mut Draft, i64),
    ) -> ServerOption {
        self.takes(ValueKind::Number { min, max, unit, absent: None, set })
    }

    pub const fn fraction(self, above: f64, max: f64, set: fn(&mut Draft, f64)) -> ServerOption {
        self.takes(ValueKind::Fraction { above, max, set })
    }

    pub const fn choice(
        self,
        words: &'static [&'static str],
        set: fn(&mut Draft, &'static str),
    ) -> ServerOption {
        self.takes(ValueKind::Choice(words, set))
    }

    /// Accepts the value `former` of a choice as another name of the value `current`, with a warning.
    pub const fn renamed(self, former: &'static str, current: &'static str) -> ServerOption {
        ServerOption { former: Some((former, current)), ..self }
    }

    pub const fn text(self, placeholder: &'static str, set: fn(&mut Draft, &str)) -> ServerOption {
        self.takes(ValueKind::Text(placeholder, set))
    }

    pub const fn checked(
        self,
        placeholder: &'static str,
        set: fn(&mut Draft, &str) -> Result<(), String>,
    ) -> ServerOption {
        self.takes(ValueKind::Checked(placeholder, set))
    }

    pub const fn size(self, set: fn(&mut Draft, i64)) -> ServerOption {
        self.takes(ValueKind::Size(set))
    }

    pub const fn default(self, default: &'static str) -> ServerOption {
        ServerOption { default, ..self }
    }

    pub const fn help(self, help: &'static str) -> ServerOption {
        ServerOption { help, ..self }
    }

    /// Sets the description of an option that `--help` also lists.
    pub const fn frequent_help(self, help: &'static str) -> ServerOption {
        ServerOption { help, is_frequent: true, ..self }
    }

    pub const fn no_effect(self, no_effect: &'static str) -> ServerOption {
        ServerOption { no_effect, ..self }
    }

    pub const fn stat(self, name: &'static str, value: fn(&Running<'_>) -> String) -> ServerOption {
        self.with_stat(Stat::new(name, None, value))
    }

    /// Adds a line of `stats settings` whose value the command `command` changes.
    pub const fn live_stat(
        self,
        name: &'static str,
        command: &'static str,
        value: fn(&Running<'_>) -> String,
    ) -> ServerOption {
        self.with_stat(Stat::new(name, Some(command), value))
    }

    const fn with_stat(self, stat: Stat) -> ServerOption {
        let stats = match self.stats {
            [None, _] => [Some(stat), None],
            [first, _] => [first, Some(stat)],
        };
        ServerOption { stats, ..self }
    }

    /// Returns the name of a flag as errors and warnings show it, such as `-m`.
    pub fn given_name(&self) -> String {
        self.short.map_or_else(|| self.name.to_owned(), |short| format!("-{short}"))
    }

    /// Returns the description of the option for the help.
    pub fn description(&self) -> String {
        match self.help {
            "" => format!("no effect: {}", self.no_effect),
            help => help.replace("{eviction kinds}", &EvictionKind::help()),
        }
    }

    /// Appends the default to a description, unless the default is empty.
    pub fn with_default(description: &str, default: &str) -> String {
        match default {
            "" => description.to_owned(),
            default => format!("{description} (default: {default})"),
        }
    }

    /// Parses the value `text` and sets the option; `text` is `None` if the user gave no value. Errors and warnings
    /// show `given`, the name of the option, such as `-p` or `-o page_size`.
    pub fn apply(&self, draft: &mut Draft, given: &str, text: Option<&str>) -> Result<(), String> {
        let text = match self.former {
            Some((former, current)) if text == Some(former) => {
                draft.warn_of_former(&format!("-o {}", self.name), former, current);
                Some(current)
            }
            _ => text,
        };
        self.takes.apply(draft, text).map_err(|reason| format!("{given}: {reason}"))?;
        if !self.no_effect.is_empty() {
            draft.warn(format!("{given} has no effect: {}", self.no_effect));
        }
        Ok(())
    }
}

impl ValueKind {
    /// Describes the allowed values for error texts. The description of a switch is empty.
    pub fn describe(&self) -> String {
        match *self {
            ValueKind::Nothing(_) => String::new(),
            ValueKind::Number { min, max, unit, .. } => {
                let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
                format!("a whole number from {min} to {max}{unit}")
            }
            ValueKind::Fraction { above, max, .. } if max.is_infinite() => {
                format!("a number above {above}")
            }
            ValueKind::Fraction { above, max, .. } => {
                format!("a number above {above}, up to {max}")
            }
            ValueKind::Size(_) => "a size in bytes, such as 2m, 512k or 1048576".to_owned(),
            ValueKind::Octal(_) => "an octal number, such as 700".to_owned(),
            ValueKind::Choice(words, _) => format!("one of {}", words.join(", ")),
            ValueKind::Text(name, _) | ValueKind::Checked(name, _) => name.to_owned(),
        }
    }

    /// Returns the placeholder for the value in the help, or `None` for a switch.
    pub fn placeholder(&self) -> Option<String> {
        match *self {
            ValueKind::Nothing(_) => None,
            ValueKind::Number { .. } | ValueKind::Fraction { .. } => Some("<num>".to_owned()),
            ValueKind::Size(_) => Some("<size>".to_owned()),
            ValueKind::Octal(_) => Some("<mask>".to_owned()),
            ValueKind::Choice(words, _) => Some(words.join("|")),
            ValueKind::Text(name, _) | ValueKind::Checked(name, _) => Some(format!("<{name}>")),
        }
    }

    /// Parses the value and sets the option. An error describes the allowed values, and the caller prepends the name of
    /// the option to it.
    fn apply(&self, draft: &mut Draft, text: Option<&str>) -> Result<(), String> {
        let missing = || Err(format!("needs {}", self.describe()));
        let Some(text) = text else {
            match *self {
                ValueKind::Nothing(set) => set(draft),
                ValueKind::Number { absent: Some(absent), set, .. } => set(draft, absent),
                _ => return missing(),
            }
            return Ok(());
        };
        let result = match *self {
            // memcached also ignores the value of a switch.
            ValueKind::Nothing(set) => {
                set(draft);
                Some(())
            }
            ValueKind::Number { min, max, set, .. } => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                number.map(|number| set(draft, number))
            }
            ValueKind::Fraction { above, max, set } => {
                let number = text.parse().ok().filter(|&number| number > above && number <= max);
                number.map(|number| set(draft, number))
            }
            ValueKind::Size(set) => parse_size(text).map(|size| set(draft, size)),
            ValueKind::Octal(set) => {
                let mode = i64::from_str_radix(text, 8).ok().and_then(|mode| mode.try_into().ok());
                mode.map(|mode| set(draft, mode))
            }
            ValueKind::Choice(words, set) => {
                words.iter().find(|word| **word == text).map(|word| set(draft, word))
            }
            ValueKind::Text(..) | ValueKind::Checked(..) if text.is_empty() => return missing(),
            ValueKind::Text(_, set) => {
                set(draft, text);
                Some(())
            }
            ValueKind::Checked(_, set) => return set(draft, text),
        };
        result.ok_or_else(|| format!("takes {}, not '{text}'", self.describe()))
    }
}

/// Parses a number of bytes with an optional suffix `k` or `m`.
fn parse_size(text: &str) -> Option<i64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<i64>().ok().filter(|count| *count >= 0)?.checked_mul(unit)
}
