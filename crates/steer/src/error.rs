//! The errors that end the command, and those that end a connection.

use slabwise_client::ClientError;
use slabwise_observer::ObserverError;
use std::io;
use std::path::PathBuf;

/// An error. Each text names the value and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    /// The server could not be reached, or its reply is not one of this protocol. The steerer connects again.
    #[error("{0}")]
    Connection(#[from] ClientError),
    /// A statistic is missing or wrong. The steerer connects again.
    #[error("{0}")]
    Observer(#[from] ObserverError),
    /// A certificate or the file with the credentials cannot be used.
    #[error("{0}")]
    Security(String),
    /// The server refuses page moves.
    #[error("the server moves no pages: slab_reassign is off; start it with -o slab_reassign")]
    NoReassign,
    /// The server moves values to files.
    #[error(
        "the server uses extstore, whose automover keeps pages free for writing to the file: a steerer must not replace \
         it; nothing was changed"
    )]
    Storage,
    /// The server did not accept a mode of the automover.
    #[error(
        "the server did not accept '{command}': it replied '{reply}'; send the command yourself"
    )]
    Automove {
        /// The command.
        command: String,
        /// The reply.
        reply: String,
    },
    /// The state file could not be read or written.
    #[error("state file {}: {error}; give another one with --state", path.display())]
    State {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The state file is damaged.
    #[error("state file {}: {reason}; check the automover of the server, and remove the file", path.display())]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The state file has a mode of another server that was not restored.
    #[error(
        "state file {path} is of {server}, whose automover is still off: run `slabwise steer --server {server} \
         --state {path} --restore` first, or give another file with --state",
        path = path.display()
    )]
    OtherServer {
        /// The path of the file.
        path: PathBuf,
        /// The other server, as its argument gave it.
        server: String,
    },
    /// Another process uses the state file.
    #[error("another steerer uses the state file {}: stop it first", path.display())]
    Locked {
        /// The path of the file.
        path: PathBuf,
    },
    /// No state file was given, and there is no home folder.
    #[error("neither XDG_STATE_HOME nor HOME is set: give a state file with --state")]
    NoStatePath,
    /// The log could not be opened.
    #[error("log {}: {error}; give another file with --log", path.display())]
    Log {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The address for metrics could not be used.
    #[error("cannot listen on {address}: {error}; give another address with --metrics")]
    Metrics {
        /// The address.
        address: String,
        /// The reason.
        error: io::Error,
    },
    /// Signals could not be received.
    #[error("cannot receive signals: {0}")]
    Signals(io::Error),
    /// Another steerer uses the server.
    #[error("{0}")]
    Rival(String),
    /// The former mode of the automover could not be restored.
    #[error(
        "the automover of the server may still be off: {reason}; run `slabwise steer --server {server} --state {path} \
         --restore` when the server answers",
        path = path.display()
    )]
    NotRestored {
        /// The server.
        server: String,
        /// The state file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl SteerError {
    /// Returns true if a new connection may help.
    pub fn is_of_connection(&self) -> bool {
        matches!(self, SteerError::Connection(_) | SteerError::Observer(_))
    }

    /// Returns true if another start would end in the same way, or would undo what somebody has done to the server on
    /// purpose.
    pub fn needs_decision(&self) -> bool {
        matches!(self, SteerError::NoReassign | SteerError::Storage | SteerError::Rival(_))
    }
}
