//! A connection without blocking calls, plain or with TLS.
//!
//! ```text
//!   queue(bytes) --> unsent bytes --send--> [TLS] --> socket --receive--> [TLS] --> received bytes
//! ```
//!
//! Invariants: bytes are sent and received in order. [`Link::send`] and [`Link::receive`] return when the socket would
//! block; the event loop then reports when it no longer does.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// The longest time of a connect or of a step of a handshake.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// The size of the buffer of one read call, in bytes.
const READ_BYTES: usize = 64 << 10;
/// The capacity, in bytes, above which an empty buffer is freed.
const KEPT_CAPACITY_BYTES_MAX: usize = 4 << 10;

/// Where the server listens, and how clients encrypt.
#[derive(Clone)]
pub struct Target {
    pub address: SocketAddr,
    /// `None` without TLS.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// A blocking stream that reads and writes, plain or with TLS.
pub trait ReadWrite: Read + Write + Send {}

impl<S: Read + Write + Send> ReadWrite for S {}

impl Target {
    /// Opens a blocking connection.
    pub fn open_blocking(&self) -> io::Result<Box<dyn ReadWrite>> {
        let socket = self.connect()?;
        match self.client()? {
            None => Ok(Box::new(socket)),
            Some(client) => Ok(Box::new(StreamOwned::new(client, socket))),
        }
    }

    /// Opens a connection, waits until a handshake is complete, and registers the connection for events with `token`.
    pub fn open(&self, registry: &Registry, token: Token) -> io::Result<Link> {
        let mut socket = self.connect()?;
        let mut tls = self.client()?;
        if let Some(tls) = &mut tls {
            while tls.is_handshaking() {
                tls.complete_io(&mut socket)?;
            }
        }
        socket.set_nonblocking(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut SourceFd(&socket.as_raw_fd()), token, interest)?;
        Ok(Link { socket, tls: tls.map(Box::new), unsent: Vec::new(), received: Vec::new() })
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpStream::connect_timeout(&self.address, OPEN_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(OPEN_TIMEOUT))?;
        socket.set_write_timeout(Some(OPEN_TIMEOUT))?;
        Ok(socket)
    }

    fn client(&self) -> io::Result<Option<ClientConnection>> {
        let Some((config, name)) = &self.tls else { return Ok(None) };
        let client = ClientConnection::new(Arc::clone(config), name.clone());
        let mut client = client.map_err(io::Error::other)?;
        client.set_buffer_limit(None);
        Ok(Some(client))
    }
}

/// An open connection.
pub struct Link {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// Bytes to send. With TLS, they are not encrypted yet.
    unsent: Vec<u8>,
    /// Received bytes that the caller has not consumed.
    received: Vec<u8>,
}

/// Whether the server can still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    Open,
    /// The server has closed the connection.
    Closed,
}

impl Link {
    /// Returns the buffer to which the caller appends bytes to send.
    pub fn queue(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// Returns the received bytes that the caller has not consumed.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Removes the first `count` received bytes.
    pub fn consume(&mut self, count: usize) {
        self.received.drain(..count);
        free_if_empty(&mut self.received);
    }

    /// Sends the queued bytes until the socket would block.
    pub fn send(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            let sent = write_some(&self.unsent, |rest| (&self.socket).write(rest))?;
            self.unsent.drain(..sent);
            free_if_empty(&mut self.unsent);
            return Ok(());
        };
        if !self.unsent.is_empty() {
            tls.writer().write_all(&std::mem::take(&mut self.unsent))?;
        }
        while tls.wants_write() {
            match tls.write_tls(&mut &self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives bytes until the socket would block or the server closes the connection.
    pub fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<Received> {
        buffer.resize(READ_BYTES, 0);
        loop {
            let count = match &mut self.tls {
                None => (&self.socket).read(buffer),
                Some(tls) => tls.read_tls(&mut &self.socket),
            };
            match count {
                Ok(0) => return Ok(Received::Closed),
                Ok(count) => match &mut self.tls {
                    None => self.received.extend_from_slice(&buffer[..count]),
                    Some(tls) => {
                        let state = tls.process_new_packets().map_err(io::Error::other)?;
                        let start = self.received.len();
                        self.received.resize(start + state.plaintext_bytes_to_read(), 0);
                        tls.reader().read_exact(&mut self.received[start..])?;
                        if state.peer_has_closed() {
                            return Ok(Received::Closed);
                        }
                    }
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::Open),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Calls `write` with the bytes that are not written until it would block. Returns the number of written bytes.
fn write_some(
    bytes: &[u8],
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match write(&bytes[sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Frees the memory of a buffer that is empty and large.
fn free_if_empty(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > KEPT_CAPACITY_BYTES_MAX {
        *buffer = Vec::new();
    }
}
