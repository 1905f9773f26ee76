//! The server under test: its process, its configuration and its memory.

use slabwise_base::Random;
use slabwise_client::process::{Server, ServerCommand, StartError};
use slabwise_client::{ClientError, Connection, ServerAddress, Timeouts};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The program.
    pub program: PathBuf,
    /// The limit of item memory, in MiB.
    pub memory_mib: u64,
    /// The largest item, in bytes.
    pub item_size_max: u64,
    /// All arguments.
    pub arguments: Vec<String>,
}

impl Configuration {
    /// Draws a configuration.
    pub fn draw(
        program: &Path,
        memory_mib: u64,
        is_memcached: bool,
        random: &mut Random,
    ) -> Configuration {
        let mut item_size_max = MIB;
        let mut arguments: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
        add(&["-m", &memory_mib.to_string(), "-c", "1024", "-A"]);
        add(&["-t", &(1 + random.below(4)).to_string()]);
        if random.below(3) == 0 {
            let size_mib = (memory_mib / 2).min(64);
            item_size_max = size_mib * MIB;
            add(&["-I", &format!("{size_mib}m")]);
        }
        if !is_memcached {
            add(&["-o", "debug_commands"]);
            let choose = |random: &mut Random, from: &[&'static str]| {
                from[random.below(from.len() as u64) as usize]
            };
            let options = choose(
                random,
                &[
                    "preset=memcached",
                    "page_mover=warm",
                    "page_mover=stock",
                    "page_mover=base",
                    "page_mover=fast",
                    "page_policy=automove",
                    "page_policy=space_time",
                    "eviction=lru",
                    "eviction=segmented",
                    "eviction=greedydual_size",
                    "classes=geometric",
                    "profile=off",
                ],
            );
            add(&["-o", options]);
        }
        Configuration { program: program.to_owned(), memory_mib, item_size_max, arguments }
    }

    fn command(&self) -> ServerCommand {
        ServerCommand::on_free_port(&self.program).with(&self.arguments)
    }

    /// Returns the command line, for messages.
    pub fn describe(&self) -> String {
        self.command().describe()
    }
}

/// A server under test, which can be started several times.
#[derive(Debug)]
pub struct Host {
    pub configuration: Configuration,
    process: Option<Server>,
    directory: TempDir,
    starts: usize,
}

impl Host {
    /// Starts a server.
    pub fn start(configuration: Configuration) -> Result<Host, StartError> {
        let directory = tempfile::tempdir().map_err(|error| {
            StartError::Spawn(configuration.program.display().to_string(), error)
        })?;
        let mut host = Host { configuration, process: None, directory, starts: 0 };
        host.start_again()?;
        Ok(host)
    }

    /// Starts another process with the same arguments.
    pub fn start_again(&mut self) -> Result<(), StartError> {
        self.process = None;
        self.starts += 1;
        let command = self.configuration.command().logging_to(&self.stderr_path(self.starts));
        self.process = Some(Server::start(&command)?);
        Ok(())
    }

    fn stderr_path(&self, start: usize) -> PathBuf {
        self.directory.path().join(format!("stderr{start}"))
    }

    /// Returns the running process.
    ///
    /// # Panics
    /// Panics if the process was not started, which is an error of the campaign.
    pub fn process(&mut self) -> &mut Server {
        self.process.as_mut().expect("the server was started")
    }

    /// Returns the address of the first listener.
    pub fn address(&mut self) -> SocketAddr {
        self.process().socket_address()
    }

    /// Returns what the processes wrote to stderr.
    pub fn stderr(&self) -> String {
        let read = |start| fs::read_to_string(self.stderr_path(start)).unwrap_or_default();
        (1..=self.starts).map(read).collect()
    }

    /// Returns the resident memory in bytes, or 0 if the process has ended.
    pub fn resident_bytes(&mut self) -> u64 {
        self.process().status_bytes("VmRSS").unwrap_or_default()
    }

    /// Returns the number of open descriptors, or 0 if the process has ended.
    pub fn descriptors(&mut self) -> usize {
        let path = format!("/proc/{}/fd", self.process().id());
        fs::read_dir(path).map(Iterator::count).unwrap_or_default()
    }

    /// Returns the number of threads, or 0 if the process has ended.
    pub fn threads(&mut self) -> usize {
        let path = format!("/proc/{}/task", self.process().id());
        fs::read_dir(path).map(Iterator::count).unwrap_or_default()
    }
}

/// Opens a connection for administrative commands.
pub fn console(address: SocketAddr, timeout: Duration) -> Result<Connection, ClientError> {
    let timeouts = Timeouts { connect: timeout, read: timeout, reply: timeout };
    Connection::open(&ServerAddress::Tcp(address.to_string()), timeouts)
}
