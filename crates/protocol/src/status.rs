//! How a request ended.

/// The status of a reply, as its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// It was done.
    Success = 0x00,
    /// There is no such item.
    NotFound = 0x01,
    /// There is an item already, or it has another CAS value.
    Exists = 0x02,
    /// The item is larger than any may be.
    TooLarge = 0x03,
    /// The request makes no sense.
    InvalidArguments = 0x04,
    /// There is nothing to append or prepend to.
    NotStored = 0x05,
    /// What is stored is no number.
    NotNumeric = 0x06,
    /// Not authenticated, or not allowed.
    AuthError = 0x20,
    /// The mechanism has another step.
    AuthContinue = 0x21,
    /// There is no such command.
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
