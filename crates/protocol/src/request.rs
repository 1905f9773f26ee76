//! The requests of all dialects, and the form of their replies.
//!
//! Requests borrow from the input. Two kinds are incomplete, because the rest may be larger than any buffer: a
//! retrieval's keys and a [`Store`]'s value are in the bytes after it.
//!
//! An [`Answer`] has the data that a reply needs besides the outcome of the operation. It borrows nothing, because a
//! value may arrive long after its line is discarded.
#![expect(missing_docs, reason = "some names need no explanation")]

use crate::admin::{Admin, StatsRequest};
use crate::words::Exptime;
use slabwise_base::Cost;

/// One request. Keys are as sent: in base64 if the [`Answer`] says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// get, gets, gat, gats, whose keys follow. gat and gats set this expiry for each item found.
    Retrieve(Option<Exptime>),
    Get(Get<'a>),
    /// set, add, replace, append, prepend, cas, whose value follows.
    Store(Store<'a>),
    Delete(Delete<'a>),
    /// incr, decr.
    Arithmetic(Arithmetic<'a>),
    /// touch: sets an item's expiry.
    Touch(&'a [u8], Exptime),
    /// me: returns an item's metadata.
    Examine(&'a [u8]),
    /// mn, noop: only a reply.
    NoOp,
    Version,
    Quit,
    Stats(StatsRequest<'a>),
    Admin(Admin<'a>),
    /// A step of SASL authentication.
    Sasl(Sasl<'a>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get<'a> {
    pub key: &'a [u8],
    /// The expiry to set if the item is found.
    pub touch: Option<Exptime>,
    /// The empty item to create on a miss.
    pub vivify: Option<Vivify>,
    /// One client is asked to recache the item if it expires before this.
    pub recache: Option<Exptime>,
    /// True if the get does not count as an access of the item.
    pub leaves_no_mark: bool,
}

/// An item to create on a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vivify {
    pub exptime: Exptime,
    /// Its CAS value, instead of the server's next one.
    pub cas: Option<u64>,
}

/// The storage commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreVerb {
    #[default]
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Stores if the existing item has this CAS value.
    Cas(u64),
}

/// A storage command without its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Store<'a> {
    pub verb: StoreVerb,
    pub key: &'a [u8],
    /// The client's own 32 bits.
    pub client_flags: u32,
    pub exptime: Exptime,
    /// The item's client-supplied cost to recompute.
    pub cost: Option<Cost>,
    /// The length of the value that follows, without its line end.
    pub value_len: usize,
    /// The CAS value that the existing item must have, for any verb.
    pub expected_cas: Option<u64>,
    /// The new item's CAS value, instead of the server's next one.
    pub new_cas: Option<u64>,
    /// True if a value with an older CAS value is stored anyway, as stale.
    pub stale_allowed: bool,
    /// True if append and prepend store the value if there is no item.
    pub vivify: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete<'a> {
    pub key: &'a [u8],
    pub expected_cas: Option<u64>,
    /// The item to leave in its place.
    pub leaves: Leave,
}

/// The item that a delete leaves in place of the deleted one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
    #[default]
    Nothing,
    /// The item, marked as stale.
    Stale {
        /// Its new expiry, if any.
        exptime: Option<Exptime>,
        /// Its CAS value, instead of the server's next one.
        new_cas: Option<u64>,
    },
    /// An item with an empty value.
    Empty {
        /// The client's own 32 bits.
        client_flags: u32,
        exptime: Exptime,
        stale: bool,
        new_cas: Option<u64>,
    },
}

/// An increment or decrement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    pub key: &'a [u8],
    pub direction: Direction,
    pub delta: u64,
    pub expected_cas: Option<u64>,
    /// The item's new CAS value, instead of the server's next one.
    pub new_cas: Option<u64>,
    pub touch: Option<Exptime>,
    /// The number to store if there is no item.
    pub initial: Option<Initial>,
}

/// A number to store if there is no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    pub value: u64,
    pub exptime: Exptime,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    #[default]
    Increment,
    Decrement,
}

/// Authentication in the binary protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sasl<'a> {
    ListMechanisms,
    /// Starts the authentication.
    Auth {
        /// The mechanism's name, 1 to 32 bytes.
        mechanism: &'a [u8],
        /// The initial response; empty if the client waits for a challenge.
        response: &'a [u8],
    },
    /// Continues the authentication with a response.
    Step(&'a [u8]),
}

impl<'a> Request<'a> {
    /// The request's key as sent; empty if there is none, or if there are several.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        match *self {
            Request::Get(Get { key, .. })
            | Request::Store(Store { key, .. })
            | Request::Delete(Delete { key, .. })
            | Request::Arithmetic(Arithmetic { key, .. })
            | Request::Touch(key, _)
            | Request::Examine(key) => key,
            _ => b"",
        }
    }
}

/// The form of a request's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Lines of the classic text protocol.
    Text(TextAnswer),
    /// A line of the meta protocol, with these flags.
    Meta(Echo),
    /// A packet that repeats parts of this head.
    Binary(Head),
}

/// The form of a reply in the classic text protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextAnswer {
    /// True if the client wants no reply, not even an error.
    pub noreply: bool,
    /// True if each value is sent with its CAS value.
    pub with_cas: bool,
}

impl Answer {
    /// The bytes that follow a value on the wire.
    #[inline]
    pub fn value_end(&self) -> &'static [u8] {
        match self {
            Answer::Text(_) | Answer::Meta(_) => b"\r\n",
            Answer::Binary(_) => b"",
        }
    }
}

/// The result of parsing the start of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// The request is not complete yet.
    Incomplete,
    /// The client does not use this protocol: close the connection.
    Hangup,
    Request {
        request: Request<'a>,
        answer: Answer,
        /// The number of input bytes consumed. A retrieval's keys or a store's value follow them.
        consumed: usize,
    },
    /// An invalid request.
    Refused {
        refusal: Refusal,
        /// The number of input bytes consumed.
        consumed: usize,
        /// The number of bytes after them to skip, because they belong to the request.
        skip_len: usize,
    },
}

/// The reply to an invalid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The reply to a line, including its end; empty if the client wants none.
    Line(&'static [u8]),
    /// The packet's head, and the error.
    Packet(Head, Fault),
}

impl Parsed<'_> {
    /// Returns the end of the request in an input of this length, if the request is complete and about at most one
    /// item. The bytes after it are then another request, even if this one fails.
    #[inline]
    pub fn end(&self, input_len: usize) -> Option<usize> {
        let Parsed::Request { request, answer, consumed } = self else { return None };
        match request {
            Request::Get(_)
            | Request::Delete(_)
            | Request::Arithmetic(_)
            | Request::Touch(..)
            | Request::Examine(_)
            | Request::NoOp => Some(*consumed),
            Request::Store(store) => {
                let end = consumed + store.value_len + answer.value_end().len();
                (end <= input_len).then_some(end)
            }
            _ => None,
        }
    }
}

/// The maximum number of flags of a request: as in memcached, a line has at most 20 words, including command and key.
pub const FLAG_COUNT_MAX: usize = 18;

/// The maximum length of an opaque token, including its letter.
pub const OPAQUE_LEN_MAX: usize = 32;

/// The flags of a meta request in order, with the other data that its reply depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// A bit for each letter.
    seen: u64,
    /// True if the key is in base64, in the request and in the reply.
    pub key_is_base64: bool,
    /// The value is omitted if the item has this CAS value.
    pub unless_cas: Option<u64>,
    letters: [u8; FLAG_COUNT_MAX],
    len: u8,
    opaque_len: u8,
    opaque: [u8; OPAQUE_LEN_MAX],
}

impl Echo {
    /// An echo without flags.
    pub const EMPTY: Echo = Echo {
        seen: 0,
        key_is_base64: false,
        unless_cas: None,
        letters: [0; FLAG_COUNT_MAX],
        len: 0,
        opaque_len: 0,
        opaque: [0; OPAQUE_LEN_MAX],
    };

    /// The letters of the flags, in order.
    #[inline]
    pub fn letters(&self) -> &[u8] {
        &self.letters[..usize::from(self.len)]
    }

    /// The opaque token, including its letter.
    pub fn opaque(&self) -> &[u8] {
        &self.opaque[..usize::from(self.opaque_len)]
    }

    /// True if the request has this flag.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.seen & bit(letter) != 0
    }

    /// True if the request has both flags, in this order.
    pub fn has_before(&self, first: u8, second: u8) -> bool {
        let at = |flag| self.letters().iter().position(|&letter| letter == flag);
        at(first).is_some_and(|first| at(second).is_some_and(|second| first < second))
    }

    /// Adds a letter; returns false if there are too many.
    #[inline]
    pub(crate) fn push(&mut self, letter: u8, count_max: usize) -> bool {
        let count = usize::from(self.len);
        if count == count_max {
            return false;
        }
        self.letters[count] = letter;
        self.len += 1;
        true
    }

    /// Records a known flag; returns false if it is a duplicate.
    #[inline]
    pub(crate) fn note(&mut self, letter: u8) -> bool {
        let is_new = !self.has(letter);
        self.seen |= bit(letter);
        is_new
    }

    /// Copies the opaque token; returns false if it is too long.
    pub(crate) fn keep_opaque(&mut self, token: &[u8]) -> bool {
        let Some(place) = self.opaque.get_mut(..token.len()) else { return false };
        place.copy_from_slice(token);
        self.opaque_len = token.len() as u8;
        true
    }
}

/// Returns the bit of a letter from `A` to `z`.
#[inline]
pub(crate) const fn bit(letter: u8) -> u64 {
    1 << (letter - b'A')
}

/// The head of a binary request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The command's number.
    pub opcode: u8,
    /// The client's own four bytes, which the reply repeats.
    pub opaque: [u8; 4],
    /// The CAS value that the item must have; 0 for any.
    pub cas: u64,
    /// True if the client wants only errors, or for a get only a hit.
    pub quiet: bool,
    /// True if the reply to a get has the key.
    pub with_key: bool,
}

/// The status of a binary reply, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    Success = 0x00,
    NotFound = 0x01,
    Exists = 0x02,
    TooLarge = 0x03,
    InvalidArguments = 0x04,
    /// An append or prepend found no item.
    NotStored = 0x05,
    NotNumeric = 0x06,
    AuthError = 0x20,
    /// The mechanism needs another step.
    AuthContinue = 0x21,
    UnknownCommand = 0x81,
    OutOfMemory = 0x82,
}

impl Status {
    /// The text that is sent with the status; may be empty. Some clients depend on it.
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

/// The error in a binary request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Extras and key together are longer than the body.
    BadLengths,
    /// The body is longer than [`BODY_LEN_MAX`](crate::BODY_LEN_MAX).
    BodyTooLarge,
    /// Extras, key or value are missing, too long, or not allowed.
    BadArguments,
    UnknownCommand,
    /// The name of the SASL mechanism is too long.
    MechanismTooLong,
    /// The SASL response is too long.
    ResponseTooLong,
}

impl Fault {
    /// The status of the reply.
    pub fn status(self) -> Status {
        match self {
            Fault::BadLengths | Fault::UnknownCommand => Status::UnknownCommand,
            Fault::BodyTooLarge | Fault::BadArguments | Fault::MechanismTooLong => {
                Status::InvalidArguments
            }
            Fault::ResponseTooLong => Status::AuthError,
        }
    }

    /// True if the connection must be closed, because the start of the next request is unknown.
    pub fn closes(self) -> bool {
        matches!(self, Fault::BadLengths | Fault::BodyTooLarge | Fault::BadArguments)
    }

    /// True if the error is detected before authentication is checked.
    pub fn precedes_authentication(self) -> bool {
        matches!(self, Fault::BadLengths | Fault::BodyTooLarge)
    }
}

/// The first byte of every binary request.
pub const REQUEST_MAGIC: u8 = 0x80;
/// The first byte of every binary reply.
pub const REPLY_MAGIC: u8 = 0x81;
/// The length of the head of a binary request or reply in bytes.
pub const HEAD_LEN: usize = 24;
