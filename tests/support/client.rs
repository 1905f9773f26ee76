//! A blocking connection that sends raw bytes and reads replies line by line. Every error panics, so it fails the test.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use slabwise_client::{ClientError, Connection, Row};

/// How long the client waits for a reply before the test fails.
const REPLY_DEADLINE: Duration = Duration::from_secs(20);

/// A connection and the bytes that it received but has not read yet.
pub struct Client {
    connection: Connection<TcpStream>,
}

impl Client {
    /// Connects; panics if the server does not accept the connection.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).expect("a TCP socket takes TCP_NODELAY");
        stream.set_read_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        stream.set_write_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        Client { connection: Connection::over(stream, usize::MAX) }
    }

    /// Returns the socket.
    pub fn stream(&self) -> &TcpStream {
        self.connection.stream()
    }

    /// Sends the bytes in one write.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the server reads the request");
    }

    /// Sends the bytes; returns an error if the server has closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.connection.send(bytes)
    }

    /// Sends each byte in its own packet.
    pub fn try_send_bytewise(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        bytes.chunks(1).try_for_each(|byte| self.connection.send(byte))
    }

    /// Shuts down the sending direction of the connection.
    pub fn finish_sending(&mut self) {
        // Fails only if the server has already closed the connection.
        let _ = self.stream().shutdown(Shutdown::Write);
    }

    /// Reads the next reply line without its CR LF; `None` if the connection ended before it. A line
    /// that ends in a bare LF keeps the LF, because the difference is part of the protocol.
    pub fn try_read_line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        match self.connection.line_with_end() {
            Ok(line) => Ok(Some(line.strip_suffix(b"\r\n").unwrap_or(line).to_vec())),
            Err(ClientError::Closed) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the next reply line as text; panics if the connection ends first.
    pub fn read_line(&mut self) -> String {
        let line = self.try_read_line().expect("a reply line within the deadline");
        let line = line.expect("the connection stays open");
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Sends a command line and reads a reply of one line.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\n").as_bytes());
        self.read_line()
    }

    /// Stores a value and returns the server's reply.
    pub fn set(&mut self, key: &str, value: &[u8]) -> String {
        let mut bytes = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
        self.send(&bytes);
        self.read_line()
    }

    /// Returns the value of a key, or `None` on a miss.
    pub fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let head = self.ask(&format!("get {key}"));
        if head == "END" {
            return None;
        }
        let value_len = head.split(' ').nth(3).and_then(|word| word.parse().ok());
        let value_len =
            value_len.unwrap_or_else(|| panic!("get {key} got the unexpected reply {head:?}"));
        let value = self.read_exact(value_len);
        assert_eq!(self.read_exact(2), b"\r\n", "CR LF follows a value");
        assert_eq!(self.read_line(), "END");
        Some(value)
    }

    /// Returns the value of one line of `stats`.
    pub fn stat(&mut self, name: &str) -> u64 {
        self.stat_of("stats", name)
    }

    /// Returns the value of one line of a `stats` subcommand.
    pub fn stat_of(&mut self, command: &str, name: &str) -> u64 {
        let found = self.numbers(command).into_iter().find(|(stat, _)| stat == name);
        found.unwrap_or_else(|| panic!("{command} has no numeric statistic {name}")).1
    }

    /// Returns the number of used chunks in all classes, from `stats slabs`.
    pub fn used_chunks(&mut self) -> u64 {
        let numbers = self.numbers("stats slabs");
        numbers.iter().filter(|(name, _)| name.ends_with(":used_chunks")).map(|(_, n)| n).sum()
    }

    /// Returns one statistic of `stats slabs` for each class, in class order.
    pub fn class_numbers(&mut self, name: &str) -> Vec<u64> {
        let numbers = self.numbers("stats slabs").into_iter();
        let is_of = |stat: &str| stat.split_once(':').is_some_and(|(_, field)| field == name);
        numbers.filter(|(stat, _)| is_of(stat)).map(|(_, number)| number).collect()
    }

    /// Returns the rows of a `stats` command whose values are integers, in the server's order.
    fn numbers(&mut self, command: &str) -> Vec<(String, u64)> {
        let rows = self.connection.ask_rows(command).expect("rows");
        let number = |row: Row| Some((row.name, row.value.parse().ok()?));
        rows.0.into_iter().filter_map(number).collect()
    }

    /// Reads exactly `count` bytes of the reply.
    pub fn read_exact(&mut self, count: usize) -> Vec<u8> {
        while self.connection.received().len() < count {
            assert!(self.receive().expect("a reply") > 0, "the connection stays open");
        }
        self.take(count)
    }

    /// Reads exactly `count` bytes of the reply; `None` if the connection ended before the first one.
    pub fn try_read_exact(&mut self, count: usize) -> Option<Vec<u8>> {
        let ended = self.connection.received().is_empty() && count > 0;
        if ended && self.receive().expect("a reply") == 0 {
            return None;
        }
        Some(self.read_exact(count))
    }

    /// Reads the next `count` bytes; fewer if the connection ends or stalls first.
    pub fn read_at_most(&mut self, count: usize) -> Vec<u8> {
        while self.connection.received().len() < count && self.receive().is_ok_and(|more| more > 0)
        {
        }
        self.take(count.min(self.connection.received().len()))
    }

    /// Reads until the server closes the connection.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, ClientError> {
        while self.receive()? > 0 {}
        Ok(self.take_received())
    }

    /// Returns the bytes received so far and those that arrive within 200 ms, for the message of a failed test.
    pub fn leftovers(&mut self) -> Vec<u8> {
        let moment = Duration::from_millis(200);
        self.stream().set_read_timeout(Some(moment)).expect("the moment is not zero");
        while self.receive().is_ok_and(|count| count > 0) {}
        self.stream().set_read_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        self.take_received()
    }

    /// Takes the bytes that were received but not read yet.
    fn take_received(&mut self) -> Vec<u8> {
        self.take(self.connection.received().len())
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let bytes = self.connection.received()[..count].to_vec();
        self.connection.consume(count);
        bytes
    }

    fn receive(&mut self) -> Result<usize, ClientError> {
        match self.connection.receive() {
            // If the server closes with unread input, the kernel resets the connection. Both count as its end.
            Err(ClientError::Closed) => Ok(0),
            outcome => outcome,
        }
    }
}
