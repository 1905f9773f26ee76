//! Parses a transcript into steps. The file `README.md` describes the format.

/// One transcript file: the server's flags and the dialogue.
#[derive(Default)]
pub struct Transcript {
    /// Flags for both servers.
    pub flags: Vec<String>,
    /// Flags for slabwise only.
    pub flags_slabwise: Vec<String>,
    /// True if the dialogue is played a second time, byte by byte.
    pub split: bool,
    pub steps: Vec<Step>,
}

/// One step of a dialogue.
pub enum Step {
    Exchange(Exchange),
    Reconnect,
}

/// Requests and their expected reply.
#[derive(Default)]
pub struct Exchange {
    /// The line number at which the exchange starts.
    pub line: usize,
    /// True if the exchange is repeated until the reply is as expected.
    pub until: bool,
    /// The texts to send, with escapes, and their line ends.
    pub sent: Vec<(String, LineEnd)>,
    pub expected: Vec<Expected>,
    /// The replies of memcached, if they differ.
    pub differences: Vec<Difference>,
}

/// The line end that follows a sent text.
#[derive(Clone, Copy, PartialEq)]
pub enum LineEnd {
    CrLf,
    None,
}

/// One part of an expected reply.
#[derive(Clone)]
pub enum Expected {
    /// `< text`: exactly this line.
    Line(String),
    /// `<< text`: exactly these bytes, without a line end.
    Bytes(String),
    /// `<~ pattern`: a line that matches the pattern.
    Pattern(String),
    /// `<...`: any number of lines up to the next expected line.
    AnyLines,
    /// `<stats names`: `STAT` lines with exactly these names in any order, then `END`.
    StatNames(Vec<String>),
    /// `<closed`: the server closes the connection.
    Closed,
}

/// The server that sends a reply.
#[derive(Clone, Copy, PartialEq)]
pub enum Peer {
    Slabwise,
    Memcached,
}

/// A different reply from memcached.
pub struct Difference {
    /// The version of memcached that sent it.
    pub version: String,
    pub expected: Vec<Expected>,
}

impl Transcript {
    /// Parses a whole file; the error starts with the line number.
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

    /// Parses a line that does not belong to an exchange; returns false for any other line.
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

    fn has_reply(&self) -> bool {
        !self.expected.is_empty() || !self.differences.is_empty()
    }

    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        if line == "until" {
            self.until = true;
        } else if let Some(text) = line.strip_prefix(">>") {
            self.sent.push((text.strip_prefix(' ').unwrap_or(text).to_owned(), LineEnd::None));
        } else if let Some(text) = line.strip_prefix('>') {
            self.sent.push((text.strip_prefix(' ').unwrap_or(text).to_owned(), LineEnd::CrLf));
        } else if let Some(rest) = line.strip_prefix("differs memcached-") {
            let (version, reason) = rest.split_once(": ").ok_or("differs takes `: reason`")?;
            if reason.trim().is_empty() {
                return Err("a difference needs its reason".to_owned());
            }
            self.differences.push(Difference { version: version.to_owned(), expected: Vec::new() });
        } else {
            if self.sent.is_empty() {
                return Err("a reply to nothing".to_owned());
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

    /// Returns the expected reply of slabwise, or of memcached if it differs.
    pub fn expected_of(&self, peer: Peer) -> Vec<Expected> {
        let ours = self.expected.clone();
        match peer {
            Peer::Slabwise => ours,
            Peer::Memcached => {
                self.differences.iter().fold(ours, |reply, other| amend(reply, &other.expected))
            }
        }
    }
}

/// Applies a difference to an expected reply: `+name` and `-name` change a list of names, anything else replaces it.
fn amend(mut expected: Vec<Expected>, difference: &[Expected]) -> Vec<Expected> {
    let [Expected::StatNames(changes)] = difference else { return difference.to_vec() };
    for names in &mut expected {
        let Expected::StatNames(names) = names else { continue };
        for change in changes {
            match change.split_at(1) {
                ("+", name) => names.push(name.to_owned()),
                ("-", name) => names.retain(|kept| kept != name),
                _ => panic!("{change:?} in a difference must start with + or -"),
            }
        }
    }
    expected
}

impl Expected {
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
            Err(format!("not a line of a transcript: {line:?}"))
        }
    }

    /// Returns the line as written in the file.
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
