//! A step: one command, with the way in which its bytes are sent.
//!
//! CAS values differ between two servers, so a step does not contain them. It contains placeholders instead, and each
//! server's player replaces a placeholder by the CAS value that its server returned last for a key.

use crate::keys::KEYS;
use std::fmt;

/// The group of commands that a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Commands of the classic text protocol.
    Text,
    /// Commands of the meta protocol. They use the same connection as the classic commands.
    Meta,
    /// Packets of the binary protocol.
    Binary,
}

impl Family {
    /// Returns the dialect of the connection that commands of this family use.
    pub fn dialect(self) -> Dialect {
        match self {
            Family::Text | Family::Meta => Dialect::Text,
            Family::Binary => Dialect::Binary,
        }
    }
}

/// The dialect of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Lines of text.
    Text,
    /// Binary packets.
    Binary,
}

/// A part of the bytes of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The CAS value that the server returned last for the key `KEYS[key]`, plus `offset`. In text it is a decimal
    /// number; in a packet it has 8 bytes.
    Cas { key: usize, offset: i64 },
}

/// The state of the connection after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The client sends a marker command, and the reply of the step ends where the reply to the marker begins.
    Marker,
    /// The client shuts down its sending direction, and the reply of the step ends with the connection. For commands
    /// after which the server may take further bytes for a part of a value, or may close the connection: if it closes the
    /// connection before it has read all bytes, the client may lose replies.
    Finish,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub family: Family,
    pub parts: Vec<Part>,
    /// The index of the command's key in [`KEYS`], from whose replies the player learns the CAS value of this key.
    pub key: Option<usize>,
    pub after: After,
    /// True if the bytes of the next step follow in the same write, if it uses the same connection.
    pub is_joined: bool,
    /// The position at which the bytes of this step are divided into two writes; `None` sends them in one write.
    pub cut: Option<usize>,
    /// True if the players wait, before this step, until no item was used in the current second and the second before.
    pub waits: bool,
}

impl Step {
    /// Returns a step with these bytes, which is sent alone and in one write.
    pub fn new(family: Family, bytes: impl Into<Vec<u8>>) -> Step {
        Step {
            family,
            parts: vec![Part::Bytes(bytes.into())],
            key: None,
            after: After::Marker,
            is_joined: false,
            cut: None,
            waits: false,
        }
    }

    /// Returns the bytes to send. `cas_of` returns the last CAS value of a key.
    pub fn bytes(&self, cas_of: impl Fn(usize) -> u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in &self.parts {
            match *part {
                Part::Bytes(ref part) => bytes.extend_from_slice(part),
                Part::Cas { key, offset } => {
                    let cas = cas_of(key).wrapping_add_signed(offset);
                    match self.family.dialect() {
                        Dialect::Text => bytes.extend_from_slice(cas.to_string().as_bytes()),
                        Dialect::Binary => bytes.extend_from_slice(&cas.to_be_bytes()),
                    }
                }
            }
        }
        bytes
    }

    /// True if this is the command `watch`.
    pub fn is_watch(&self) -> bool {
        self.family == Family::Text && self.bytes(|_| 0).starts_with(b"watch")
    }

    /// Returns a name for the command in counts: its first word, or its opcode.
    pub fn command(&self) -> String {
        let bytes = self.bytes(|_| 0);
        match self.family.dialect() {
            Dialect::Binary => match bytes.get(..2) {
                Some([0x80, opcode]) => format!("{opcode:#04x}"),
                _ => "wrong magic byte".to_owned(),
            },
            Dialect::Text => {
                let word = bytes.split(|&byte| byte == b' ' || byte == b'\r' || byte == b'\n');
                match word.into_iter().next() {
                    Some(word) if word.len() > 1 && word.is_ascii() && is_name(word) => {
                        String::from_utf8_lossy(word).into_owned()
                    }
                    _ => "other lines".to_owned(),
                }
            }
        }
    }
}

/// True if a word can be the name of a command.
fn is_name(word: &[u8]) -> bool {
    word.len() < 20 && word.iter().all(|&byte| byte.is_ascii_lowercase() || byte == b'_')
}

impl fmt::Display for Step {
    /// Writes the bytes with escapes, and the placeholders in braces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.waits {
            f.write_str("(after two seconds) ")?;
        }
        write!(f, "{:?}: ", self.family)?;
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => f.write_str(&excerpt(bytes))?,
                Part::Cas { key, offset } => {
                    write!(f, "{{cas of {}{offset:+}}}", KEYS[*key].escape_ascii())?;
                }
            }
        }
        if let Some(cut) = self.cut {
            write!(f, " (cut at byte {cut})")?;
        }
        if self.is_joined {
            f.write_str(" (with the next)")?;
        }
        if self.after == After::Finish {
            f.write_str(" (end of sending)")?;
        }
        Ok(())
    }
}

/// The number of bytes of a long text that [`excerpt`] shows at each end.
const EXCERPT_LEN: usize = 300;

/// Returns bytes as text with escapes. Leaves out the middle of a long text.
pub fn excerpt(bytes: &[u8]) -> String {
    if bytes.len() <= 2 * EXCERPT_LEN {
        return bytes.escape_ascii().to_string();
    }
    let (start, end) = (&bytes[..EXCERPT_LEN], &bytes[bytes.len() - EXCERPT_LEN..]);
    let left_out = bytes.len() - 2 * EXCERPT_LEN;
    format!("{} ...{left_out} bytes... {}", start.escape_ascii(), end.escape_ascii())
}
