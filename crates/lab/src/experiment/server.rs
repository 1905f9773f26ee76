//! Real servers as processes: started, asked for their allocation, and stopped.

use slabwise_replay::ServerAddress;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a server may take to listen, and to answer.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Why a server could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// There is no such program, or it cannot be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// It ended, or did not listen in time.
    #[error("{program} does not listen: {said}")]
    Silent {
        /// The program.
        program: String,
        /// What it said, if it ended.
        said: String,
    },
    /// Its statistics cannot be read.
    #[error("the server does not answer: {0}")]
    Stats(io::Error),
}

/// A running server on a port of its own; stopped when dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    address: String,
    statistics: BufReader<TcpStream>,
}

/// Bytes of pages by class, a class named by its chunk size.
pub type Allocation = BTreeMap<u64, u64>;

/// One class of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassPages {
    /// What the server calls it.
    pub number: String,
    /// Bytes a chunk.
    pub chunk_size: u64,
    /// Bytes a page, but for what no chunk fills.
    pub page_size: u64,
    /// Pages it has.
    pub pages: u64,
}

impl Server {
    /// Starts `command`, where `slabwise` is the program that runs now, with so much memory.
    pub fn start(command: &[String], memory_mib: u64) -> Result<Server, ServerError> {
        let program = command[0].clone();
        let failed = |source| ServerError::Start { program: program.clone(), source };
        let path = match program.as_str() {
            "slabwise" => std::env::current_exe().map_err(failed)?,
            other => PathBuf::from(other),
        };
        let directory = Directory::new().map_err(failed)?;
        // The kernel picks the port while the server binds it: nobody else can have it.
        let port_file = directory.0.join("ports");
        let mut server = Command::new(path);
        server.args(&command[1..]).args(["-l", "127.0.0.1", "-p", "-1"]);
        server.args(["-m", &memory_mib.to_string()]);
        if rustix::process::getuid().is_root() {
            server.args(["-u", "root"]);
        }
        server.env("MEMCACHED_PORT_FILENAME", &port_file);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = server.spawn().map_err(failed)?;
        let connected = connect(&mut process, &port_file);
        match connected {
            Ok((address, stream)) => {
                Ok(Server { process, address, statistics: BufReader::new(stream) })
            }
            Err(error) => {
                let _ = process.kill();
                let said = process.wait_with_output().map(|output| output.stderr);
                let said = String::from_utf8_lossy(&said.unwrap_or_default()).trim().to_owned();
                let said = if said.is_empty() { error.to_string() } else { said };
                Err(ServerError::Silent { program, said })
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> ServerAddress {
        ServerAddress::Tcp(self.address.clone())
    }

    /// How its memory is divided now.
    pub fn allocation(&mut self) -> Result<Allocation, ServerError> {
        let mut allocation = Allocation::new();
        for class in self.classes()? {
            *allocation.entry(class.chunk_size).or_default() += class.page_size * class.pages;
        }
        Ok(allocation)
    }

    /// Its classes, by chunk size.
    pub fn classes(&mut self) -> Result<Vec<ClassPages>, ServerError> {
        self.ask_classes().map_err(ServerError::Stats)
    }

    /// Sends an order that is answered with one line; returns that line.
    pub fn order(&mut self, order: &str) -> Result<String, ServerError> {
        self.ask_line(order).map_err(ServerError::Stats)
    }

    fn ask_line(&mut self, order: &str) -> io::Result<String> {
        self.statistics.get_mut().write_all(format!("{order}\r\n").as_bytes())?;
        let mut line = String::new();
        self.statistics.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn ask_classes(&mut self) -> io::Result<Vec<ClassPages>> {
        self.statistics.get_mut().write_all(b"stats slabs\r\n")?;
        let mut classes: BTreeMap<String, [u64; 3]> = BTreeMap::new();
        let mut line = String::new();
        loop {
            line.clear();
            if self.statistics.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line.trim_end() == "END" {
                break;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["STAT", name, value] = words[..] else { continue };
            let Some((class, field)) = name.split_once(':') else { continue };
            let fields = ["chunk_size", "chunks_per_page", "total_pages"];
            if let Some(at) = fields.iter().position(|&known| known == field) {
                classes.entry(class.to_owned()).or_default()[at] = value.parse().unwrap_or(0);
            }
        }
        let class = |(number, [chunk_size, chunks_per_page, pages]): (String, [u64; 3])| {
            ClassPages { number, chunk_size, page_size: chunk_size * chunks_per_page, pages }
        };
        let mut classes: Vec<ClassPages> = classes.into_iter().map(class).collect();
        classes.sort_by_key(|class| class.chunk_size);
        Ok(classes)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that would be missed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until the server listens, and connects.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread that drives a server waits for its start"
)]
fn connect(process: &mut Child, port_file: &Path) -> io::Result<(String, TcpStream)> {
    let tries = PATIENCE.as_millis() / LOOK_AGAIN.as_millis();
    for _ in 0..tries {
        if let Some(status) = process.try_wait()? {
            return Err(io::Error::other(format!("it ended with {status}")));
        }
        // The file appears whole, once the server listens.
        if let Ok(text) = std::fs::read_to_string(port_file)
            && let Some(port) = text.lines().find_map(|line| line.strip_prefix("TCP INET: "))
        {
            let address = format!("127.0.0.1:{}", port.trim());
            let stream = TcpStream::connect(&address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            return Ok((address, stream));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Err(io::Error::other(format!("no port within {} s", PATIENCE.as_secs())))
}

/// A directory of its own, gone when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Directory> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("slabwise-lab-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
