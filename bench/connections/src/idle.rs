//! An idle client: it begins a command, or sends nothing, and completes the command at the end of the test.

use crate::active::excerpt;
use crate::link::{Link, Received};

/// The reply to a store that slabwise refuses, because no byte of its value has arrived for a long time
/// (`-o upload_timeout`). The connection stays open, and the server ignores the rest of the value.
const REFUSED: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// What an idle client sends, and the replies that it accepts.
struct Script {
    /// What it sends when it has connected.
    beginning: &'static [u8],
    /// What it sends at the end of the test.
    rest: &'static [u8],
    /// The possible replies to both together.
    replies: &'static [&'static [u8]],
}

const SCRIPTS: [Script; 3] = [
    Script { beginning: b"", rest: b"mn\r\n", replies: &[b"MN\r\n"] },
    Script { beginning: b"get half-of-", rest: b"a-key\r\n", replies: &[b"END\r\n"] },
    Script {
        beginning: b"set idle 0 0 20\r\nhalf-of-a-",
        rest: b"whole-val!\r\nmn\r\n",
        replies: &[b"STORED\r\nMN\r\n", b"SERVER_ERROR out of memory storing object\r\nMN\r\n"],
    },
];

/// An idle client.
pub struct Idle {
    link: Link,
    script: &'static Script,
    /// True if the client has sent the rest of its command.
    is_completing: bool,
}

/// Whether the server has replied to the whole command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The reply is not complete, or the client has not completed its command.
    Waiting,
    Complete,
}

impl Idle {
    /// Makes the client with this number, and sends the beginning of its command.
    pub fn begin(link: Link, number: usize) -> Result<Idle, String> {
        let script = &SCRIPTS[number % SCRIPTS.len()];
        let mut idle = Idle { link, script, is_completing: false };
        idle.send(script.beginning)?;
        Ok(idle)
    }

    /// Sends the rest of the command.
    pub fn complete(&mut self) -> Result<(), String> {
        self.is_completing = true;
        self.send(self.script.rest)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.link.queue().extend_from_slice(bytes);
        self.link.send().map_err(|error| format!("an idle client cannot send: {error}"))
    }

    /// Sends and receives what is possible. An error describes a wrong reply or the end of the connection.
    pub fn progress(&mut self, buffer: &mut Vec<u8>) -> Result<State, String> {
        let failed = |error| format!("an idle client cannot receive: {error}");
        self.send(b"")?;
        let received = self.link.receive(buffer).map_err(failed)?;
        let state = state_of(self.script, self.is_completing, self.link.received());
        if received == Received::Closed {
            return Err("the server closed an idle connection".to_owned());
        }
        state.ok_or_else(|| {
            format!("a wrong reply to an idle client: {}", excerpt(self.link.received()))
        })
    }
}

/// Returns the state of a client that has received these bytes, or `None` if they are wrong.
fn state_of(script: &Script, is_completing: bool, received: &[u8]) -> Option<State> {
    if !is_completing {
        let may_be_refused = script.replies.iter().any(|reply| reply.starts_with(REFUSED));
        let is_valid = received.is_empty() || may_be_refused && REFUSED.starts_with(received);
        return is_valid.then_some(State::Waiting);
    }
    let reply = script.replies.iter().find(|reply| reply.starts_with(received))?;
    Some(if *reply == received { State::Complete } else { State::Waiting })
}

#[cfg(test)]
mod tests {
    use super::{SCRIPTS, State, state_of};

    #[test]
    fn a_reply_before_the_end_of_the_command_is_wrong_unless_a_store_is_refused() {
        for (index, script) in SCRIPTS.iter().enumerate() {
            assert_eq!(state_of(script, false, b""), Some(State::Waiting));
            assert_eq!(state_of(script, false, b"ERROR\r\n"), None);
            let refused = state_of(script, false, b"SERVER_ERROR out of");
            assert_eq!(refused, (index == 2).then_some(State::Waiting));
        }
    }

    #[test]
    fn the_reply_to_the_whole_command_is_one_of_the_possible_ones() {
        for script in &SCRIPTS {
            for reply in script.replies {
                for len in 0..reply.len() {
                    let state = state_of(script, true, &reply[..len]);
                    assert_eq!(state, Some(State::Waiting));
                }
                assert_eq!(state_of(script, true, reply), Some(State::Complete));
                let longer = [*reply, b"x"].concat();
                assert_eq!(state_of(script, true, &longer), None);
            }
            assert_eq!(state_of(script, true, b"ERROR\r\n"), None);
        }
    }
}
