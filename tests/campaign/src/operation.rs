//! A request about one key, and its result, without the form that a protocol gives them.

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads the value.
    Get,
    /// Reads the value and its CAS value.
    Gets,
    /// Reads the value and changes the expiry.
    Gat,
    /// Changes the expiry.
    Touch,
    /// Stores a value.
    Set,
    /// Stores a value if there is none.
    Add,
    /// Stores a value if there is one.
    Replace,
    /// Stores a value if the item has a certain CAS value.
    Cas,
    /// Removes the value.
    Delete,
    /// Adds a part after the value.
    Append,
    /// Adds a part before the value.
    Prepend,
    /// Changes a number by one, in the direction of the key.
    Step,
    /// Changes a number by one, or stores the first number of a new version if there is no item.
    StepOrCreate,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Verb; 13] = [
        Verb::Get,
        Verb::Gets,
        Verb::Gat,
        Verb::Touch,
        Verb::Set,
        Verb::Add,
        Verb::Replace,
        Verb::Cas,
        Verb::Delete,
        Verb::Append,
        Verb::Prepend,
        Verb::Step,
        Verb::StepOrCreate,
    ];

    /// True if the request contains the value of a new version.
    pub fn stores(self) -> bool {
        matches!(self, Verb::Set | Verb::Add | Verb::Replace | Verb::Cas)
    }

    /// True if the request adds a part to a value.
    pub fn adds_part(self) -> bool {
        matches!(self, Verb::Append | Verb::Prepend)
    }

    /// True if the request has a reply that says that there is no item.
    pub fn finds(self) -> bool {
        !matches!(
            self,
            Verb::Set
                | Verb::Add
                | Verb::Replace
                | Verb::Append
                | Verb::Prepend
                | Verb::StepOrCreate
        )
    }

    /// True if the request changes a number.
    pub fn steps(self) -> bool {
        matches!(self, Verb::Step | Verb::StepOrCreate)
    }

    /// True if the request may create a version.
    pub fn may_create(self) -> bool {
        self.stores() || self == Verb::StepOrCreate
    }

    /// True if the request changes the expiry of an existing item.
    pub fn touches(self) -> bool {
        matches!(self, Verb::Gat | Verb::Touch)
    }

    /// True if a successful reply contains the value.
    pub fn reads(self) -> bool {
        matches!(self, Verb::Get | Verb::Gets | Verb::Gat)
    }

    /// Returns the name of the text command, or of the request if the text protocol does not have it.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Gets => "gets",
            Verb::Gat => "gat",
            Verb::Touch => "touch",
            Verb::Set => "set",
            Verb::Add => "add",
            Verb::Replace => "replace",
            Verb::Cas => "cas",
            Verb::Delete => "delete",
            Verb::Append => "append",
            Verb::Prepend => "prepend",
            Verb::Step => "step",
            Verb::StepOrCreate => "step or create",
        }
    }
}

/// The place of a request in a line of the text protocol that reads several keys, such as `get a b c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The line has only this key. So does every request of the other protocols.
    Alone,
    /// The first key.
    First,
    /// A key between the first and the last one.
    Middle,
    /// The last key.
    Last,
}

impl Place {
    /// True if the key is the first one of its line.
    pub fn begins_line(self) -> bool {
        matches!(self, Place::Alone | Place::First)
    }

    /// True if the key is the last one of its line.
    pub fn ends_line(self) -> bool {
        matches!(self, Place::Alone | Place::Last)
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The command.
    pub verb: Verb,
    /// The number of the key.
    pub key: u32,
    /// The number of the new version, touch, part or step. 0 if the request changes nothing.
    pub version: u32,
    /// The length of the new value or part in bytes.
    pub len: u32,
    /// The client flags of the new value.
    pub flags: u32,
    /// The TTL of the item in seconds. 0 if the item does not expire.
    pub ttl_seconds: u32,
    /// The CAS value that a cas sends, and the version to which it belongs.
    pub cas: (u64, u32),
    /// True if the request asks the server not to send the most frequent reply.
    pub quiet: bool,
    /// A number that the reply must repeat, in protocols that have one.
    pub opaque: u32,
    /// The place in a line with several keys.
    pub place: Place,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The item was found.
    Hit {
        /// The client flags, if the reply has them.
        flags: Option<u32>,
        /// The CAS value, if the reply has it.
        cas: Option<u64>,
        /// The value.
        value: &'a [u8],
    },
    /// The new number after a step.
    Number(u64),
    /// The item was not found.
    Miss,
    /// The value was stored. Contains the CAS value of the new item, if the reply has it.
    Stored(Option<u64>),
    /// The value was not stored, because of the condition of add or replace.
    NotStored,
    /// The item has another CAS value.
    Exists,
    /// The item was removed.
    Deleted,
    /// The expiry was changed.
    Touched,
    /// The server refused the request with this text.
    Refused(&'a [u8]),
    /// The server sent no reply, so whether the request had an effect is unknown. It is complete.
    Silent,
    /// The connection ended before the reply. The request may have an effect at any later time.
    Lost,
}
