//! The requests of all dialects, and the form of their replies.
//!
//! A [`Request`] borrows from the input. It does not include the keys of a [`Request::Retrieve`] and the value of a
//! [`Store`]: they may be larger than any buffer, so the caller reads them from the input after the request.
//!
//! An [`Answer`] contains the data that a reply needs in addition to the outcome of the operation. It does not borrow
//! from the input: the value of a store may arrive after the server has discarded the command line.
#![expect(missing_docs, reason = "a name without a comment is that of memcached's command or term")]

use crate::admin::{Admin, StatsRequest};
use crate::words::Exptime;
use slabwise_base::Cost;

/// One request. Its key has the bytes that the client sent, in base64 if [`Echo::key_is_base64`] is true.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// get, gets, gat, gats: returns the items of the keys that follow in the input. gat and gats have an expiry, which
    /// becomes the new expiry of each item found.
    Retrieve(Option<Exptime>),
    Get(Get<'a>),
    /// set, add, replace, append, prepend, cas: stores the value that follows in the input.
    Store(Store<'a>),
    Delete(Delete<'a>),
    /// incr, decr: changes a number.
    Arithmetic(Arithmetic<'a>),
    /// touch: sets an item's expiry.
    Touch(&'a [u8], Exptime),
    /// me: returns an item's metadata.
    Examine(&'a [u8]),
    /// mn, noop: does nothing, but has a reply.
    NoOp,
    Version,
    Quit,
    Stats(StatsRequest<'a>),
    Admin(Admin<'a>),
    /// A step of SASL authentication.
    Sasl(Sasl<'a>),
}

/// A get of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get<'a> {
    pub key: &'a [u8],
    /// The new expiry of the item if it is found; `None` keeps its expiry.
    pub touch: Option<Exptime>,
    /// The empty item to create on a miss; `None` creates no item.
    pub vivify: Option<Vivify>,
    /// If the item expires before this time, the reply asks one client to recompute the item's value. `None` asks no
    /// client.
    pub recache: Option<Exptime>,
    /// True if the get does not mark the item as used.
    pub keeps_access_time: bool,
}

/// The empty item that a get creates on a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vivify {
    pub exptime: Exptime,
    /// The exptime of the flag N. It is not `exptime` if the flag T follows, and is shown by a flag t between the two.
    pub first_exptime: Exptime,
    /// The CAS value of the new item. `None` means the next CAS value of the server.
    pub cas: Option<u64>,
}

/// The kind of a storage command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreVerb {
    #[default]
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Stores the value only if the existing item has this CAS value.
    Cas(u64),
}

/// A storage command without its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Store<'a> {
    pub verb: StoreVerb,
    pub key: &'a [u8],
    /// 32 bits that the client stores with the item. The server does not use them.
    pub client_flags: u32,
    pub exptime: Exptime,
    /// The item's cost, if the client supplies one.
    pub cost: Option<Cost>,
    /// The length of the value in bytes, without its line end. The value follows in the input.
    pub value_len: usize,
    /// The CAS value that the existing item must have. `None` means any CAS value, or no item.
    pub expected_cas: Option<u64>,
    /// The CAS value of the new item. `None` means the next CAS value of the server.
    pub new_cas: Option<u64>,
    /// True if the value is stored even if the CAS value of the request is lower than the CAS value of the existing
    /// item. The new item is then marked as stale.
    pub stale_allowed: bool,
    /// True if append and prepend create an item with the value when there is no item with the key.
    pub vivify: bool,
}

/// A delete of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete<'a> {
    pub key: &'a [u8],
    /// The CAS value that the item must have. `None` means any CAS value.
    pub expected_cas: Option<u64>,
    /// The item to store in place of the deleted item.
    pub replacement: Replacement,
}

/// The item that a delete stores in place of the deleted item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    #[default]
    Nothing,
    /// The same item, marked as stale.
    Stale {
        /// The new expiry of the item; `None` keeps its expiry.
        exptime: Option<Exptime>,
        /// The new CAS value of the item. `None` means the next CAS value of the server.
        new_cas: Option<u64>,
    },
    /// An item with an empty value.
    Empty {
        /// 32 bits that the client stores with the item. The server does not use them.
        client_flags: u32,
        exptime: Exptime,
        /// True if the item is marked as stale.
        stale: bool,
        /// The CAS value of the item. `None` means the next CAS value of the server.
        new_cas: Option<u64>,
    },
}

/// An increment or decrement of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    pub key: &'a [u8],
    pub direction: Direction,
    /// The amount to add or subtract.
    pub delta: u64,
    /// The CAS value that the item must have. `None` means any CAS value.
    pub expected_cas: Option<u64>,
    /// The new CAS value of the item. `None` means the next CAS value of the server.
    pub new_cas: Option<u64>,
    /// The new expiry of the item; `None` keeps its expiry.
    pub touch: Option<Exptime>,
    /// The number to store if there is no item with the key. `None` stores none.
    pub initial: Option<Initial>,
}

/// The number that an increment or decrement stores if there is no item with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    pub value: u64,
    pub exptime: Exptime,
    /// The exptime of the flag N. It is not `exptime` if the flag T follows, and is shown by a flag t between the two.
    pub first_exptime: Exptime,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    #[default]
    Increment,
    Decrement,
}

/// A step of authentication in the binary protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sasl<'a> {
    ListMechanisms,
    /// Starts the authentication.
    Auth {
        /// The name of the mechanism, 1 to 32 bytes.
        mechanism: &'a [u8],
        /// The first response of the client. It is empty if the client waits for a challenge of the server.
        response: &'a [u8],
    },
    /// Continues the authentication with the response to a challenge.
    Step(&'a [u8]),
}

impl<'a> Request<'a> {
    /// Returns the key with the bytes that the client sent. Returns an empty key if the request has no key, or if its
    /// keys follow in the input.
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
    /// A line of the meta protocol that contains the data of these flags.
    Meta(Echo),
    /// A packet of the binary protocol that repeats parts of this head.
    Binary(Head),
}

/// The form of a reply in the classic text protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextAnswer {
    /// True if no reply is sent, not even an error.
    pub noreply: bool,
    /// True if the `VALUE` lines of the reply contain the CAS values.
    pub with_cas: bool,
}

impl Answer {
    /// Returns the bytes that follow a value in the protocol of this answer: a line end, or nothing in the binary
    /// protocol.
    #[inline]
    pub fn value_end(&self) -> &'static [u8] {
        match self {
            Answer::Text(_) | Answer::Meta(_) => b"\r\n",
            Answer::Binary(_) => b"",
        }
    }
}

/// The result of parsing one request at the start of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// The end of the request has not arrived yet.
    Incomplete,
    /// The input is not valid in the protocol of the parser. The caller must close the connection.
    Hangup,
    /// A valid request.
    Request {
        request: Request<'a>,
        answer: Answer,
        /// The number of input bytes that belong to the request, without the keys of a retrieval and the value of a
        /// store. The keys or the value follow in the input.
        consumed: usize,
    },
    /// An invalid request.
    Refused {
        refusal: Refusal,
        /// The number of input bytes that the parser has consumed.
        consumed: usize,
        /// The number of bytes after the consumed bytes that also belong to the request. The caller must skip them.
        skip_len: usize,
    },
}

/// The reply to an invalid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The line to send to a client of a text protocol, including its line end. The line is empty if the request has
    /// `noreply`.
    Line(&'static [u8]),
    /// The head of an invalid packet, and the error in the packet.
    Packet(Head, Fault),
}

impl Parsed<'_> {
    /// Returns the position of the end of the request in an input of `input_len` bytes. The next request starts there,
    /// whether this request succeeds or fails. Returns `None` if the request is invalid or not complete, or if it is
    /// neither a no-op nor a command about one item.
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

/// The maximum number of flags of a meta request. As in memcached, a line has at most 20 words, of which two are the
/// command and the key.
pub const FLAG_COUNT_MAX: usize = 18;

/// The maximum length of an opaque token in bytes, including the letter `O`.
pub const OPAQUE_LEN_MAX: usize = 32;

/// The flags of a meta request in the order of the request, and other data of the request that its reply depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The letters of the flags as a set: one bit per letter (see [`bit`]).
    letter_bits: u64,
    /// True if the key is encoded in base64, both in the request and in the reply.
    pub key_is_base64: bool,
    /// The reply omits the value if the item has this CAS value.
    pub unless_cas: Option<u64>,
    /// The letters of the flags in the order of the request. Only the first `letter_count` bytes are used.
    letters: [u8; FLAG_COUNT_MAX],
    letter_count: u8,
    /// The length of the opaque token in bytes; 0 if the request has none.
    opaque_len: u8,
    opaque: [u8; OPAQUE_LEN_MAX],
}

impl Echo {
    /// The echo of a request without flags.
    pub const EMPTY: Echo = Echo {
        letter_bits: 0,
        key_is_base64: false,
        unless_cas: None,
        letters: [0; FLAG_COUNT_MAX],
        letter_count: 0,
        opaque_len: 0,
        opaque: [0; OPAQUE_LEN_MAX],
    };

    /// Returns the letters of the flags in the order of the request.
    #[inline]
    pub fn letters(&self) -> &[u8] {
        &self.letters[..usize::from(self.letter_count)]
    }

    /// Returns the opaque token, including its letter `O`. The token is empty if the request has none.
    pub fn opaque(&self) -> &[u8] {
        &self.opaque[..usize::from(self.opaque_len)]
    }

    /// True if the request has the flag `letter`.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.letter_bits & bit(letter) != 0
    }

    /// True if the request has the flags `first` and `second`, and `first` is before `second`.
    pub fn has_before(&self, first: u8, second: u8) -> bool {
        let at = |flag| self.letters().iter().position(|&letter| letter == flag);
        at(first).is_some_and(|first| at(second).is_some_and(|second| first < second))
    }

    /// Appends a letter. Returns false, without appending, if there are already `count_max` letters.
    #[inline]
    pub(crate) fn push_letter(&mut self, letter: u8, count_max: usize) -> bool {
        let count = usize::from(self.letter_count);
        if count == count_max {
            return false;
        }
        self.letters[count] = letter;
        self.letter_count += 1;
        true
    }

    /// Adds a letter to the set of letters. Returns false if the set already has it.
    #[inline]
    pub(crate) fn add_to_set(&mut self, letter: u8) -> bool {
        let is_new = !self.has(letter);
        self.letter_bits |= bit(letter);
        is_new
    }

    /// Stores the opaque token. Returns false if the token is too long.
    pub(crate) fn set_opaque(&mut self, token: &[u8]) -> bool {
        let Some(place) = self.opaque.get_mut(..token.len()) else { return false };
        place.copy_from_slice(token);
        self.opaque_len = token.len() as u8;
        true
    }
}

/// Returns the bit that represents a letter from `A` to `z` in a set of letters.
#[inline]
pub(crate) const fn bit(letter: u8) -> u64 {
    1 << (letter - b'A')
}

/// The head of a binary request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the command.
    pub opcode: u8,
    /// Four bytes that the client chooses. The reply repeats them.
    pub opaque: [u8; 4],
    /// The CAS value that the item must have. 0 means any CAS value.
    pub cas: u64,
    /// True if the command is quiet: the server sends a reply only if the reply is an error or, for a get, a hit.
    pub quiet: bool,
    /// True if the reply to a get contains the key.
    pub with_key: bool,
}

/// The status of a reply of the binary protocol. The number of a variant is the number that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    Success = 0x00,
    NotFound = 0x01,
    Exists = 0x02,
    TooLarge = 0x03,
    InvalidArguments = 0x04,
    /// There is no item for an append or prepend.
    NotStored = 0x05,
    NotNumeric = 0x06,
    AuthError = 0x20,
    /// The authentication needs another step of the client.
    AuthContinue = 0x21,
    UnknownCommand = 0x81,
    OutOfMemory = 0x82,
}

impl Status {
    /// Returns the text that is sent with the status, which may be empty. Some clients depend on these texts.
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

/// An error in a request of the binary protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The lengths contradict each other: extras and key together are longer than the body.
    BadLengths,
    /// The body is longer than [`BODY_LEN_MAX`](crate::BODY_LEN_MAX).
    BodyTooLarge,
    /// The extras, the key or the value are missing, too long, or not allowed for the command.
    BadArguments,
    UnknownCommand,
    /// The name of the SASL mechanism is longer than 32 bytes.
    MechanismTooLong,
    /// The SASL response is longer than 1,024 bytes.
    ResponseTooLong,
}

impl Fault {
    /// Returns the status that the reply to the invalid request has.
    pub fn status(self) -> Status {
        match self {
            Fault::BadLengths | Fault::UnknownCommand => Status::UnknownCommand,
            Fault::BodyTooLarge | Fault::BadArguments | Fault::MechanismTooLong => {
                Status::InvalidArguments
            }
            Fault::ResponseTooLong => Status::AuthError,
        }
    }

    /// True if the caller must close the connection, because the start of the next request is unknown.
    pub fn closes(self) -> bool {
        matches!(self, Fault::BadLengths | Fault::BodyTooLarge | Fault::BadArguments)
    }

    /// True if the caller sends this error even to a client that is not authenticated.
    pub fn precedes_authentication(self) -> bool {
        matches!(self, Fault::BadLengths | Fault::BodyTooLarge)
    }
}

/// The first byte of every binary request.
pub const REQUEST_MAGIC: u8 = 0x80;
/// The first byte of every binary reply.
pub const REPLY_MAGIC: u8 = 0x81;
/// The length in bytes of the head of a binary request and of a binary reply.
pub const HEAD_LEN: usize = 24;
