//! Starts real servers, reads how they allocate memory to classes, and stops them.

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
    #[error("the server does not answer: {0}")]
    Client(#[from] ClientError),
}

/// A running server with a connection for its statistics. It stops when this is dropped.
#[derive(Debug)]
pub struct Server {
    process: process::Server,
    statistics: Connection,
}

/// The bytes of the pages of each class, by the chunk size of the class.
pub type Allocation = BTreeMap<u64, u64>;

impl Server {
    /// Starts `command` with this memory limit. The program name `slabwise` means the running program.
    pub fn start(command: &[String], memory_mib: u64) -> Result<Server, ServerError> {
        let (program, arguments) = command.split_first().expect("a command names its program");
        let path = match program.as_str() {
            "slabwise" => std::env::current_exe()
                .map_err(|error| StartError::Spawn(program.clone(), error))?,
            other => PathBuf::from(other),
        };
        let command = ServerCommand::on_free_port(path).with(arguments).keeping_stderr();
        let process = process::Server::start(&command.with(&["-m", &memory_mib.to_string()]))?;
        let statistics = open(&process.address())?;
        Ok(Server { process, statistics })
    }

    pub fn address(&self) -> ServerAddress {
        self.process.address()
    }

    pub fn allocation(&mut self) -> Result<Allocation, ServerError> {
        let mut allocation = Allocation::new();
        for class in self.classes()? {
            let bytes = allocation.entry(class.chunk_size_bytes).or_default();
            *bytes += class.page_size_bytes * class.pages;
        }
        Ok(allocation)
    }

    pub fn classes(&mut self) -> Result<Vec<SlabClass>, ServerError> {
        Ok(self.statistics.ask_rows("stats slabs")?.slab_classes())
    }

    pub fn ask_line(&mut self, command: &str) -> Result<String, ServerError> {
        Ok(self.statistics.ask_line(command)?)
    }
}

pub fn open(address: &ServerAddress) -> Result<Connection, ClientError> {
    let (connect, read, reply) = (REPLY_TIMEOUT, REPLY_TIMEOUT, REPLY_TIMEOUT);
    Connection::open(address, Timeouts { connect, read, reply })
}
