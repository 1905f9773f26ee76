//! The error of an observation.

use slabwise_client::{ClientError, Rows};

/// The error of an observation. The text does not name the server; the caller adds its address and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ObserverError {
    /// Sending the command or reading the reply failed.
    #[error("{command}: {error}")]
    Client {
        /// The command.
        command: &'static str,
        /// The error.
        error: ClientError,
    },
    /// The reply has no row that every server of this protocol sends.
    #[error("{command}: the reply has no row '{row}'")]
    Missing {
        /// The command.
        command: &'static str,
        /// The name of the row.
        row: String,
    },
    /// A row has a value that is not a number in its limits.
    #[error("{command}: row '{row}' has the value '{value}', expected a whole number")]
    NotANumber {
        /// The command.
        command: &'static str,
        /// The name of the row.
        row: String,
        /// The value.
        value: String,
    },
    /// The reply describes more classes than a server can have.
    #[error("{command}: class {class} is not valid: a server has the classes 1 to {class_max}")]
    Class {
        /// The command.
        command: &'static str,
        /// The number of the class, as in the reply.
        class: String,
        /// The largest number that is valid.
        class_max: usize,
    },
    /// A class has no chunks on a page.
    #[error("{command}: class {class} has no chunks on a page")]
    NoChunks {
        /// The command.
        command: &'static str,
        /// The number of the class.
        class: u32,
    },
    /// A number is larger than that of any memcached.
    #[error(
        "{command}: {row} is {value}, above the limit of {limit}: check whether the server is a memcached"
    )]
    Implausible {
        /// The command.
        command: &'static str,
        /// The name of the row, without the number of the class.
        row: &'static str,
        /// The value.
        value: u64,
        /// The largest value that is accepted.
        limit: u64,
    },
}

/// Returns the number in the row with this name.
pub(crate) fn number(rows: &Rows, command: &'static str, name: &str) -> Result<u64, ObserverError> {
    let missing = || ObserverError::Missing { command, row: name.to_owned() };
    let row = rows.get(name).ok_or_else(missing)?;
    parse(command, &row.name, &row.value)
}

/// Returns the number in the row with this name; 0 if there is no such row.
pub(crate) fn optional(
    rows: &Rows,
    command: &'static str,
    name: &str,
) -> Result<u64, ObserverError> {
    match rows.get(name) {
        Some(row) => parse(command, &row.name, &row.value),
        None => Ok(0),
    }
}

/// Parses the value of a row.
pub(crate) fn parse(command: &'static str, row: &str, value: &str) -> Result<u64, ObserverError> {
    value.parse().map_err(|_| ObserverError::NotANumber {
        command,
        row: row.to_owned(),
        value: value.to_owned(),
    })
}
