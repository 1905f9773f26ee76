//! The servers of one test, one after the other, which share a control socket and a log.

use crate::support::{Client, Server, ServerCommand};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketType,
};
use slabwise_client::process::user_arguments;
use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The first message of a new process.
pub const HELLO: &str = "hello\noldest=3\nnewest=3\n";

/// Where the servers have their items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    Nameless,
    /// In a file of `-e`.
    File,
}

/// The folder and the options of the servers.
pub struct Setup {
    folder: TempDir,
    options: Vec<String>,
    /// Environment variables: names and values.
    variables: Vec<(String, String)>,
}

impl Setup {
    /// Makes the folder. `flags` are options of all servers, and `extended` further options of `-o`.
    pub fn new(items: Items, flags: &[&str], extended: &str) -> Setup {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder can be created");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut options: Vec<String> = user_arguments().iter().map(|&it| it.to_owned()).collect();
        options.extend(["-l", "127.0.0.1", "-p", "-1", "-m", "64"].map(str::to_owned));
        options.extend(flags.iter().map(|&it| it.to_owned()));
        options
            .extend(["-o".to_owned(), format!("upgradable,control={}{extended}", path("control"))]);
        if items == Items::File {
            options.extend(["-e".to_owned(), path("memory")]);
        }
        Setup { folder, options, variables: Vec::new() }
    }

    /// Returns a port of 127.0.0.1 that no program uses.
    pub fn free_port() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.local_addr().expect("the listener is bound").port()
    }

    /// Sets an environment variable of all further processes.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, first: &[&str], flags: &[impl AsRef<str>], log: &str) -> ServerCommand {
        let command = ServerCommand::new(env!("CARGO_BIN_EXE_slabwise")).with(first);
        let command = command.with(&self.options).with(flags).logging_to(&self.path(log));
        let set = |command: ServerCommand, (name, value): &(String, String)| {
            command.with_variable(name, value)
        };
        self.variables.iter().fold(command, set)
    }

    /// Starts the first server.
    pub fn start(&self) -> Server {
        Server::start(&self.command(&[], &[""; 0], "log"))
    }

    /// Starts a server that takes over, and waits until it serves. Its log has the name `log`.
    pub fn upgrade(&self, log: &str) -> Server {
        Server::start(&self.command(&["upgrade"], &[""; 0], log))
    }

    /// Starts a server that takes over, with these additional options.
    pub fn upgrade_with(&self, flags: &[&str], log: &str) -> Server {
        Server::start(&self.command(&["upgrade"], flags, log))
    }

    /// Starts `slabwise upgrade` with these additional options, and returns the process.
    pub fn spawn_upgrade(&self, flags: &[impl AsRef<str>], log: &str) -> std::process::Child {
        let command = self.command(&["upgrade"], flags, log);
        command.spawn(&self.path("ports")).expect("the program exists")
    }

    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes a file of `-o conf_file` with the options of the servers. Returns its path.
    pub fn write_conf(&self) -> PathBuf {
        let path = self.path("conf");
        fs::write(&path, self.options.join(" ")).expect("the folder is writable");
        path
    }

    /// Returns the options of a new process that connects to a relay instead of the running server.
    pub fn at_relay(&self) -> [String; 2] {
        ["-o".to_owned(), format!("control={}", self.path("relay").display())]
    }
}

/// Stores values with different lengths. Returns their number.
pub fn fill(client: &mut Client, count: usize) {
    for number in 0..count {
        assert_eq!(client.set(&format!("key{number}"), &value(number)), "STORED");
    }
}

/// Asserts that the client finds all values of [`fill`].
pub fn assert_filled(client: &mut Client, count: usize) {
    for number in 0..count {
        assert_eq!(client.get(&format!("key{number}")), Some(value(number)), "key{number}");
    }
}

fn value(number: usize) -> Vec<u8> {
    number.to_string().repeat(1 + number % 50).into_bytes()
}

/// A new process that the test plays. Its end is the drop of this value.
pub struct Peer(OwnedFd);

impl Peer {
    pub fn connect(setup: &Setup) -> Peer {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = rustix::net::socket(family, kind, None).expect("descriptors are free");
        let address = SocketAddrUnix::new(setup.path("control")).expect("the path is short");
        rustix::net::connect(&socket, &address).expect("the server listens");
        Peer(socket)
    }

    pub fn send(&self, text: &str) {
        let (slices, mut none) = ([IoSlice::new(text.as_bytes())], SendAncillaryBuffer::default());
        let sent = rustix::net::sendmsg(&self.0, &slices, &mut none, SendFlags::NOSIGNAL);
        sent.expect("the server reads");
    }

    /// Receives messages up to the first one with this name. Returns its text and its descriptors.
    pub fn receive(&self, name: &str) -> (String, Vec<OwnedFd>) {
        loop {
            let mut bytes = vec![0; 65_536];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let received =
                rustix::net::recvmsg(&self.0, &mut slices, &mut ancillary, RecvFlags::empty());
            let count = received.expect("the server answers").bytes;
            let text = String::from_utf8(bytes[..count].to_vec()).expect("a message is text");
            let rights = ancillary.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            });
            let descriptors: Vec<OwnedFd> = rights.flatten().collect();
            assert!(!text.is_empty(), "the server has closed the channel before {name}");
            if text.lines().next() == Some(name) {
                return (text, descriptors);
            }
        }
    }
}
