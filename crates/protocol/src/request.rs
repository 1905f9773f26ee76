//! What a client can ask for, whatever dialect it speaks, and how it is answered.
//!
//! Requests borrow from the bytes they were read from. Two kinds are only a beginning, because what
//! follows may be larger than any buffer: a retrieval's keys and a [`Store`]'s value are
//! read from the bytes after it.
//!
//! An [`Answer`] holds what a reply needs that is no part of the operation. It borrows nothing, because a value may
//! arrive long after its line is gone.
#![expect(missing_docs, reason = "some names say all that there is to say")]

use crate::admin::{Admin, StatsRequest};
use crate::words::Exptime;
use slabwise_base::Cost;

/// One request. A key is as it stands on the wire: in base64 where the [`Answer`](crate::Answer) says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// get, gets, gat, gats: the keys follow. Every item that is found is given this lifetime.
    Retrieve(Option<Exptime>),
    Get(Get<'a>),
    /// set, add, replace, append, prepend, cas: the value follows.
    Store(Store<'a>),
    Delete(Delete<'a>),
    /// incr, decr.
    Arithmetic(Arithmetic<'a>),
    /// touch: an item's new lifetime.
    Touch(&'a [u8], Exptime),
    /// me: what is known of an item.
    Examine(&'a [u8]),
    /// mn, noop: nothing but an answer.
    NoOp,
    Version,
    /// quit: close the connection.
    Quit,
    Stats(StatsRequest<'a>),
    Admin(Admin<'a>),
    /// A step of authenticating.
    Sasl(Sasl<'a>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get<'a> {
    pub key: &'a [u8],
    /// A new lifetime, if it is found.
    pub touch: Option<Exptime>,
    /// An empty item to make, if there is none.
    pub vivify: Option<Vivify>,
    /// With less than this to live, an item is to be stored anew.
    pub recache: Option<Exptime>,
    /// Leaves the item as unused as it was.
    pub leaves_no_mark: bool,
}

/// An item that is made where there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vivify {
    pub exptime: Exptime,
    /// Its CAS value, if not the server's next.
    pub cas: Option<u64>,
}

/// What a storage command does with the item that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreVerb {
    #[default]
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Stores if what is there still has this CAS value.
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
    /// What the item costs to recompute, where the client says so.
    pub cost: Option<Cost>,
    /// Bytes of the value that follows, without its end of line.
    pub value_len: usize,
    /// The CAS value that the item must have, whatever the verb.
    pub expected_cas: Option<u64>,
    /// The item's CAS value, if not the server's next.
    pub new_cas: Option<u64>,
    /// A value that comes too late for its CAS value is stored all the same, as stale.
    pub stale_allowed: bool,
    /// append and prepend store the value as it is where there is no item.
    pub vivify: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete<'a> {
    pub key: &'a [u8],
    pub expected_cas: Option<u64>,
    /// What is left in its place.
    pub leaves: Leave,
}

/// What a delete leaves in the item's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
    #[default]
    Nothing,
    /// The item, stale.
    Stale {
        /// Its new lifetime, if it is given one.
        exptime: Option<Exptime>,
        /// Its CAS value, if not the server's next.
        new_cas: Option<u64>,
    },
    /// An item without a value.
    Empty {
        /// The client's own 32 bits.
        client_flags: u32,
        exptime: Exptime,
        stale: bool,
        new_cas: Option<u64>,
    },
}

/// A change of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    pub key: &'a [u8],
    pub direction: Direction,
    pub delta: u64,
    pub expected_cas: Option<u64>,
    /// Its CAS value afterwards, if not the server's next.
    pub new_cas: Option<u64>,
    pub touch: Option<Exptime>,
    /// The number to store where there is none.
    pub initial: Option<Initial>,
}

/// A number that is stored where there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    pub value: u64,
    pub exptime: Exptime,
}

/// incr or decr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    #[default]
    Increment,
    Decrement,
}

/// Authentication in the binary protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sasl<'a> {
    /// Which mechanisms there are.
    ListMechanisms,
    /// Begins to authenticate.
    Auth {
        /// The mechanism's name, 1 to 32 bytes.
        mechanism: &'a [u8],
        /// What the client says first; empty if it waits to be asked.
        response: &'a [u8],
    },
    /// Goes on authenticating with what the client answers.
    Step(&'a [u8]),
}

impl<'a> Request<'a> {
    /// The one key that the request names, as it stands on the wire; empty if it names none, or several.
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

/// How a request is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// In lines of the classic text protocol.
    Text(TextAnswer),
    /// In a line of the meta protocol.
    Meta(Echo),
    /// In a packet that repeats this.
    Binary(Head),
}

/// What a client of the classic text protocol wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextAnswer {
    /// Nothing, not even an error.
    pub noreply: bool,
    /// Each value with its CAS value.
    pub with_cas: bool,
}

impl Answer {
    /// What follows a value on the wire.
    #[inline]
    pub fn value_end(&self) -> &'static [u8] {
        match self {
            Answer::Text(_) | Answer::Meta(_) => b"\r\n",
            Answer::Binary(_) => b"",
        }
    }
}

/// What the beginning of some input is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// Not a whole request yet.
    Incomplete,
    /// Not a client of this protocol: close the connection.
    Hangup,
    Request {
        request: Request<'a>,
        answer: Answer,
        /// Bytes of the input that it took. A retrieval's keys or a store's value start there.
        consumed: usize,
    },
    /// A request that cannot be acted on.
    Refused {
        refusal: Refusal,
        /// Bytes of the input that it took.
        consumed: usize,
        /// Bytes after them that belong to it and mean nothing.
        skip_len: usize,
    },
}

/// Why a request cannot be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// What to answer a line, its end included; empty if the client wants none.
    Line(&'static [u8]),
    /// What the reply to a packet repeats, and what is wrong with it.
    Packet(Head, Fault),
}

impl Parsed<'_> {
    /// Where in an input of this length the request ends, if it is about one item or none and all of it is at
    /// hand. Then what follows is another request, whatever comes of this one.
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

/// The most flags of a request; memcached counts 20 words with command and key.
pub const FLAG_COUNT_MAX: usize = 18;

/// The most bytes of an opaque token with its letter.
pub const OPAQUE_LEN_MAX: usize = 32;

/// The flags of a request in order, and what else its reply depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// A bit for each letter.
    seen: u64,
    /// The key came in base64, and so is answered in base64.
    pub key_is_base64: bool,
    /// The value is left out where it has this CAS value.
    pub unless_cas: Option<u64>,
    letters: [u8; FLAG_COUNT_MAX],
    len: u8,
    opaque_len: u8,
    opaque: [u8; OPAQUE_LEN_MAX],
}

impl Echo {
    /// No flags.
    pub const EMPTY: Echo = Echo {
        seen: 0,
        key_is_base64: false,
        unless_cas: None,
        letters: [0; FLAG_COUNT_MAX],
        len: 0,
        opaque_len: 0,
        opaque: [0; OPAQUE_LEN_MAX],
    };

    /// The letters, in order.
    #[inline]
    pub fn letters(&self) -> &[u8] {
        &self.letters[..usize::from(self.len)]
    }

    /// The opaque token, with its letter.
    pub fn opaque(&self) -> &[u8] {
        &self.opaque[..usize::from(self.opaque_len)]
    }

    /// Whether a flag that has a meaning was given.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.seen & bit(letter) != 0
    }

    /// Whether one flag stands before another.
    pub fn has_before(&self, first: u8, second: u8) -> bool {
        let at = |flag| self.letters().iter().position(|&letter| letter == flag);
        at(first).is_some_and(|first| at(second).is_some_and(|second| first < second))
    }

    /// Adds a letter; false where there is no place for it.
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

    /// Notes that a flag has a meaning; false if it was noted before.
    #[inline]
    pub(crate) fn note(&mut self, letter: u8) -> bool {
        let is_new = !self.has(letter);
        self.seen |= bit(letter);
        is_new
    }

    /// Keeps the opaque token; false if it is too long.
    pub(crate) fn keep_opaque(&mut self, token: &[u8]) -> bool {
        let Some(place) = self.opaque.get_mut(..token.len()) else { return false };
        place.copy_from_slice(token);
        self.opaque_len = token.len() as u8;
        true
    }
}

/// The bit of a letter from `A` to `z`.
#[inline]
pub(crate) const fn bit(letter: u8) -> u64 {
    1 << (letter - b'A')
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
    /// Whether the answer to a get repeats the key.
    pub with_key: bool,
}

/// The status of a reply, as its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
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
