//! What a client can ask for in the binary protocol.
//!
//! Beside what [`crate::Request`] knows, a request here can carry an expected CAS value, an item to
//! create, and a wish to be quiet; lifetimes have no sign.

use super::Status;
use crate::{Direction, StatsRequest, StoreVerb};

/// What the beginning of some input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// Not a whole request yet.
    Incomplete,
    /// A request.
    Request {
        /// What its reply repeats.
        head: Head,
        /// What is asked for.
        request: Request<'a>,
        /// Bytes of the input that it took. The value of a [`Request::Store`] starts there.
        consumed: usize,
    },
    /// A request that cannot be acted on.
    Refused {
        /// What its reply repeats.
        head: Head,
        /// Why.
        fault: Fault,
        /// Bytes of the input that it took.
        consumed: usize,
        /// Bytes after them that belong to it and mean nothing.
        skip_len: usize,
    },
    /// Not a client of this protocol: close the connection.
    Hangup,
}

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
}

/// One request. Where it says exptime it means the lifetime as on the wire: 0 for ever, up to 30 days
/// from now, and a Unix time beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// get, getk.
    Get {
        /// Which item.
        key: &'a [u8],
        /// Whether the reply repeats the key.
        with_key: bool,
    },
    /// gat, gatk.
    GetAndTouch {
        /// Which item.
        key: &'a [u8],
        /// Its new lifetime.
        exptime: u32,
        /// Whether the reply repeats the key.
        with_key: bool,
    },
    /// touch.
    Touch {
        /// Which item.
        key: &'a [u8],
        /// Its new lifetime.
        exptime: u32,
    },
    /// set, add, replace, append, prepend: the value follows.
    Store(StoreOrder<'a>),
    /// delete.
    Delete {
        /// What to delete.
        key: &'a [u8],
    },
    /// increment, decrement.
    Arithmetic {
        /// Which number.
        key: &'a [u8],
        /// Up or down.
        direction: Direction,
        /// By how much.
        delta: u64,
        /// The number to store if there is no item, and its lifetime; none is stored without.
        initial: Option<(u64, u32)>,
    },
    /// quit: close the connection.
    Quit,
    /// flush: everything stored until then is gone; at once for 0.
    Flush {
        /// When.
        exptime: u32,
    },
    /// noop.
    Noop,
    /// version.
    Version,
    /// stat.
    Stats(StatsRequest<'a>),
    /// Which SASL mechanisms there are.
    SaslListMechanisms,
    /// Begins to authenticate.
    SaslAuth {
        /// The mechanism's name, 1 to 32 bytes.
        mechanism: &'a [u8],
        /// What the client says first; empty if it waits to be asked.
        response: &'a [u8],
    },
    /// Goes on authenticating.
    SaslStep {
        /// What the client answers.
        response: &'a [u8],
    },
}

/// A storage command without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOrder<'a> {
    /// What to do; never [`StoreVerb::Cas`], as any verb can come with a CAS value.
    pub verb: StoreVerb,
    /// Where.
    pub key: &'a [u8],
    /// The client's own 32 bits.
    pub client_flags: u32,
    /// The lifetime as on the wire: see [`Request`].
    pub exptime: u32,
    /// Bytes of the value that follows.
    pub value_len: usize,
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
