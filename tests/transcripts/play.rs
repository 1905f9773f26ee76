//! Plays one dialogue on a new server and reports the first difference.

use std::collections::BTreeSet;
use std::time::Duration;

use super::format::{Difference, Exchange, Expected, LineEnd, Peer, Step, Transcript};
use super::pattern::fits;
use super::text::{Memory, decode, excerpt};
use crate::support::{Client, Deadline, Server, ServerCommand, is_memcached, pause};

/// The longest wait of an `until` step.
const UNTIL_DEADLINE: Duration = Duration::from_secs(15);

/// How the requests are split into writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each exchange in one write.
    Whole,
    /// Each byte in its own write. The replies must not depend on where the server's reads end.
    Bytewise,
}

/// Plays the transcript. The text of an error starts with the line number.
pub fn play(transcript: &Transcript, command: &ServerCommand, pace: Pace) -> Result<(), String> {
    let mut flags: Vec<&str> = transcript.flags.iter().map(String::as_str).collect();
    if !is_memcached(command) {
        flags.extend(transcript.flags_slabwise.iter().map(String::as_str));
    }
    let server = Server::start(&command.clone().with(&flags));
    let mut player = Player {
        client: server.connect(),
        memory: Memory::new(),
        pace,
        peer: if is_memcached(command) { Peer::Memcached } else { Peer::Slabwise },
        version: version(&server),
    };
    for step in &transcript.steps {
        match step {
            Step::Reconnect => {
                player.end_connection()?;
                player.client = server.connect();
            }
            Step::Exchange(exchange) => player
                .play_exchange(exchange)
                .map_err(|error| format!("{}: ({pace:?}) {error}", exchange.line))?,
        }
    }
    player.end_connection()
}

fn version(server: &Server) -> String {
    let reply = server.connect().ask("version");
    reply.strip_prefix("VERSION ").unwrap_or(&reply).to_owned()
}

struct Player {
    client: Client,
    memory: Memory,
    pace: Pace,
    peer: Peer,
    version: String,
}

impl Player {
    fn play_exchange(&mut self, exchange: &Exchange) -> Result<(), String> {
        let deadline = Deadline::after(UNTIL_DEADLINE);
        let expected = exchange.expected_of(self.peer);
        loop {
            let sent = self.send(exchange)?;
            let Err(error) = self.read_reply(&expected) else { return Ok(()) };
            if exchange.until && !deadline.is_over() {
                self.skip_reply()?;
                pause();
                continue;
            }
            // Reads the rest of this reply, so that it is not taken for the next one.
            let rest = self.client.leftovers();
            if self.may_differ(exchange) {
                return Ok(());
            }
            let (sent, rest) = (excerpt(&sent), excerpt(&rest));
            return Err(format!("{error}\n  sent {sent}\n  then came {rest}"));
        }
    }

    /// Reads the rest of a reply, up to the answer to an extra `version` request.
    fn skip_reply(&mut self) -> Result<(), String> {
        self.client.try_send(b"version\r\n").map_err(|error| format!("closed: {error}"))?;
        while !self.read_line()?.starts_with(b"VERSION ") {}
        Ok(())
    }

    /// True if a difference was recorded with another version: this memcached may send either reply.
    fn may_differ(&self, exchange: &Exchange) -> bool {
        let recorded_with_another = |difference: &Difference| difference.version != self.version;
        self.peer == Peer::Memcached && exchange.differences.iter().any(recorded_with_another)
    }

    fn send(&mut self, exchange: &Exchange) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for (text, end) in &exchange.sent {
            bytes.extend(decode(text, &self.memory)?);
            if *end == LineEnd::CrLf {
                bytes.extend_from_slice(b"\r\n");
            }
        }
        // The server may already have closed the connection. The replies show whether that was right.
        let _ = match self.pace {
            Pace::Whole => self.client.try_send(&bytes),
            Pace::Bytewise => self.client.try_send_bytewise(&bytes),
        };
        Ok(bytes)
    }

    fn read_reply(&mut self, expected: &[Expected]) -> Result<(), String> {
        let mut any_lines = false;
        for expectation in expected {
            match expectation {
                Expected::AnyLines => {}
                Expected::Line(_) | Expected::Pattern(_) => loop {
                    let line = self.read_line()?;
                    if self.fits(expectation, &line)? {
                        break;
                    }
                    if !any_lines {
                        let wanted = expectation.describe();
                        return Err(format!("expected {wanted}\n  got {}", excerpt(&line)));
                    }
                },
                Expected::Bytes(text) => self.read_bytes(text)?,
                Expected::StatNames(names) => self.read_stat_names(names)?,
                Expected::Closed => self.read_end()?,
            }
            any_lines = matches!(expectation, Expected::AnyLines);
        }
        Ok(())
    }

    fn fits(&mut self, expectation: &Expected, line: &[u8]) -> Result<bool, String> {
        match expectation {
            Expected::Line(text) => Ok(decode(text, &self.memory)? == line),
            Expected::Pattern(pattern) => Ok(fits(pattern, line, &mut self.memory)),
            _ => Ok(false),
        }
    }

    /// Reads `STAT` lines up to `END` and compares their names as sets. Ids in a name (of a class, a connection or a
    /// size) vary, so a numeric part is read as `N`.
    fn read_stat_names(&mut self, names: &[String]) -> Result<(), String> {
        let expected: BTreeSet<String> = names.iter().cloned().collect();
        let mut got = BTreeSet::new();
        loop {
            let line = String::from_utf8_lossy(&self.read_line()?).into_owned();
            if line == "END" {
                break;
            }
            let name = line.strip_prefix("STAT ").and_then(|rest| rest.split(' ').next());
            let name = name.ok_or_else(|| format!("expected a STAT line\n  got {line}"))?;
            let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            let parts = name.split(':').map(|part| if is_number(part) { "N" } else { part });
            got.insert(parts.collect::<Vec<_>>().join(":"));
        }
        let list = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>().join(" ");
        let missing = list(expected.difference(&got).collect());
        let surplus = list(got.difference(&expected).collect());
        if missing.is_empty() && surplus.is_empty() {
            return Ok(());
        }
        Err(format!("names missing: {missing}\n  names not expected: {surplus}"))
    }

    fn read_bytes(&mut self, text: &str) -> Result<(), String> {
        let expected = decode(text, &self.memory)?;
        let got = self.client.read_at_most(expected.len());
        if got == expected {
            return Ok(());
        }
        Err(format!("expected << {text}\n  got {}", excerpt(&got)))
    }

    fn read_line(&mut self) -> Result<Vec<u8>, String> {
        match self.client.try_read_line() {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err("the connection was closed".to_owned()),
            Err(error) => Err(format!("no reply: {error}")),
        }
    }

    fn read_end(&mut self) -> Result<(), String> {
        match self.client.read_to_end() {
            Ok(rest) if rest.is_empty() => Ok(()),
            Ok(rest) => Err(format!("expected the end\n  got {}", excerpt(&rest))),
            Err(error) => Err(format!("not closed: {error}")),
        }
    }

    /// Closes the connection and checks that no further bytes arrive.
    fn end_connection(&mut self) -> Result<(), String> {
        self.client.finish_sending();
        self.read_end().map_err(|error| format!(" at the end ({:?}): {error}", self.pace))
    }
}
