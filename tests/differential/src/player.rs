//! Sends steps to one server, and reads the reply to each step.
//!
//! The replies to commands have no common form, so a marker follows each step, whose reply has a unique text: a get of a
//! missing key with an opaque token between two `mn`, or a no-op with an opaque number. The bytes before the reply to the
//! marker are the reply to the step.
//!
//! `mn` and the no-op make memcached send the replies before them. This is important for two reasons. A reply that
//! memcached has not sent holds a reference to its item, and memcached changes a number in place only if nothing refers
//! to its item. And a retrieval with a key that is too long discards the replies that memcached has not sent.

use crate::keys::{self, KEYS};
use crate::normalise::normalise;
use crate::step::{After, Dialect, Step};
use memchr::memmem;
use slabwise_client::process::{Server, ServerCommand, StartError};
use slabwise_client::{ClientError, Connection};
use slabwise_protocol::binary::opcode;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// The time without a received byte after which the client shuts down its sending direction. If the server waits for
/// more bytes, it then closes the connection. If it is only slow, it sends its replies before.
const SILENCE: Duration = Duration::from_secs(2);
/// The time without a received byte after which the server counts as stuck.
const STUCK: Duration = Duration::from_secs(60);
/// The pause between two requests for the server's time.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The end of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The reply to the marker followed.
    Marker,
    /// Only the reply to the second half of the marker followed, because the server has taken its first half for a part
    /// of the step.
    HalfMarker,
    /// The server closed the connection.
    Closed,
    /// The server is stuck: it has neither replied nor closed the connection.
    Stuck,
    /// The server did not read the step, because it closed the connection at an earlier step of the same write.
    Unread,
}

impl End {
    /// True if the connection can be used for the next step.
    pub fn is_open(self) -> bool {
        matches!(self, End::Marker | End::HalfMarker)
    }
}

/// The reply to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub bytes: Vec<u8>,
    pub end: End,
}

/// An error of starting a server or connecting to it.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{0}: {1}")]
    Connection(String, ClientError),
}

/// A server and the connections to it.
pub struct Player {
    server: Server,
    /// The name of the program, for errors.
    program: String,
    /// The connections by dialect. Each is opened by the first step that uses it.
    text: Option<Connection<TcpStream>>,
    binary: Option<Connection<TcpStream>>,
    /// The last CAS value that a reply contained, for each key of [`KEYS`].
    cas: [u64; KEYS.len()],
    /// The number of the next marker.
    marker: u32,
}

impl Player {
    /// Starts a server.
    pub fn start(command: &ServerCommand) -> Result<Player, PlayError> {
        let server = Server::start(command)?;
        let program = command.program();
        let cas = [0; KEYS.len()];
        Ok(Player { server, program, text: None, binary: None, cas, marker: 0 })
    }

    /// Returns the version that the server reports.
    pub fn version(&self) -> Result<String, PlayError> {
        let mut connection = self.connect()?;
        let reply = connection.ask_line("version").map_err(|error| self.error(error))?;
        Ok(reply.strip_prefix("VERSION ").unwrap_or(&reply).to_owned())
    }

    /// Returns the server's time in seconds since 1970.
    fn seconds(&self) -> Result<u64, PlayError> {
        let rows = self.connect()?.ask_rows("stats").map_err(|error| self.error(error))?;
        let time = rows.get("time").and_then(|row| row.value.parse().ok());
        time.ok_or_else(|| self.error(ClientError::Unexpected(b"stats without a time".to_vec())))
    }

    /// Waits until the server's clock has advanced by two seconds.
    #[expect(clippy::disallowed_methods, reason = "the thread that drives a server waits for it")]
    pub fn wait_two_seconds(&self) -> Result<(), PlayError> {
        let start = self.seconds()?;
        while self.seconds()? < start + 2 {
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Removes all items, and opens new connections for the next steps.
    pub fn clear(&mut self) -> Result<(), PlayError> {
        (self.text, self.binary, self.cas) = (None, None, [0; KEYS.len()]);
        let mut deletes = Vec::new();
        for key in keys::all() {
            deletes.extend(delete_quietly(&key));
        }
        let steps = [Step::new(crate::step::Family::Binary, deletes)];
        self.send(&steps)?;
        self.receive(&steps)?;
        self.binary = None;
        Ok(())
    }

    /// Sends joined steps, all of the same dialect. Only the last one may end with [`After::Finish`].
    pub fn send(&mut self, steps: &[Step]) -> Result<(), PlayError> {
        let dialect = steps[0].family.dialect();
        let mut unsent = Vec::new();
        let mut connection = self.take(dialect)?;
        for (marker, step) in (self.marker..).zip(steps) {
            let bytes = step.bytes(|key| self.cas[key]);
            let cut = step.cut.unwrap_or(0).min(bytes.len());
            if cut > 0 {
                unsent.extend_from_slice(&bytes[..cut]);
                // A write fails if the server has closed the connection; the missing replies then show this.
                let _ = connection.send(&unsent);
                unsent.clear();
            }
            unsent.extend_from_slice(&bytes[cut..]);
            if step.after == After::Marker {
                unsent.extend(marker_request(dialect, marker));
            }
        }
        let _ = connection.send(&unsent);
        if steps.last().is_some_and(|step| step.after == After::Finish) {
            let _ = connection.stream().shutdown(Shutdown::Write);
        }
        *self.place(dialect) = Some(connection);
        Ok(())
    }

    /// Returns the replies to the steps that were sent last.
    pub fn receive(&mut self, steps: &[Step]) -> Result<Vec<Reply>, PlayError> {
        let dialect = steps[0].family.dialect();
        let mut connection = self.take(dialect)?;
        let mut replies: Vec<Reply> = Vec::with_capacity(steps.len());
        for step in steps {
            let is_open = replies.last().is_none_or(|reply| reply.end.is_open());
            let reply = if is_open {
                let end = match step.after {
                    After::Marker => Some(marker_reply(dialect, self.marker)),
                    After::Finish => None,
                };
                read_reply(&mut connection, end.as_deref(), dialect)
            } else {
                Reply { bytes: Vec::new(), end: End::Unread }
            };
            self.marker += 1;
            self.learn(step, &reply);
            replies.push(reply);
        }
        let is_shut_down = connection.stream().read_timeout().ok().flatten() != Some(SILENCE);
        if !is_shut_down && replies.iter().all(|reply| reply.end.is_open()) {
            *self.place(dialect) = Some(connection);
        }
        Ok(replies)
    }

    /// Remembers the CAS values in a reply.
    fn learn(&mut self, step: &Step, reply: &Reply) {
        for (key, cas) in normalise(step.family.dialect(), &reply.bytes).cas {
            let named = key.and_then(|name| KEYS.iter().position(|key| *key == &name[..]));
            if let Some(key) = named.or(step.key).filter(|_| cas != 0) {
                self.cas[key] = cas;
            }
        }
    }

    /// Returns the connection of a dialect, and opens it if necessary.
    fn take(&mut self, dialect: Dialect) -> Result<Connection<TcpStream>, PlayError> {
        match self.place(dialect).take() {
            Some(connection) => Ok(connection),
            None => self.open(dialect),
        }
    }

    /// Opens a connection. The first store of a text connection removes a CAS value that memcached may have kept from an
    /// earlier connection: see the row of `docs/differences.md` about the flag E.
    fn open(&self, dialect: Dialect) -> Result<Connection<TcpStream>, PlayError> {
        let mut connection = self.connect()?;
        if dialect == Dialect::Text {
            let mut exchange = || {
                connection.send(b"set opening 0 0 1\r\nx\r\ndelete opening\r\n")?;
                connection.line()?;
                connection.line().map(|_| ())
            };
            exchange().map_err(|error| self.error(error))?;
        }
        Ok(connection)
    }

    fn place(&mut self, dialect: Dialect) -> &mut Option<Connection<TcpStream>> {
        match dialect {
            Dialect::Text => &mut self.text,
            Dialect::Binary => &mut self.binary,
        }
    }

    fn connect(&self) -> Result<Connection<TcpStream>, PlayError> {
        let open = |address: SocketAddr| {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE))?;
            stream.set_write_timeout(Some(STUCK))?;
            Ok(Connection::over(stream, usize::MAX))
        };
        open(self.server.socket_address()).map_err(|error| self.error(ClientError::Connect(error)))
    }

    fn error(&self, error: ClientError) -> PlayError {
        PlayError::Connection(self.program.clone(), error)
    }
}

/// Reads a reply up to the reply to its marker, or up to the end of the connection if there is no marker.
fn read_reply(
    connection: &mut Connection<TcpStream>,
    end: Option<&[u8]>,
    dialect: Dialect,
) -> Reply {
    let mut searched: usize = 0;
    loop {
        let received = connection.received();
        if let Some(end) = end {
            let from = searched.saturating_sub(end.len());
            if let Some(at) = memmem::find(&received[from..], end) {
                let bytes = received[..from + at].to_vec();
                connection.consume(from + at + end.len());
                return without_first_half(bytes, dialect);
            }
        }
        searched = received.len();
        let result = match connection.receive() {
            Ok(0) | Err(ClientError::Closed) => End::Closed,
            Ok(_) => continue,
            Err(ClientError::ReadTimeout) if shut_down(connection.stream()) => continue,
            Err(_) => End::Stuck,
        };
        return Reply { bytes: connection.received().to_vec(), end: result };
    }
}

/// Shuts down the sending direction of a connection after [`SILENCE`]. Returns false if this was done before.
fn shut_down(stream: &TcpStream) -> bool {
    let is_first = stream.read_timeout().ok().flatten() == Some(SILENCE);
    if is_first {
        // Both calls fail only if the server has closed the connection, which the next read notices.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.set_read_timeout(Some(STUCK));
    }
    is_first
}

/// Removes the reply to the first half of the marker from the end of a reply.
fn without_first_half(mut bytes: Vec<u8>, dialect: Dialect) -> Reply {
    const FIRST_HALF: &[u8] = b"MN\r\n";
    let end = match dialect {
        Dialect::Binary => End::Marker,
        Dialect::Text if bytes.ends_with(FIRST_HALF) => {
            bytes.truncate(bytes.len() - FIRST_HALF.len());
            End::Marker
        }
        Dialect::Text => End::HalfMarker,
    };
    Reply { bytes, end }
}

/// Returns the marker that is sent after a step.
fn marker_request(dialect: Dialect, number: u32) -> Vec<u8> {
    match dialect {
        Dialect::Text => format!("mn\r\nmg marker O{number}\r\nmn\r\n").into_bytes(),
        Dialect::Binary => packet_head(0x80, opcode::NOOP, 0, 0, number),
    }
}

/// Returns the reply to the marker, without the reply to the first `mn`.
fn marker_reply(dialect: Dialect, number: u32) -> Vec<u8> {
    match dialect {
        Dialect::Text => format!("EN O{number}\r\nMN\r\n").into_bytes(),
        Dialect::Binary => packet_head(0x81, opcode::NOOP, 0, 0, number),
    }
}

/// Returns the packet that deletes the item of a key, if there is one, without a reply to a success.
fn delete_quietly(key: &[u8]) -> Vec<u8> {
    let key_len = u8::try_from(key.len()).expect("a key has at most 250 bytes");
    let mut packet = packet_head(0x80, opcode::DELETEQ, key_len, u32::from(key_len), 0);
    packet.extend_from_slice(key);
    packet
}

/// Returns a head of a packet without extras and CAS value. The first byte of the opaque number is 0xee, so that the
/// numbers of markers differ from those of generated packets.
fn packet_head(magic: u8, opcode: u8, key_len: u8, body_len: u32, number: u32) -> Vec<u8> {
    let mut head = vec![magic, opcode, 0, key_len, 0, 0, 0, 0];
    head.extend_from_slice(&body_len.to_be_bytes());
    head.extend_from_slice(&(0xee00_0000 | number).to_be_bytes());
    head.extend_from_slice(&[0; 8]);
    head
}
