//! The server under test: its process, its configuration and its memory.

use crate::certificates::Certificates;
use crate::memory_directory::MemoryDirectory;
use crate::world::Endpoint;
use slabwise_base::Random;
use slabwise_client::process::{Server, ServerCommand, StartError, user_arguments};
use slabwise_client::{ClientError, Connection, ServerAddress, Timeouts};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// What the program is.
pub enum ServerKind<'a> {
    Memcached,
    Slabwise {
        /// The value of `-o io`; `None` for a random one.
        io: Option<&'a str>,
    },
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The program.
    pub program: PathBuf,
    /// The limit of item memory, in MiB.
    pub memory_mib: u64,
    /// The largest item, in bytes.
    pub item_size_max: u64,
    /// All arguments, except that of the memory file.
    pub arguments: Vec<String>,
    /// True if the server has a memory file (`-e`).
    pub has_memory_file: bool,
    /// True if the server has a second listener with TLS.
    pub has_tls: bool,
}

impl Configuration {
    /// Draws a configuration of the server with this number. Every second server has a memory file,
    /// and the others have TLS.
    pub fn draw(
        server: u64,
        program: &Path,
        memory_mib: u64,
        kind: &ServerKind<'_>,
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
        if let ServerKind::Slabwise { io } = kind {
            add(&["-o", "debug_commands"]);
            let choose = |random: &mut Random, from: &[&'static str]| {
                from[random.below(from.len() as u64) as usize]
            };
            // The kernel may not allow io_uring: `auto` then is epoll. With `--io`, a seed has the same other options.
            let random_io = choose(random, &["epoll", "auto"]);
            add(&["-o", &format!("io={}", io.unwrap_or(random_io))]);
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
                    "eviction=cost_bands",
                    "eviction=greedydual_size",
                    "eviction=split_lru",
                    "classes=geometric",
                    "profile=off",
                ],
            );
            add(&["-o", options]);
        }
        // The memory file occupies the whole memory from the start.
        // memcached needs more than 39 MiB for one.
        let is_memcached = matches!(kind, ServerKind::Memcached);
        let memory_mib_min = if is_memcached { 64 } else { 1 };
        let has_memory_file =
            (memory_mib_min..=1024).contains(&memory_mib) && server.is_multiple_of(2);
        Configuration {
            program: program.to_owned(),
            memory_mib,
            item_size_max,
            arguments,
            has_memory_file,
            has_tls: !is_memcached && server % 2 == 1,
        }
    }

    /// Returns the value of `-o io`. `None` for memcached.
    pub fn io(&self) -> Option<&str> {
        self.arguments.iter().find_map(|it| it.strip_prefix("io="))
    }

    fn command(&self) -> ServerCommand {
        let listeners = if self.has_tls { "notls:127.0.0.1,btls:127.0.0.1" } else { "127.0.0.1" };
        ServerCommand::new(&self.program)
            .with(&["-l", listeners, "-p", "-1", "-U", "-1"])
            .with(user_arguments())
            .with(&self.arguments)
    }

    /// Returns the command line, for messages.
    pub fn describe(&self) -> String {
        let file = if self.has_memory_file { " -e FILE" } else { "" };
        let tls = if self.has_tls { " -Z -o ssl_chain_cert=FILE,ssl_key=FILE" } else { "" };
        self.command().describe() + file + tls
    }
}

/// A server under test, which can be started several times.
pub struct Host {
    pub configuration: Configuration,
    process: Option<Server>,
    directory: TempDir,
    /// The directory of the memory file.
    pub memory_directory: MemoryDirectory,
    /// The certificates of a server with TLS.
    pub certificates: Option<Certificates>,
    starts: usize,
    /// The statistic `curr_connections` while only one client is connected. memcached also counts its listeners.
    pub idle_connections: u64,
}

/// The timeout of the replies of a process that has just started.
const START_TIMEOUT: Duration = Duration::from_secs(60);

impl Host {
    /// Starts a server.
    pub fn start(configuration: Configuration) -> Result<Host, StartError> {
        let spawn_error =
            |error| StartError::Spawn(configuration.program.display().to_string(), error);
        let directory = tempfile::tempdir().map_err(spawn_error)?;
        let memory_directory =
            MemoryDirectory::new(configuration.memory_mib).map_err(spawn_error)?;
        let certificates = configuration.has_tls.then(Certificates::new);
        let certificates = certificates.transpose().map_err(spawn_error)?;
        let mut host = Host {
            configuration,
            process: None,
            directory,
            memory_directory,
            certificates,
            starts: 0,
            idle_connections: 0,
        };
        host.start_again()?;
        Ok(host)
    }

    /// Starts another process with the same arguments. The last one must have ended. It stays the process of the host
    /// if the start fails.
    pub fn start_again(&mut self) -> Result<(), StartError> {
        self.starts += 1;
        let mut command = self.configuration.command();
        if self.has_memory_file() {
            let file = self.memory_directory.file();
            command = command.with(&["-e", &file.display().to_string()]);
        }
        if let Some(certificates) = &self.certificates {
            let (chain, key) = (certificates.chain(), certificates.key());
            // A jump of the clock must not end a handshake.
            let options = format!(
                "ssl_chain_cert={},ssl_key={},ssl_handshake_timeout=3600",
                chain.display(),
                key.display()
            );
            command = command.with(&["-Z", "-o", &options]);
        }
        let command = command.logging_to(&self.stderr_path(self.starts));
        let started = Server::start(&command).map_err(|error| {
            let stderr = self.last_stderr();
            StartError::NotListening(self.configuration.describe(), format!("{error}\n{stderr}"))
        });
        self.process = Some(started?);
        self.idle_connections = self.statistic("curr_connections");
        Ok(())
    }

    /// True if the server has a memory file (`-e`).
    pub fn has_memory_file(&self) -> bool {
        self.configuration.has_memory_file
    }

    /// Returns a number of `stats` of a process that has just started, or 0 if the process has ended.
    pub fn statistic(&mut self, name: &str) -> u64 {
        let rows = console(self.address(), START_TIMEOUT).and_then(|mut it| it.ask_rows("stats"));
        let row = rows.ok().and_then(|rows| rows.get(name)?.value.parse().ok());
        row.unwrap_or_default()
    }

    /// Returns the report of a sanitizer or of a panic in the server's stderr.
    pub fn sanitizer_report(&self) -> Option<String> {
        const MARKS: [&str; 3] = ["Sanitizer", "panicked at", "runtime error"];
        let stderr = self.stderr();
        let is_report = MARKS.iter().any(|mark| stderr.contains(mark));
        is_report.then(|| format!("the server has reported an error:\n{stderr}"))
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

    /// Describes whether the process is running, or how it has ended.
    pub fn state(&mut self) -> String {
        match self.process().exit_status() {
            Ok(None) => "it is running".to_owned(),
            Ok(Some(status)) => format!("it has ended with {status}"),
            Err(error) => format!("its state is unknown: {error}"),
        }
    }

    /// Stops the process by SIGTERM. Returns the problem if it has ended before, does not end with success, or has
    /// reported an error.
    pub fn stop(&mut self) -> Result<(), String> {
        let state = self.state();
        let process = self.process();
        if !matches!(process.exit_status(), Ok(None)) {
            return Err(format!("the server process does not run at the end: {state}"));
        }
        let status = process.signal(rustix::process::Signal::TERM).and_then(|()| process.wait());
        match (status, self.sanitizer_report()) {
            (_, Some(report)) => Err(report),
            (Ok(status), None) if status.success() => Ok(()),
            (status, None) => Err(format!("after SIGTERM the server ended with {status:?}")),
        }
    }

    /// Returns the address of the first listener.
    pub fn address(&mut self) -> SocketAddr {
        self.process().socket_address()
    }

    /// Returns all addresses of the process.
    pub fn endpoint(&mut self) -> Endpoint {
        let has_tls = self.configuration.has_tls;
        let ports = self.process().ports();
        let address = |index: usize| Some(SocketAddr::from(([127, 0, 0, 1], *ports.get(index)?)));
        let tls = if has_tls { address(1) } else { None };
        Endpoint { address: address(0), tls, udp: address(1 + usize::from(has_tls)) }
    }

    /// Returns what the processes wrote to stderr.
    pub fn stderr(&self) -> String {
        let read = |start| fs::read_to_string(self.stderr_path(start)).unwrap_or_default();
        (1..=self.starts).map(read).collect()
    }

    /// Returns what the last process wrote to stderr.
    pub fn last_stderr(&self) -> String {
        fs::read_to_string(self.stderr_path(self.starts)).unwrap_or_default()
    }

    /// Returns the resident memory in bytes, or 0 if the process has ended.
    pub fn resident_bytes(&mut self) -> u64 {
        self.process().status_bytes("VmRSS").unwrap_or_default()
    }

    /// Returns the resident bytes of shared memory, which are those of a memory file on a RAM disk, or 0 if the process
    /// has ended.
    pub fn resident_shared_bytes(&mut self) -> u64 {
        self.process().status_bytes("RssShmem").unwrap_or_default()
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
