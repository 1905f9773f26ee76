//! Polling: reads samples from servers, each on its own thread.

use crate::sample::{Plan, Profile, Sample, Totals, classes, printable};
use slabwise_base::Clock;
use slabwise_client::{ClientError, Connection, Connector, Rows};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The result of one attempt to read a server.
#[derive(Debug)]
pub struct Update {
    /// The position of the server in the list of servers.
    pub server: usize,
    /// The sample, or the reason why there is none.
    pub result: Result<Sample, String>,
}

/// Threads that poll servers. They end after [`Pollers`] is dropped.
#[derive(Debug)]
pub struct Pollers {
    updates: Receiver<Update>,
    /// Each thread waits on the receiver of one of these channels, which closes when the sender is dropped.
    _stop: Vec<Sender<()>>,
}

impl Pollers {
    /// Starts a thread for each server. The thread reads a sample at once, and then one after each interval.
    pub fn start(servers: &[Connector], interval: Duration) -> io::Result<Pollers> {
        let (sender, updates) = channel();
        let clock = Arc::new(Clock::real());
        let mut stops = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            let (stop, stopped) = channel();
            stops.push(stop);
            let reader = Reader::new(server.clone(), Arc::clone(&clock));
            let sender = sender.clone();
            let poll = move || poll(reader, number, interval, &sender, &stopped);
            thread::Builder::new().name(format!("poll {number}")).spawn(poll)?;
        }
        Ok(Pollers { updates, _stop: stops })
    }

    /// Returns the next update that has arrived, without waiting.
    pub fn next(&self) -> Option<Update> {
        self.updates.try_recv().ok()
    }
}

/// Polls one server until `stopped` is closed.
fn poll(
    mut reader: Reader,
    server: usize,
    interval: Duration,
    updates: &Sender<Update>,
    stopped: &Receiver<()>,
) {
    loop {
        let start_nanos = reader.clock.nanos();
        let result = reader.read();
        if updates.send(Update { server, result }).is_err() {
            return;
        }
        let spent = Duration::from_nanos(reader.clock.nanos() - start_nanos);
        let left = interval.saturating_sub(spent);
        if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Reads two samples of each server, `interval` apart. Returns the two samples of each server, in the order of the
/// servers, or the reason why a sample could not be read.
pub fn read_twice(servers: &[Connector], interval: Duration) -> Vec<Result<[Sample; 2], String>> {
    let clock = Arc::new(Clock::real());
    let read = |server: &Connector| {
        let mut reader = Reader::new(server.clone(), Arc::clone(&clock));
        let first = reader.read()?;
        #[expect(clippy::disallowed_methods, reason = "this thread only reads one server")]
        thread::sleep(interval);
        Ok([first, reader.read()?])
    };
    thread::scope(|scope| {
        let start = |server| thread::Builder::new().spawn_scoped(scope, move || read(server));
        let threads: Vec<_> = servers.iter().map(start).collect();
        let join = |thread: io::Result<thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|_| Err("the thread that reads it has failed".to_owned())),
            Err(error) => Err(format!("cannot start a thread that reads it: {error}")),
        };
        threads.into_iter().map(join).collect()
    })
}

/// Reads samples of one server, and keeps the connection open between them.
#[derive(Debug)]
struct Reader {
    server: Connector,
    clock: Arc<Clock>,
    session: Option<Session>,
}

/// A connection to a server.
#[derive(Debug)]
struct Session {
    connection: Connection,
    /// True until the server refuses `stats profile` or `stats plan`, which only slabwise has.
    has_profile: bool,
    has_plan: bool,
}

impl Reader {
    fn new(server: Connector, clock: Arc<Clock>) -> Reader {
        Reader { server, clock, session: None }
    }

    /// Reads a sample. Connects if there is no connection. After an error, the next call connects again.
    fn read(&mut self) -> Result<Sample, String> {
        let was_connected = self.session.is_some();
        let mut result = self.try_read();
        if was_connected && matches!(result, Err(Failure::Client(ClientError::Closed))) {
            // The server closed the connection since the last sample, for example because it was restarted.
            result = self.try_read();
        }
        result.map_err(|failure| match failure {
            Failure::Client(error) => printable(&error.to_string()),
            Failure::Reply(reason) => reason,
        })
    }

    fn try_read(&mut self) -> Result<Sample, Failure> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => {
                let connection = self.server.open()?;
                Session { connection, has_profile: true, has_plan: true }
            }
        };
        let sample = session.read(&self.clock)?;
        self.session = Some(session);
        Ok(sample)
    }
}

impl Session {
    fn read(&mut self, clock: &Clock) -> Result<Sample, Failure> {
        let totals = self.connection.ask_rows("stats")?;
        let nanos = clock.nanos();
        let items = self.connection.ask_rows("stats items")?;
        let slabs = self.connection.ask_rows("stats slabs")?;
        let profile = optional(&mut self.connection, "stats profile", &mut self.has_profile)?;
        let plan = optional(&mut self.connection, "stats plan", &mut self.has_plan)?;
        Ok(Sample {
            nanos,
            totals: Totals::parse(&totals).map_err(Failure::Reply)?,
            classes: classes(&items, &slabs),
            profile: Profile::parse(&profile),
            plan: Plan::parse(&plan),
        })
    }
}

/// Returns the rows of a command that the server may not have, or no rows if it refuses the command.
fn optional(
    connection: &mut Connection,
    command: &str,
    exists: &mut bool,
) -> Result<Rows, ClientError> {
    if !*exists {
        return Ok(Rows::default());
    }
    match connection.ask_rows(command) {
        Err(ClientError::Refused(line)) => {
            // Other errors, such as `SERVER_ERROR out of memory`, pass.
            *exists = line != b"ERROR";
            Ok(Rows::default())
        }
        result => result,
    }
}

/// The reason why a sample could not be read.
#[derive(Debug)]
enum Failure {
    /// The connection failed, or the server refused a command.
    Client(ClientError),
    /// A reply lacks a row.
    Reply(String),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Client(error)
    }
}

#[cfg(test)]
mod tests {
    use super::{Pollers, Reader, Update};
    use crate::args::TIMEOUTS;
    use slabwise_base::Clock;
    use slabwise_client::{Connector, ServerAddress};
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;
    use std::time::Duration;

    /// Starts a server that has no slabwise commands. It closes each connection after this number of commands. Returns
    /// its address, and a channel with the commands that it receives.
    fn memcached(commands_per_connection: usize) -> (Connector, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address").to_string();
        let (sender, commands) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let lines = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
                for line in lines.lines().map_while(Result::ok).take(commands_per_connection) {
                    answer(&stream, &line);
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            }
        });
        (Connector::new(ServerAddress::Tcp(address), TIMEOUTS), commands)
    }

    fn answer(mut stream: &TcpStream, command: &str) {
        const STATS: [&str; 7] = [
            "cmd_get 4",
            "cmd_set 2",
            "get_hits 3",
            "evictions 0",
            "curr_items 1",
            "curr_connections 1",
            "bytes 9",
        ];
        let reply = match command {
            "stats" => {
                let rows = STATS.map(|row| format!("STAT {row}\r\n")).concat();
                format!("{rows}STAT limit_maxbytes 99\r\nEND\r\n")
            }
            "stats items" => "STAT items:1:number 1\r\nEND\r\n".to_owned(),
            "stats slabs" => "STAT 1:total_pages 1\r\nEND\r\n".to_owned(),
            _ => "ERROR\r\n".to_owned(),
        };
        stream.write_all(reply.as_bytes()).expect("the reader receives the reply");
    }

    fn reader(server: Connector) -> Reader {
        Reader::new(server, Arc::new(Clock::real()))
    }

    #[test]
    fn a_command_that_the_server_refuses_is_sent_once() {
        let (server, commands) = memcached(usize::MAX);
        let mut reader = reader(server);
        for _ in 0..2 {
            let sample = reader.read().expect("the server replies");
            assert_eq!((sample.totals.requests, sample.classes.len()), (6, 1));
            assert_eq!((sample.program(), sample.profile), ("memcached", None));
        }
        drop(reader);
        let commands: Vec<String> = commands.try_iter().collect();
        let refused = commands.iter().filter(|command| command.as_str() == "stats plan");
        assert_eq!(refused.count(), 1, "{commands:?}");
    }

    #[test]
    fn the_reader_connects_again_if_the_server_has_closed_the_connection() {
        let (server, _commands) = memcached(5);
        let mut reader = reader(server);
        for _ in 0..3 {
            reader.read().expect("the reader connects again");
        }
    }

    #[test]
    fn a_poller_reports_each_attempt() {
        let (server, _commands) = memcached(usize::MAX);
        let closed = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port is free");
        let closed = ServerAddress::Tcp(closed.to_string());
        let servers = [server, Connector::new(closed, TIMEOUTS)];
        let pollers = Pollers::start(&servers, Duration::from_millis(10)).expect("threads start");
        let updates: Vec<Update> = pollers.updates.iter().take(20).collect();
        for update in &updates {
            assert_eq!(update.result.is_ok(), update.server == 0, "{update:?}");
        }
        let of = |server| updates.iter().filter(|update| update.server == server).count();
        assert!(of(0) > 1 && of(1) > 1, "{updates:?}");
    }
}
