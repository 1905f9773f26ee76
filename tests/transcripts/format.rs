//! Parses a transcript into steps. The file `README.md` describes the format.

/// A parsed transcript: the server's flags and the steps of the dialogue.
#[derive(Default)]
pub struct Transcript {
    /// Flags for both servers.
    pub flags: Vec<String>,
    /// Flags for slabwise only.
    pub flags_slabwise: Vec<String>,
    /// True if the transcript is played a second time, byte by byte.
    pub split: bool,
    pub steps: Vec<Step>,
}

/// One step of a dialogue.
pub enum Step {
    Exchange(Exchange),
    /// The client closes its connection and opens another one.
    Reconnect,
}

/// Requests and their expected reply.
#[derive(Default)]
pub struct Exchange {
    /// The number of the line in the transcript at which the exchange starts.
    pub line: usize,
    /// True if the exchange is repeated until the reply is as expected.
    pub until: bool,
    /// The texts that the client sends, with escapes, and the line end of each text.
    pub sent: Vec<(String, LineEnd)>,
    /// The reply that slabwise must send.
    pub expected: Vec<Expected>,
    /// The replies of memcached that differ from `expected`; empty if memcached must send the same reply.
    pub differences: Vec<Difference>,
}

/// The line end that the client sends after a text.
#[derive(Clone, Copy, PartialEq)]
pub enum LineEnd {
    CrLf,
    None,
}

/// One part of an expected reply.
#[derive(Clone)]
pub enum Expected {
    /// `< text`: the next line is exactly this text.
    Line(String),
    /// `<< text`: the next bytes are exactly these, without a line end.
    Bytes(String),
    /// `<~ pattern`: the next line matches the pattern.
    Pattern(String),
    /// `<...`: any number of lines follow, up to the next expected line.
    AnyLines,
    /// `<stats names`: `STAT` lines with exactly these names follow in any order, then `END`.
    StatNames(Vec<String>),
    /// `<closed`: the server closes the connection.
    Closed,
}

/// The kind of server against which a transcript is played.
#[derive(Clone, Copy, PartialEq)]
pub enum ServerKind {
    Slabwise,
    Memcached,
}

/// A reply of memcached that differs from that of slabwise.
pub struct Difference {
    /// The version of memcached from which the reply was recorded.
    pub version: String,
    /// The reply of memcached, or the changes to a list of names.
    pub expected: Vec<Expected>,
}

impl Transcript {
    /// Parses the text of a transcript. An error text starts with the number of the invalid line.
    pub fn parse(source: &str) -> Result<Transcript, String> {
        let mut transcript = Transcript::default();
        let mut exchange = Exchange::default();
        for (index, line) in source.lines().enumerate() {
            if line.starts_with('#') {
                continue;
            }
            if exchange.ends_before(line) {
                transcript.add(std::mem::take(&mut exchange));
            }
            if exchange.line == 0 {
                exchange.line = index + 1;
            }
            if !line.is_empty() && !transcript.parse_directive(line) {
                exchange.parse_line(line).map_err(|error| format!("{}: {error}", index + 1))?;
            }
        }
        transcript.add(exchange);
        Ok(transcript)
    }

    /// Parses a line that does not belong to an exchange. Returns false if the line belongs to an exchange.
    fn parse_directive(&mut self, line: &str) -> bool {
        let words = |list: &str| list.split_whitespace().map(str::to_owned).collect();
        if let Some(flags) = line.strip_prefix("server:") {
            self.flags = words(flags);
        } else if let Some(flags) = line.strip_prefix("server slabwise:") {
            self.flags_slabwise = words(flags);
        } else if line == "split" {
            self.split = true;
        } else if line == "reconnect" {
            self.steps.push(Step::Reconnect);
        } else {
            return false;
        }
        true
    }

    /// Adds an exchange, unless it is empty.
    fn add(&mut self, exchange: Exchange) {
        if !exchange.sent.is_empty() {
            self.steps.push(Step::Exchange(exchange));
        }
    }
}

impl Exchange {
    /// True if the line ends this exchange: an empty line, or a request after a reply.
    fn ends_before(&self, line: &str) -> bool {
        let starts_another = line.starts_with('>') || line == "until" || line == "reconnect";
        line.is_empty() || (starts_another && self.has_reply())
    }

    /// True if a part of the expected reply has been parsed.
    fn has_reply(&self) -> bool {
        !self.expected.is_empty() || !self.differences.is_empty()
    }

    /// Parses a line that belongs to the exchange.
    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        if line == "until" {
            self.until = true;
        } else if let Some(text) = line.strip_prefix(">>") {
            self.sent.push((text.strip_prefix(' ').unwrap_or(text).to_owned(), LineEnd::None));
        } else if let Some(text) = line.strip_prefix('>') {
            self.sent.push((text.strip_prefix(' ').unwrap_or(text).to_owned(), LineEnd::CrLf));
        } else if let Some(rest) = line.strip_prefix("differs memcached-") {
            let (version, reason) =
                rest.split_once(": ").ok_or("write `differs memcached-VERSION: reason`")?;
            if reason.trim().is_empty() {
                return Err("the reason of the difference is missing after the colon".to_owned());
            }
            self.differences.push(Difference { version: version.to_owned(), expected: Vec::new() });
        } else {
            if self.sent.is_empty() {
                return Err(
                    "a reply needs a request before it: a line that starts with >".to_owned()
                );
            }
            let replies = match self.differences.last_mut() {
                Some(difference) => &mut difference.expected,
                None => &mut self.expected,
            };
            match (replies.last_mut(), Expected::parse(line)?) {
                // A long list of names can span several lines.
                (Some(Expected::StatNames(names)), Expected::StatNames(more)) => names.extend(more),
                (_, expected) => replies.push(expected),
            }
        }
        Ok(())
    }

    /// Returns the reply that a server of this kind must send.
    pub fn expected_of(&self, kind: ServerKind) -> Vec<Expected> {
        let of_slabwise = self.expected.clone();
        match kind {
            ServerKind::Slabwise => of_slabwise,
            ServerKind::Memcached => self
                .differences
                .iter()
                .fold(of_slabwise, |reply, other| apply_difference(reply, &other.expected)),
        }
    }
}

/// Returns the expected reply with a difference applied: `+name` and `-name` add and remove names in a list of
/// statistics. Any other difference replaces the whole reply.
fn apply_difference(mut expected: Vec<Expected>, difference: &[Expected]) -> Vec<Expected> {
    let [Expected::StatNames(changes)] = difference else { return difference.to_vec() };
    for names in &mut expected {
        let Expected::StatNames(names) = names else { continue };
        for change in changes {
            match change.split_at(1) {
                ("+", name) => names.push(name.to_owned()),
                ("-", name) => names.retain(|kept| kept != name),
                _ => panic!("a name in a difference of <stats starts with + or -, not {change:?}"),
            }
        }
    }
    expected
}

impl Expected {
    /// Parses a line of the expected reply.
    fn parse(line: &str) -> Result<Expected, String> {
        let text = |rest: &str| rest.strip_prefix(' ').unwrap_or(rest).to_owned();
        if line == "<..." {
            Ok(Expected::AnyLines)
        } else if line == "<closed" {
            Ok(Expected::Closed)
        } else if let Some(names) = line.strip_prefix("<stats") {
            Ok(Expected::StatNames(names.split_whitespace().map(str::to_owned).collect()))
        } else if let Some(bytes) = line.strip_prefix("<<") {
            Ok(Expected::Bytes(text(bytes)))
        } else if let Some(pattern) = line.strip_prefix("<~") {
            Ok(Expected::Pattern(text(pattern)))
        } else if let Some(exact) = line.strip_prefix('<') {
            Ok(Expected::Line(text(exact)))
        } else {
            Err(format!("the line {line:?} does not start as README.md describes"))
        }
    }

    /// Returns this part of the reply as it is written in a transcript.
    pub fn describe(&self) -> String {
        match self {
            Expected::Line(text) => format!("< {text}"),
            Expected::Bytes(text) => format!("<< {text}"),
            Expected::Pattern(pattern) => format!("<~ {pattern}"),
            Expected::AnyLines => "<...".to_owned(),
            Expected::StatNames(names) => format!("<stats {}", names.join(" ")),
            Expected::Closed => "<closed".to_owned(),
        }
    }
}
