//! Starts real servers, reads the memory of their classes, and stops the servers.

use slabwise_client::process::{self, ServerCommand, StartError};
use slabwise_client::{ClientError, Connection, ServerAddress, SlabClass, Timeouts};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("no valid reply from the server: {0}")]
    Client(#[from] ClientError),
}

/// A running server. The server stops when this value is dropped.
#[derive(Debug)]
pub struct Server {
    process: process::Server,
    /// Connection for statistics and other administrative commands.
    admin: Connection,
}

/// The memory of each class: the keys are chunk sizes in bytes, and the values are the bytes of all pages of the class.
pub type Allocation = BTreeMap<u64, u64>;

/// The counters of slabwise's mover since the start of the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moves {
    /// Pages that arrived.
    pub moved: u64,
    /// Visits to chunks.
    pub visited: u64,
    /// Visits to items that a request had locked (case 1).
    pub locked: u64,
    /// Visits to items that were pinned (case 2).
    pub pinned: u64,
    /// Visits that unlinked an item whose chunk had to be visited again (case 3).
    pub unlinked: u64,
}

impl Server {
    /// Starts a server with this memory limit. `command` is the program and its arguments. If the program is
    /// `slabwise`, the server runs the same executable as this process.
    ///
    /// # Panics
    /// If `command` is empty.
    pub fn start(command: &[String], memory_mib: u64) -> Result<Server, ServerError> {
        Server::start_command(&full_command(command, memory_mib)?)
    }

    /// Starts a server that also ends if a signal kills this process. `supervisor` are the arguments with which this
    /// executable supervises the server that the further arguments name.
    ///
    /// # Panics
    /// If `command` is empty.
    pub fn start_supervised(
        command: &[String],
        memory_mib: u64,
        supervisor: &[&str],
    ) -> Result<Server, ServerError> {
        let command = full_command(command, memory_mib)?;
        Server::start_command(&command.supervised_by(this_executable()?, supervisor))
    }

    fn start_command(command: &ServerCommand) -> Result<Server, ServerError> {
        let process = process::Server::start(command)?;
        let admin = open(&process.address())?;
        Ok(Server { process, admin })
    }

    pub fn address(&self) -> ServerAddress {
        self.process.address()
    }

    /// Reads the memory of each class.
    pub fn allocation(&mut self) -> Result<Allocation, ServerError> {
        let mut allocation = Allocation::new();
        for class in self.classes()? {
            let bytes = allocation.entry(class.chunk_size_bytes).or_default();
            *bytes += class.page_size_bytes * class.pages;
        }
        Ok(allocation)
    }

    /// Reads `stats slabs`.
    pub fn classes(&mut self) -> Result<Vec<SlabClass>, ServerError> {
        Ok(self.admin.ask_rows("stats slabs")?.slab_classes())
    }

    /// Reads `stats moves`. Returns `None` if the server does not have this command.
    pub fn moves(&mut self) -> Result<Option<Moves>, ServerError> {
        let Ok(rows) = self.admin.ask_rows("stats moves") else { return Ok(None) };
        let count = |name: &str| rows.get(name).and_then(|row| row.value.parse().ok());
        let found = || {
            Some(Moves {
                moved: count("moved")?,
                visited: count("chunks_visited")?,
                locked: count("items_locked")?,
                pinned: count("items_pinned")?,
                unlinked: count("items_unlinked")?,
            })
        };
        Ok(found())
    }

    /// Reads the row `name` of the reply to a `stats` command. A missing row, or one whose value is not a number, is an
    /// error.
    pub fn statistic(&mut self, command: &str, name: &str) -> Result<f64, ServerError> {
        let rows = self.admin.ask_rows(command)?;
        let value = rows.get(name).and_then(|row| row.value.parse().ok());
        let missing =
            || ClientError::Unexpected(format!("{command}: no number {name}").into_bytes());
        Ok(value.ok_or_else(missing)?)
    }

    /// Sends a command and returns the reply, which is a single line.
    pub fn ask_line(&mut self, command: &str) -> Result<String, ServerError> {
        Ok(self.admin.ask_line(command)?)
    }
}

/// Returns the command of a server with this memory limit on a free port.
fn full_command(command: &[String], memory_mib: u64) -> Result<ServerCommand, StartError> {
    let (program, arguments) =
        command.split_first().expect("the command of a server begins with its program");
    let path = match program.as_str() {
        "slabwise" => this_executable()?,
        other => PathBuf::from(other),
    };
    let command = ServerCommand::on_free_port(path).with(arguments).keeping_stderr();
    Ok(command.with(&["-m", &memory_mib.to_string()]))
}

fn this_executable() -> Result<PathBuf, StartError> {
    std::env::current_exe().map_err(|error| StartError::Spawn("slabwise".to_owned(), error))
}

/// Opens a connection to a server.
pub fn open(address: &ServerAddress) -> Result<Connection, ClientError> {
    let (connect, read, reply) = (REPLY_TIMEOUT, REPLY_TIMEOUT, REPLY_TIMEOUT);
    Connection::open(address, Timeouts { connect, read, reply })
}
