//! Why a packet cannot be acted on.

use crate::status::Status;

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
