//! What packets of the binary protocol begin with, and why one cannot be acted on.

/// The part of a request that every command has, and every reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The command's number.
    pub opcode: u8,
    /// The client's own four bytes.
    pub opaque: [u8; 4],
    /// The CAS value that the item must have; 0 if any will do.
    pub cas: u64,
    /// Whether the client wants no answer but an error, or but a hit.
    pub quiet: bool,
    /// Whether the answer to a get repeats the key.
    pub with_key: bool,
}

/// The status of a reply, as its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[expect(missing_docs, reason = "the names say it, and the messages")]
pub enum Status {
    Success = 0x00,
    NotFound = 0x01,
    Exists = 0x02,
    TooLarge = 0x03,
    InvalidArguments = 0x04,
    /// There is nothing to append or prepend to.
    NotStored = 0x05,
    NotNumeric = 0x06,
    AuthError = 0x20,
    /// The mechanism has another step.
    AuthContinue = 0x21,
    UnknownCommand = 0x81,
    /// Nothing could be evicted for the item.
    OutOfMemory = 0x82,
}

impl Status {
    /// The text that comes with the status; clients show it, and some look for it. Empty if none does.
    pub fn message(self) -> &'static [u8] {
        match self {
            Status::Success | Status::AuthContinue => b"",
            Status::NotFound => b"Not found",
            Status::Exists => b"Data exists for key.",
            Status::TooLarge => b"Too large.",
            Status::InvalidArguments => b"Invalid arguments",
            Status::NotStored => b"Not stored.",
            Status::NotNumeric => b"Non-numeric server-side value for incr or decr",
            Status::AuthError => b"Auth failure.",
            Status::UnknownCommand => b"Unknown command",
            Status::OutOfMemory => b"Out of memory",
        }
    }
}

/// Why a request cannot be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Extras and key are longer than the body they are in.
    BadLengths,
    /// The body is longer than any item may be.
    BodyTooLarge,
    /// Extras, key or value are missing, too long, or not the command's.
    BadArguments,
    /// There is no such command.
    UnknownCommand,
    /// No SASL mechanism has such a name.
    MechanismTooLong,
    /// No user authenticates with so much.
    ResponseTooLong,
}

impl Fault {
    /// What to answer.
    pub fn status(self) -> Status {
        match self {
            Fault::BadLengths | Fault::UnknownCommand => Status::UnknownCommand,
            Fault::BodyTooLarge | Fault::BadArguments | Fault::MechanismTooLong => {
                Status::InvalidArguments
            }
            Fault::ResponseTooLong => Status::AuthError,
        }
    }

    /// Whether the connection cannot go on after it, because nobody knows where the next request begins.
    pub fn closes(self) -> bool {
        matches!(self, Fault::BadLengths | Fault::BodyTooLarge | Fault::BadArguments)
    }

    /// Whether it is found before it is asked who the client is.
    pub fn precedes_authentication(self) -> bool {
        matches!(self, Fault::BadLengths | Fault::BodyTooLarge)
    }
}

/// What every request begins with.
pub const REQUEST_MAGIC: u8 = 0x80;
/// What every reply begins with.
pub const REPLY_MAGIC: u8 = 0x81;
/// Bytes of a request before its extras, and of a reply.
pub const HEAD_LEN: usize = 24;
