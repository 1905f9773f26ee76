//! Plays one transcript on a new server: sends the requests, and compares the replies. Reports the first difference.

use std::collections::BTreeSet;
use std::time::Duration;

use super::format::{Difference, Exchange, Expected, LineEnd, ServerKind, Step, Transcript};
use super::pattern::matches;
use super::text::{Memory, decode, excerpt};
use crate::support::{Client, Deadline, Server, ServerCommand, is_memcached, pause};

/// The time for which an exchange with `until` is repeated.
const UNTIL_DEADLINE: Duration = Duration::from_secs(15);

/// The way in which requests are written to the socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// The requests of an exchange in one write.
    Whole,
    /// Each byte in its own write. The replies must not depend on how the server receives the bytes.
    Bytewise,
}

/// Plays a transcript against a new server. An error text starts with the number of a line in the transcript.
pub fn play(transcript: &Transcript, command: &ServerCommand, pace: Pace) -> Result<(), String> {
    let mut flags: Vec<&str> = transcript.flags.iter().map(String::as_str).collect();
    if !is_memcached(command) {
        flags.extend(transcript.flags_slabwise.iter().map(String::as_str));
    }
    let server = Server::start(&command.clone().with(&flags));
    let version = version(&server);
    let mut player = Player {
        client: server.connect(),
        memory: Memory::new(),
        pace,
        kind: if is_memcached(command) { ServerKind::Memcached } else { ServerKind::Slabwise },
        version,
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

/// Returns the version that the server reports. Waits for the end of the connection, because a watcher of `connevents`
/// would report it.
fn version(server: &Server) -> String {
    let mut client = server.connect();
    let reply = client.ask("version");
    client.finish_sending();
    client.read_to_end().expect("the server closes a connection that the client has closed");
    reply.strip_prefix("VERSION ").unwrap_or(&reply).to_owned()
}

/// The state while a transcript is played.
struct Player {
    client: Client,
    /// The numbers that patterns stored.
    memory: Memory,
    pace: Pace,
    kind: ServerKind,
    /// The version that the server reports.
    version: String,
}

impl Player {
    /// Sends the requests of an exchange, and compares the reply. Repeats an exchange with `until`.
    fn play_exchange(&mut self, exchange: &Exchange) -> Result<(), String> {
        let deadline = Deadline::after(UNTIL_DEADLINE);
        let expected = exchange.expected_of(self.kind);
        loop {
            let sent = self.send(exchange)?;
            let Err(error) = self.read_reply(&expected) else { return Ok(()) };
            if exchange.until && !deadline.is_over() {
                self.skip_reply()?;
                pause();
                continue;
            }
            // Read the rest of this reply, because it is not the reply to the next exchange.
            let rest = self.client.leftovers();
            if self.may_differ(exchange) {
                return Ok(());
            }
            let (sent, rest) = (excerpt(&sent), excerpt(&rest));
            return Err(format!(
                "{error}\n  the client sent {sent}\n  the rest of the reply is {rest}"
            ));
        }
    }

    /// Reads the rest of a reply. It ends where the reply to an additional `version` request begins.
    fn skip_reply(&mut self) -> Result<(), String> {
        self.client
            .try_send(b"version\r\n")
            .map_err(|error| format!("the server closed the connection: {error}"))?;
        while !self.read_line()?.starts_with(b"VERSION ") {}
        Ok(())
    }

    /// True if the server is memcached, and its version is not the one from which a difference was recorded. Then the
    /// server may send any reply.
    fn may_differ(&self, exchange: &Exchange) -> bool {
        let is_of_another_version = |difference: &Difference| difference.version != self.version;
        self.kind == ServerKind::Memcached && exchange.differences.iter().any(is_of_another_version)
    }

    /// Sends the requests of an exchange. Returns the sent bytes.
    fn send(&mut self, exchange: &Exchange) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for (text, end) in &exchange.sent {
            bytes.extend(decode(text, &self.memory)?);
            if *end == LineEnd::CrLf {
                bytes.extend_from_slice(b"\r\n");
            }
        }
        // The send fails if the server has closed the connection. Then the comparison of the reply fails, unless the
        // transcript expects the closed connection.
        let _ = match self.pace {
            Pace::Whole => self.client.try_send(&bytes),
            Pace::Bytewise => self.client.try_send_bytewise(&bytes),
        };
        Ok(bytes)
    }

    /// Reads a reply, and compares it with the expected reply.
    fn read_reply(&mut self, expected: &[Expected]) -> Result<(), String> {
        let mut any_lines = false;
        for expectation in expected {
            match expectation {
                Expected::AnyLines => {}
                Expected::Line(_) | Expected::Pattern(_) => loop {
                    let line = self.read_line()?;
                    if self.line_matches(expectation, &line)? {
                        break;
                    }
                    if !any_lines {
                        let expected = expectation.describe();
                        return Err(format!("expected {expected}\n  got {}", excerpt(&line)));
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

    /// True if a line of the reply is the expected line, or matches the expected pattern.
    fn line_matches(&mut self, expectation: &Expected, line: &[u8]) -> Result<bool, String> {
        match expectation {
            Expected::Line(text) => Ok(decode(text, &self.memory)? == line),
            Expected::Pattern(pattern) => Ok(matches(pattern, line, &mut self.memory)),
            _ => Ok(false),
        }
    }

    /// Reads `STAT` lines up to `END`, and compares the set of their names. The number of a class, a connection or a
    /// size in a name varies, so `N` replaces a numeric part of a name.
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

    /// Reads as many bytes as are expected, and compares them.
    fn read_bytes(&mut self, text: &str) -> Result<(), String> {
        let expected = decode(text, &self.memory)?;
        let got = self.client.read_at_most(expected.len());
        if got == expected {
            return Ok(());
        }
        Err(format!("expected << {text}\n  got {}", excerpt(&got)))
    }

    /// Reads a line. Returns an error if the server closes the connection.
    fn read_line(&mut self) -> Result<Vec<u8>, String> {
        match self.client.try_read_line() {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err("expected a line, but the server closed the connection".to_owned()),
            Err(error) => Err(format!("expected a line, but reading failed: {error}")),
        }
    }

    /// Checks that the server closes the connection without sending more bytes.
    fn read_end(&mut self) -> Result<(), String> {
        match self.client.read_to_end() {
            Ok(rest) if rest.is_empty() => Ok(()),
            Ok(rest) => {
                Err(format!("expected the end of the connection\n  got {}", excerpt(&rest)))
            }
            Err(error) => {
                Err(format!("expected the end of the connection, but reading failed: {error}"))
            }
        }
    }

    /// Closes the client's side of the connection, and checks that no further bytes arrive.
    fn end_connection(&mut self) -> Result<(), String> {
        self.client.finish_sending();
        self.read_end()
            .map_err(|error| format!(" at the end of a connection ({:?}): {error}", self.pace))
    }
}
