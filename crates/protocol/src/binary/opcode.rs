//! The numbers of the commands, and what each must come with.

/// Look-up.
pub const GET: u8 = 0x00;
/// Stores in any case.
pub const SET: u8 = 0x01;
/// Stores if there is no item.
pub const ADD: u8 = 0x02;
/// Stores if there is one.
pub const REPLACE: u8 = 0x03;
/// Deletes.
pub const DELETE: u8 = 0x04;
/// Adds to a number.
pub const INCREMENT: u8 = 0x05;
/// Subtracts from a number.
pub const DECREMENT: u8 = 0x06;
/// Closes the connection.
pub const QUIT: u8 = 0x07;
/// Ends all items.
pub const FLUSH: u8 = 0x08;
/// [`GET`], silent on a miss.
pub const GETQ: u8 = 0x09;
/// Nothing; its reply tells that what came before it is done.
pub const NOOP: u8 = 0x0a;
/// The server's version.
pub const VERSION: u8 = 0x0b;
/// [`GET`] with the key in its reply.
pub const GETK: u8 = 0x0c;
/// [`GETK`], silent on a miss.
pub const GETKQ: u8 = 0x0d;
/// Adds at the end of a value.
pub const APPEND: u8 = 0x0e;
/// Adds before a value.
pub const PREPEND: u8 = 0x0f;
/// Statistics.
pub const STAT: u8 = 0x10;
/// [`SET`], silent unless it fails.
pub const SETQ: u8 = 0x11;
/// [`ADD`], silent unless it fails.
pub const ADDQ: u8 = 0x12;
/// [`REPLACE`], silent unless it fails.
pub const REPLACEQ: u8 = 0x13;
/// [`DELETE`], silent unless it fails.
pub const DELETEQ: u8 = 0x14;
/// [`INCREMENT`], silent unless it fails.
pub const INCREMENTQ: u8 = 0x15;
/// [`DECREMENT`], silent unless it fails.
pub const DECREMENTQ: u8 = 0x16;
/// [`QUIT`] without a reply.
pub const QUITQ: u8 = 0x17;
/// [`FLUSH`], silent unless it fails.
pub const FLUSHQ: u8 = 0x18;
/// [`APPEND`], silent unless it fails.
pub const APPENDQ: u8 = 0x19;
/// [`PREPEND`], silent unless it fails.
pub const PREPENDQ: u8 = 0x1a;
/// Changes when an item ends.
pub const TOUCH: u8 = 0x1c;
/// [`TOUCH`] and [`GET`].
pub const GAT: u8 = 0x1d;
/// [`GAT`], silent on a miss.
pub const GATQ: u8 = 0x1e;
/// Which mechanisms authenticate.
pub const SASL_LIST_MECHS: u8 = 0x20;
/// Begins to authenticate.
pub const SASL_AUTH: u8 = 0x21;
/// Goes on authenticating.
pub const SASL_STEP: u8 = 0x22;
/// [`GAT`] with the key in its reply.
pub const GATK: u8 = 0x23;
/// [`GATK`], silent on a miss.
pub const GATKQ: u8 = 0x24;

/// What an opcode means, quiet or not.
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

/// The command behind an opcode. As in memcached, `verbosity` (0x1b) is none.
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

/// Whether the client wants no answer but an error, or but a hit.
pub(super) fn is_quiet(opcode: u8) -> bool {
    matches!(opcode, GETQ | GETKQ | SETQ..=PREPENDQ | GATQ | GATKQ)
}

/// Whether the answer to a get repeats its key.
pub(super) fn names_key(opcode: u8) -> bool {
    matches!(opcode, GETK | GETKQ | GATK | GATKQ)
}

impl Command {
    /// Whether the command comes with extras, key and value of these lengths.
    pub(super) fn takes(self, extras_len: usize, key_len: usize, value_len: usize) -> bool {
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
