//! Starts a server as a child process on a free port, for tests, experiments and demonstrations.
//!
//! With `-p -1`, the kernel chooses a free port when the server binds its socket. Servers that start at the same time
//! therefore never choose the same port. The server writes the port to a file. The environment variable
//! `MEMCACHED_PORT_FILENAME` contains the name of the file. Dropping a [`Server`] kills the process.

use crate::address::ServerAddress;
use slabwise_base::Clock;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{io, iter};
use tempfile::TempDir;

/// The timeout for a server to listen after its start, and for a process to exit. The timeout is long because many
/// servers may start at once on a busy machine.
pub const START_SECONDS_MAX: u64 = 30;

const PORT_FILE_VARIABLE: &str = "MEMCACHED_PORT_FILENAME";
/// The pause between two checks whether a server listens or a process has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// An error of starting a server. The first field of each variant is the program as given by the caller.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system could not start the program.
    #[error("{0} cannot be started: {1}")]
    Spawn(String, #[source] io::Error),
    /// The process exited, or did not listen within [`START_SECONDS_MAX`] seconds. The second field is the text that
    /// the process wrote to stderr, if the command keeps stderr and the text is not empty, and otherwise the reason.
    #[error("{0} does not listen: {1}")]
    NotListening(String, String),
}

/// The destination of a server's stderr.
#[derive(Clone, Debug, Default)]
enum Stderr {
    /// The stderr of this process.
    #[default]
    Inherited,
    /// A file in the server's directory, which [`StartError::NotListening`] quotes.
    Kept,
    File(PathBuf),
}

/// The command that starts a server.
#[derive(Clone, Debug, Default)]
pub struct ServerCommand {
    program: PathBuf,
    arguments: Vec<String>,
    /// Environment variables: names and values.
    variables: Vec<(String, String)>,
    stderr: Stderr,
    /// The program and the arguments of the supervisor; empty if the server has no supervisor.
    supervisor: Vec<OsString>,
}

impl ServerCommand {
    /// Returns a command that starts `program` without arguments.
    pub fn new(program: impl Into<PathBuf>) -> ServerCommand {
        ServerCommand { program: program.into(), ..ServerCommand::default() }
    }

    /// Returns a command with the arguments that make a server listen on a free port of 127.0.0.1.
    pub fn on_free_port(program: impl Into<PathBuf>) -> ServerCommand {
        ServerCommand::new(program).with(&["-l", "127.0.0.1", "-p", "-1"]).with(user_arguments())
    }

    /// Appends arguments.
    pub fn with(mut self, arguments: &[impl AsRef<str>]) -> ServerCommand {
        self.arguments.extend(arguments.iter().map(|it| it.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable of the server process.
    pub fn with_variable(mut self, name: &str, value: &str) -> ServerCommand {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Redirects the server's stderr to the file `path`.
    pub fn logging_to(self, path: &Path) -> ServerCommand {
        ServerCommand { stderr: Stderr::File(path.to_owned()), ..self }
    }

    /// Stores the server's stderr, so that [`StartError::NotListening`] can quote it.
    pub fn keeping_stderr(self) -> ServerCommand {
        ServerCommand { stderr: Stderr::Kept, ..self }
    }

    /// Starts the server below a supervisor: a process with this program and these arguments, which are followed by the
    /// server's program and arguments. It must call [`supervisor::run`](crate::supervisor::run). The server then ends
    /// when this process ends, even if a signal kills this process.
    ///
    /// The supervisor and the server form a process group of their own. A terminal therefore sends no signal to them.
    pub fn supervised_by(self, program: impl Into<OsString>, arguments: &[&str]) -> ServerCommand {
        let arguments = arguments.iter().map(OsString::from);
        let supervisor = iter::once(program.into()).chain(arguments).collect();
        ServerCommand { supervisor, ..self }
    }

    /// Returns the program as the caller gave it, with or without its folder.
    pub fn program(&self) -> String {
        self.program.display().to_string()
    }

    /// Returns the file name of the program and its arguments as one text, for messages.
    pub fn describe(&self) -> String {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str());
        let name = name.to_string_lossy();
        format!("{name} {}", self.arguments.join(" ")).trim_end().to_owned()
    }

    /// Starts the process, and returns without waiting until it listens. The server creates `port_file` when it
    /// listens.
    pub fn spawn(&self, port_file: &Path) -> io::Result<Child> {
        let mut command = match self.supervisor.split_first() {
            None => {
                let mut command = Command::new(&self.program);
                command.stdin(Stdio::null());
                command
            }
            Some((supervisor, arguments)) => {
                let mut command = Command::new(supervisor);
                command.args(arguments).arg(&self.program).process_group(0).stdin(Stdio::piped());
                command
            }
        };
        command.args(&self.arguments).stdout(Stdio::null());
        command.envs(self.variables.iter().cloned()).env(PORT_FILE_VARIABLE, port_file);
        match &self.stderr {
            Stderr::Inherited => {}
            Stderr::Kept => drop(command.stderr(File::create(stderr_path(port_file))?)),
            Stderr::File(path) => drop(command.stderr(File::create(path)?)),
        }
        command.spawn()
    }
}

/// Returns `-u root` if this process runs as root, because memcached refuses to start as root without `-u`. Returns no
/// arguments otherwise.
pub fn user_arguments() -> &'static [&'static str] {
    if rustix::process::getuid().is_root() { &["-u", "root"] } else { &[] }
}

/// Returns the path of the file that stores a server's stderr: `stderr`, in the folder of the port file.
fn stderr_path(port_file: &Path) -> PathBuf {
    port_file.with_file_name("stderr")
}

/// A running server with its own temporary directory.
#[derive(Debug)]
pub struct Server {
    child: Child,
    ports: Vec<u16>,
    directory: TempDir,
}

impl Server {
    /// Starts a server and waits until it listens.
    pub fn start(command: &ServerCommand) -> Result<Server, StartError> {
        let directory =
            tempfile::tempdir().map_err(|error| StartError::Spawn(command.program(), error))?;
        Server::start_in(directory, command)
    }

    /// Starts a server and waits until it listens. `directory` holds the files of the server. Dropping the returned
    /// `Server` removes the directory.
    pub fn start_in(directory: TempDir, command: &ServerCommand) -> Result<Server, StartError> {
        let port_file = directory.path().join("ports");
        let child = command.spawn(&port_file);
        let child = child.map_err(|error| StartError::Spawn(command.program(), error))?;
        let mut server = Server { child, ports: Vec::new(), directory };
        match server.listening_ports(&port_file) {
            Ok(ports) => {
                server.ports = ports;
                Ok(server)
            }
            Err(error) => {
                let stderr = fs::read_to_string(stderr_path(&port_file)).unwrap_or_default();
                let stderr = stderr.trim();
                let reason = if stderr.is_empty() { error.to_string() } else { stderr.to_owned() };
                Err(StartError::NotListening(command.program(), reason))
            }
        }
    }

    /// Waits until the port file exists, and returns its ports. The server writes the ports to a temporary file first,
    /// and renames this file when it listens, so an existing port file is complete.
    fn listening_ports(&mut self, port_file: &Path) -> io::Result<Vec<u16>> {
        let ended = poll(|| {
            let ended = self.child.try_wait()?;
            Ok((ended.is_some() || port_file.exists()).then_some(ended))
        })?;
        match ended {
            None => Err(io::Error::other(format!(
                "it did not write its ports within {START_SECONDS_MAX} s"
            ))),
            Some(Some(status)) => Err(io::Error::other(format!("it exited with {status}"))),
            Some(None) => read_ports(port_file),
        }
    }

    /// Returns the id of the server process, or of its supervisor.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the ports of all listeners: first TCP, then UDP, each in the order of the server's arguments.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Returns the address of the first listener on 127.0.0.1.
    ///
    /// # Panics
    /// Panics if the server has no listener.
    pub fn socket_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[0]))
    }

    /// Returns the address of the first listener, in the form that a client needs.
    pub fn address(&self) -> ServerAddress {
        ServerAddress::Tcp(self.socket_address().to_string())
    }

    /// Returns the temporary directory of the server. It is removed when the `Server` is dropped.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Reads a field of `/proc/PID/status` that is a size in KiB, and returns it in bytes. The field `VmRSS` is the
    /// resident memory.
    pub fn status_bytes(&self, name: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib << 10).ok_or_else(|| {
            io::Error::other(format!(
                "/proc/{}/status has no size named {name}: {status}",
                self.id()
            ))
        })
    }

    /// Sends a signal to the server process.
    pub fn signal(&self, signal: rustix::process::Signal) -> io::Result<()> {
        let id = i32::try_from(self.id()).ok().and_then(rustix::process::Pid::from_raw);
        let id =
            id.ok_or_else(|| io::Error::other(format!("{} is not a process id", self.id())))?;
        Ok(rustix::process::kill_process(id, signal)?)
    }

    /// Returns how the server process has exited, or `None` while it runs.
    pub fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until the server process exits. Fails after [`START_SECONDS_MAX`] seconds.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        wait(&mut self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A supervisor kills the server when its stdin ends. If it were killed, the server would continue to run.
        if self.child.stdin.take().is_some() {
            let _ = self.child.wait();
            return;
        }
        // `kill` fails only if the process has already exited, and `wait` only if its exit status was already read.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a child process exits. Fails after [`START_SECONDS_MAX`] seconds.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let id = child.id();
    poll(|| child.try_wait())?.ok_or_else(|| {
        io::Error::other(format!("process {id} did not exit within {START_SECONDS_MAX} s"))
    })
}

/// Reads a port file. Each line ends with a port: first the ports of the TCP listeners, then those of the UDP
/// listeners.
pub fn read_ports(port_file: &Path) -> io::Result<Vec<u16>> {
    let text = fs::read_to_string(port_file)?;
    let port = |line: &str| line.rsplit(' ').next()?.parse().ok();
    let ports = text.lines().map(port).collect::<Option<Vec<u16>>>();
    ports.ok_or_else(|| {
        let path = port_file.display();
        io::Error::other(format!(
            "each line of {path} must end with a port, but it contains {text:?}"
        ))
    })
}

/// Calls `check` until it returns a value, and returns this value. Returns `None` if `check` has not returned a value
/// within [`START_SECONDS_MAX`] seconds.
#[expect(clippy::disallowed_methods, reason = "the thread that drives a server waits for it")]
fn poll<T>(mut check: impl FnMut() -> io::Result<Option<T>>) -> io::Result<Option<T>> {
    let clock = Clock::real();
    loop {
        match check()? {
            Some(found) => return Ok(Some(found)),
            None if clock.nanos() > START_SECONDS_MAX * 1_000_000_000 => return Ok(None),
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}
