//! What a client can ask for, whatever dialect it speaks, and how it is answered.
//!
//! Requests borrow from the bytes they were read from. Two kinds are only a beginning, because what
//! follows may be larger than any buffer: a retrieval's keys and a [`Store`]'s value are
//! read from the bytes after it.
//!
//! An [`Answer`] holds what a reply needs that is no part of the operation. It borrows nothing, because a value may
//! arrive long after its line is gone.

use crate::admin::{Admin, StatsRequest};
use crate::echo::Echo;
use crate::packet::{Fault, Head};
use crate::words::Exptime;
use slabwise_base::Cost;

/// One request. A key is as it stands on the wire: in base64 where the [`Answer`](crate::Answer) says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'a> {
    /// get, gets, gat, gats: the keys follow. Every item that is found is given this lifetime.
    Retrieve(Option<Exptime>),
    /// A get of one key.
    Get(Get<'a>),
    /// set, add, replace, append, prepend, cas: the value follows.
    Store(Store<'a>),
    /// delete.
    Delete(Delete<'a>),
    /// incr, decr.
    Arithmetic(Arithmetic<'a>),
    /// touch: an item's new lifetime.
    Touch(&'a [u8], Exptime),
    /// me: what is known of an item.
    Examine(&'a [u8]),
    /// mn, noop: nothing but an answer.
    NoOp,
    /// version.
    Version,
    /// quit: close the connection.
    Quit,
    /// A question about the server.
    Stats(StatsRequest<'a>),
    /// An order to the server.
    Admin(Admin<'a>),
    /// A step of authenticating.
    Sasl(Sasl<'a>),
}

/// A get of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Get<'a> {
    /// Which item.
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
    /// Its lifetime.
    pub exptime: Exptime,
    /// Its CAS value, if not the server's next.
    pub cas: Option<u64>,
}

/// What a storage command does with the item that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "memcached's commands")]
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
    /// What to do.
    pub verb: StoreVerb,
    /// Where.
    pub key: &'a [u8],
    /// The client's own 32 bits.
    pub client_flags: u32,
    /// The item's lifetime.
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

/// A delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Which item.
    pub key: &'a [u8],
    /// The CAS value that the item must have.
    pub expected_cas: Option<u64>,
    /// What is left in its place.
    pub leaves: Leave,
}

/// What a delete leaves in the item's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
    /// Nothing.
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
        /// Its lifetime.
        exptime: Exptime,
        /// Whether it is stale.
        stale: bool,
        /// Its CAS value, if the client chooses it.
        new_cas: Option<u64>,
    },
}

/// A change of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arithmetic<'a> {
    /// Which number.
    pub key: &'a [u8],
    /// Up or down.
    pub direction: Direction,
    /// By how much.
    pub delta: u64,
    /// The CAS value that the item must have.
    pub expected_cas: Option<u64>,
    /// Its CAS value afterwards, if not the server's next.
    pub new_cas: Option<u64>,
    /// A new lifetime.
    pub touch: Option<Exptime>,
    /// The number to store where there is none.
    pub initial: Option<Initial>,
}

/// A number that is stored where there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    /// The number.
    pub value: u64,
    /// Its item's lifetime.
    pub exptime: Exptime,
}

/// incr or decr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
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
    /// A request.
    Request {
        /// What is asked for.
        request: Request<'a>,
        /// How it is answered.
        answer: Answer,
        /// Bytes of the input that it took. A retrieval's keys or a store's value start there.
        consumed: usize,
    },
    /// A request that cannot be acted on.
    Refused {
        /// Why.
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
