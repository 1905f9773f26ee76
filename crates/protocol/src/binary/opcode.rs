//! The opcodes of the binary protocol's commands, and the lengths of extras, key and value that each command accepts.
//!
//! The names are memcached's. A name that ends in Q is a quiet command. For a get, a K in the name means that the reply
//! contains the key.
#![expect(missing_docs, reason = "the name of an opcode is the name of its command")]

pub const GET: u8 = 0x00;
pub const SET: u8 = 0x01;
pub const ADD: u8 = 0x02;
pub const REPLACE: u8 = 0x03;
pub const DELETE: u8 = 0x04;
pub const INCREMENT: u8 = 0x05;
pub const DECREMENT: u8 = 0x06;
pub const QUIT: u8 = 0x07;
pub const FLUSH: u8 = 0x08;
pub const GETQ: u8 = 0x09;
pub const NOOP: u8 = 0x0a;
pub const VERSION: u8 = 0x0b;
pub const GETK: u8 = 0x0c;
pub const GETKQ: u8 = 0x0d;
pub const APPEND: u8 = 0x0e;
pub const PREPEND: u8 = 0x0f;
pub const STAT: u8 = 0x10;
pub const SETQ: u8 = 0x11;
pub const ADDQ: u8 = 0x12;
pub const REPLACEQ: u8 = 0x13;
pub const DELETEQ: u8 = 0x14;
pub const INCREMENTQ: u8 = 0x15;
pub const DECREMENTQ: u8 = 0x16;
pub const QUITQ: u8 = 0x17;
pub const FLUSHQ: u8 = 0x18;
pub const APPENDQ: u8 = 0x19;
pub const PREPENDQ: u8 = 0x1a;
pub const TOUCH: u8 = 0x1c;
pub const GAT: u8 = 0x1d;
pub const GATQ: u8 = 0x1e;
pub const SASL_LIST_MECHS: u8 = 0x20;
pub const SASL_AUTH: u8 = 0x21;
pub const SASL_STEP: u8 = 0x22;
pub const GATK: u8 = 0x23;
pub const GATKQ: u8 = 0x24;

/// A command. The quiet opcode and the other opcodes of a command have the same `Command`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Get,
    GetAndTouch,
    Touch,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Delete,
    Increment,
    Decrement,
    Quit,
    Flush,
    Noop,
    Version,
    Stat,
    SaslListMechanisms,
    SaslAuth,
    SaslStep,
}

/// Returns the command of an opcode, or `None` if the opcode is unknown. As in memcached, 0x1b (`verbosity`) is
/// unknown.
pub(super) fn command(opcode: u8) -> Option<Command> {
    Some(match opcode {
        GET | GETQ | GETK | GETKQ => Command::Get,
        GAT | GATQ | GATK | GATKQ => Command::GetAndTouch,
        TOUCH => Command::Touch,
        SET | SETQ => Command::Set,
        ADD | ADDQ => Command::Add,
        REPLACE | REPLACEQ => Command::Replace,
        APPEND | APPENDQ => Command::Append,
        PREPEND | PREPENDQ => Command::Prepend,
        DELETE | DELETEQ => Command::Delete,
        INCREMENT | INCREMENTQ => Command::Increment,
        DECREMENT | DECREMENTQ => Command::Decrement,
        QUIT | QUITQ => Command::Quit,
        FLUSH | FLUSHQ => Command::Flush,
        NOOP => Command::Noop,
        VERSION => Command::Version,
        STAT => Command::Stat,
        SASL_LIST_MECHS => Command::SaslListMechanisms,
        SASL_AUTH => Command::SaslAuth,
        SASL_STEP => Command::SaslStep,
        _ => return None,
    })
}

/// True if the command of this opcode is quiet: the server sends a reply only if the reply is an error or, for a get, a
/// hit.
pub(super) fn is_quiet(opcode: u8) -> bool {
    matches!(opcode, GETQ | GETKQ | SETQ..=PREPENDQ | GATQ | GATKQ)
}

/// True if the opcode is that of a get whose reply contains the key.
pub(super) fn reply_has_key(opcode: u8) -> bool {
    matches!(opcode, GETK | GETKQ | GATK | GATKQ)
}

impl Command {
    /// True if a request of this command may have extras, a key and a value of these lengths in bytes.
    pub(super) fn accepts_lengths(
        self,
        extras_len: usize,
        key_len: usize,
        value_len: usize,
    ) -> bool {
        let has_key = key_len > 0;
        let has_value = value_len > 0;
        match self {
            Command::Get | Command::Delete => extras_len == 0 && has_key && !has_value,
            Command::GetAndTouch | Command::Touch => extras_len == 4 && has_key && !has_value,
            Command::Set | Command::Add | Command::Replace => extras_len == 8 && has_key,
            Command::Append | Command::Prepend => extras_len == 0 && has_key,
            Command::Increment | Command::Decrement => extras_len == 20 && has_key && !has_value,
            Command::Flush => matches!(extras_len, 0 | 4) && !has_key && !has_value,
            Command::Stat => extras_len == 0 && !has_value,
            Command::Quit | Command::Noop | Command::Version | Command::SaslListMechanisms => {
                extras_len == 0 && !has_key && !has_value
            }
            Command::SaslAuth | Command::SaslStep => extras_len == 0 && has_key,
        }
    }
}
