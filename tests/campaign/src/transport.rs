//! A socket that never blocks, with or without TLS.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// The number of plaintext bytes that TLS encrypts before the socket accepts them, at most.
const TLS_BUFFER_LEN_MAX: usize = 256 * 1024;
/// The host name in the server's certificate.
pub const SERVER_NAME: &str = "localhost";

/// The configuration of TLS clients.
pub type TlsConfig = Arc<rustls::ClientConfig>;

/// A connected socket.
#[derive(Debug)]
pub struct Transport {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Transport {
    /// Returns a transport over a connected socket. With a configuration, the client uses TLS.
    pub fn new(socket: TcpStream, tls: Option<&TlsConfig>) -> io::Result<Transport> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let connect = |config: &TlsConfig| {
            let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
            let connection = ClientConnection::new(Arc::clone(config), name);
            let mut connection = connection.map_err(io::Error::other)?;
            connection.set_buffer_limit(Some(TLS_BUFFER_LEN_MAX));
            io::Result::Ok(Box::new(connection))
        };
        Ok(Transport { socket, tls: tls.map(connect).transpose()? })
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends as many bytes as possible. Returns the number of bytes that need not be sent again, and whether anything
    /// was sent.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        let Some(tls) = &mut self.tls else {
            if bytes.is_empty() {
                return Ok((0, false));
            }
            let count = temporary_is_zero(self.socket.write(bytes))?;
            return Ok((count, count > 0));
        };
        let accepted = if bytes.is_empty() { 0 } else { tls.writer().write(bytes)? };
        let mut is_sent = false;
        while tls.wants_write() && temporary_is_zero(tls.write_tls(&mut self.socket))? > 0 {
            is_sent = true;
        }
        Ok((accepted, is_sent))
    }

    /// Receives up to `buffer.len()` bytes. Returns 0 if nothing has arrived, and an error if the connection has ended.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return match self.socket.read(buffer) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                other => temporary_is_zero(other),
            };
        };
        loop {
            match tls.reader().read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            match tls.read_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {
                    tls.process_new_packets().map_err(io::Error::other)?;
                }
                Err(error) => return temporary_is_zero(Err(error)),
            }
        }
    }

    /// Waits up to 100 ms until the socket is readable or, if there is something to send, writable.
    pub fn wait(&self, has_output: bool) {
        let wants_write = self.tls.as_ref().map_or(has_output, |tls| tls.wants_write());
        let events = if wants_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        // An error, such as an interruption by a signal, only shortens the wait.
        let _ = poll(&mut [PollFd::new(&self.socket, events)], Some(&timeout));
    }
}

/// Replaces the errors of a socket that would block by 0.
fn temporary_is_zero(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        other => other,
    }
}
