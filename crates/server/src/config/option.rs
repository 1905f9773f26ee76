//! One option: the row of a table that says all there is to say of it.

use super::settings::{Draft, Running};

/// One option. Parsing, the help, error texts and `stats settings` follow from its row.
#[derive(Clone, Copy)]
pub(super) struct ServerOption {
    /// The long name of a flag, or the name in `-o`.
    pub name: &'static str,
    pub short: Option<char>,
    pub takes: Takes,
    /// As the help shows it.
    pub default: &'static str,
    pub help: &'static str,
    /// Why it changes nothing here, as a warning says; empty for an option that acts.
    pub no_effect: &'static str,
    /// How `stats settings` shows it.
    pub stats: [Option<Stat>; 2],
}

/// A line of `stats settings`.
#[derive(Clone, Copy)]
pub(super) struct Stat {
    pub name: &'static str,
    pub value: fn(&Running<'_>) -> String,
    /// A command that changes it while the server runs, if there is one.
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

/// What an option takes, and how that is set.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    Nothing(fn(&mut Draft)),
    /// A whole number from `min` to `max`, in `unit` (may be empty); without a value `absent`, if there is one.
    Number {
        min: i64,
        max: i64,
        unit: &'static str,
        absent: Option<i64>,
        set: fn(&mut Draft, i64),
    },
    Fraction {
        above: f64,
        max: f64,
        set: fn(&mut Draft, f64),
    },
    /// Bytes, with an optional `k` or `m` behind.
    Size(fn(&mut Draft, i64)),
    Octal(fn(&mut Draft, u32)),
    Choice(&'static [&'static str], fn(&mut Draft, &'static str)),
    /// Any text; the name is for the help.
    Text(&'static str, fn(&mut Draft, &str)),
    /// A text that the setter checks; its error is a whole sentence.
    Checked(&'static str, fn(&mut Draft, &str) -> Result<(), String>),
}

/// The most that counts and times may be.
pub(super) const COUNT_MAX: i64 = i32::MAX as i64;

/// A row of `-o`; without anything else, a switch that sets nothing.
pub(super) const fn option(name: &'static str) -> ServerOption {
    let (takes, default, help, no_effect) = (Takes::Nothing(|_| ()), "", "", "");
    ServerOption { name, short: None, takes, default, help, no_effect, stats: [None, None] }
}

pub(super) const fn switch(name: &'static str, set: fn(&mut Draft)) -> ServerOption {
    option(name).takes(Takes::Nothing(set))
}

pub(super) const fn flag(short: char, name: &'static str) -> ServerOption {
    ServerOption { short: Some(short), ..option(name) }
}

pub(super) const fn switch_flag(
    short: char,
    name: &'static str,
    set: fn(&mut Draft),
) -> ServerOption {
    flag(short, name).takes(Takes::Nothing(set))
}

pub(super) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

impl ServerOption {
    pub const fn takes(self, takes: Takes) -> ServerOption {
        ServerOption { takes, ..self }
    }

    pub const fn number(
        self,
        min: i64,
        max: i64,
        unit: &'static str,
        set: fn(&mut Draft, i64),
    ) -> ServerOption {
        self.takes(Takes::Number { min, max, unit, absent: None, set })
    }

    pub const fn fraction(self, above: f64, max: f64, set: fn(&mut Draft, f64)) -> ServerOption {
        self.takes(Takes::Fraction { above, max, set })
    }

    pub const fn choice(
        self,
        words: &'static [&'static str],
        set: fn(&mut Draft, &'static str),
    ) -> ServerOption {
        self.takes(Takes::Choice(words, set))
    }

    pub const fn text(self, placeholder: &'static str, set: fn(&mut Draft, &str)) -> ServerOption {
        self.takes(Takes::Text(placeholder, set))
    }

    pub const fn checked(
        self,
        placeholder: &'static str,
        set: fn(&mut Draft, &str) -> Result<(), String>,
    ) -> ServerOption {
        self.takes(Takes::Checked(placeholder, set))
    }

    pub const fn size(self, set: fn(&mut Draft, i64)) -> ServerOption {
        self.takes(Takes::Size(set))
    }

    pub const fn default(self, default: &'static str) -> ServerOption {
        ServerOption { default, ..self }
    }

    pub const fn help(self, help: &'static str) -> ServerOption {
        ServerOption { help, ..self }
    }

    pub const fn no_effect(self, no_effect: &'static str) -> ServerOption {
        ServerOption { no_effect, ..self }
    }

    pub const fn stat(self, name: &'static str, value: fn(&Running<'_>) -> String) -> ServerOption {
        self.shown(Stat::new(name, None, value))
    }

    /// Shows what the option set, and this command may change, in `stats settings`.
    pub const fn live_stat(
        self,
        name: &'static str,
        command: &'static str,
        value: fn(&Running<'_>) -> String,
    ) -> ServerOption {
        self.shown(Stat::new(name, Some(command), value))
    }

    const fn shown(self, stat: Stat) -> ServerOption {
        let stats = match self.stats {
            [None, _] => [Some(stat), None],
            [first, _] => [first, Some(stat)],
        };
        ServerOption { stats, ..self }
    }

    /// Sets the option to what `text` means. `given` is how the user named it, for errors and warnings.
    pub fn apply(&self, draft: &mut Draft, given: &str, text: Option<&str>) -> Result<(), String> {
        self.takes.apply(draft, text).map_err(|reason| format!("{given}: {reason}"))?;
        if !self.no_effect.is_empty() {
            draft.warn(format!("{given} has no effect: {}", self.no_effect));
        }
        Ok(())
    }
}

impl Takes {
    /// What the option takes, for messages; empty for a switch.
    pub fn describe(&self) -> String {
        match *self {
            Takes::Nothing(_) => String::new(),
            Takes::Number { min, max, unit, .. } => {
                let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
                format!("a whole number from {min} to {max}{unit}")
            }
            Takes::Fraction { above, max, .. } if max.is_infinite() => {
                format!("a number above {above}")
            }
            Takes::Fraction { above, max, .. } => format!("a number above {above}, up to {max}"),
            Takes::Size(_) => "a size in bytes, such as 2m, 512k or 1048576".to_owned(),
            Takes::Octal(_) => "an octal number, such as 700".to_owned(),
            Takes::Choice(words, _) => format!("one of {}", words.join(", ")),
            Takes::Text(name, _) | Takes::Checked(name, _) => name.to_owned(),
        }
    }

    /// The word that stands for the value in the help; `None` for a switch.
    pub fn placeholder(&self) -> Option<String> {
        match *self {
            Takes::Nothing(_) => None,
            Takes::Number { .. } | Takes::Fraction { .. } => Some("<num>".to_owned()),
            Takes::Size(_) => Some("<size>".to_owned()),
            Takes::Octal(_) => Some("<mask>".to_owned()),
            Takes::Choice(words, _) => Some(words.join("|")),
            Takes::Text(name, _) | Takes::Checked(name, _) => Some(format!("<{name}>")),
        }
    }

    /// Sets what `text` means; an error says what is allowed.
    fn apply(&self, draft: &mut Draft, text: Option<&str>) -> Result<(), String> {
        let needs = || Err(format!("needs {}", self.describe()));
        let Some(text) = text else {
            match *self {
                Takes::Nothing(set) => set(draft),
                Takes::Number { absent: Some(absent), set, .. } => set(draft, absent),
                _ => return needs(),
            }
            return Ok(());
        };
        let done = match *self {
            // memcached ignores what follows a switch; so do we.
            Takes::Nothing(set) => {
                set(draft);
                Some(())
            }
            Takes::Number { min, max, set, .. } => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                number.map(|number| set(draft, number))
            }
            Takes::Fraction { above, max, set } => {
                let number = text.parse().ok().filter(|&number| number > above && number <= max);
                number.map(|number| set(draft, number))
            }
            Takes::Size(set) => read_size(text).map(|size| set(draft, size)),
            Takes::Octal(set) => {
                let mode = i64::from_str_radix(text, 8).ok().and_then(|mode| mode.try_into().ok());
                mode.map(|mode| set(draft, mode))
            }
            Takes::Choice(words, set) => {
                words.iter().find(|word| **word == text).map(|word| set(draft, word))
            }
            Takes::Text(..) | Takes::Checked(..) if text.is_empty() => return needs(),
            Takes::Text(_, set) => {
                set(draft, text);
                Some(())
            }
            Takes::Checked(_, set) => return set(draft, text),
        };
        done.ok_or_else(|| format!("takes {}, not '{text}'", self.describe()))
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
