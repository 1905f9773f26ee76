//! A connection that sends bytes as they are and reads replies line by line; what goes wrong fails the test.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use slabwise_client::{ClientError, Connection, Row};

/// A reply that has not come by then never will.
const REPLY_DEADLINE: Duration = Duration::from_secs(20);

/// A connection and what was received but not yet read.
pub struct Client {
    connection: Connection<TcpStream>,
}

impl Client {
    /// Connects; panics when the server does not accept.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).expect("a TCP socket takes TCP_NODELAY");
        stream.set_read_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        stream.set_write_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        Client { connection: Connection::over(stream, usize::MAX) }
    }

    /// The socket itself.
    pub fn stream(&self) -> &TcpStream {
        self.connection.stream()
    }

    /// Sends the bytes in one write.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the server reads what it is sent");
    }

    /// Sends the bytes; the error when the server has closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.connection.send(bytes)
    }

    /// Sends the bytes, each in a packet of its own.
    pub fn try_send_bytewise(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        bytes.chunks(1).try_for_each(|byte| self.connection.send(byte))
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) {
        // Fails only when the server has closed already.
        let _ = self.stream().shutdown(Shutdown::Write);
    }

    /// The next reply line without its CR LF; none when the connection ended before it. A line
    /// that ends in a bare LF keeps it: the difference is part of the protocol.
    pub fn try_read_line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        match self.connection.line_with_end() {
            Ok(line) => Ok(Some(line.strip_suffix(b"\r\n").unwrap_or(line).to_vec())),
            Err(ClientError::Closed) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next reply line as text; panics when there is none.
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

    /// Stores a value; the server's reply.
    pub fn set(&mut self, key: &str, value: &[u8]) -> String {
        let mut bytes = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
        self.send(&bytes);
        self.read_line()
    }

    /// The value of a key, if it is there.
    pub fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let head = self.ask(&format!("get {key}"));
        if head == "END" {
            return None;
        }
        let value_len = head.split(' ').nth(3).and_then(|word| word.parse().ok());
        let value_len = value_len.unwrap_or_else(|| panic!("get {key} was answered {head:?}"));
        let value = self.read_exact(value_len);
        assert_eq!(self.read_exact(2), b"\r\n", "a value ends its line");
        assert_eq!(self.read_line(), "END");
        Some(value)
    }

    /// The value of one line of `stats`.
    pub fn stat(&mut self, name: &str) -> u64 {
        self.stat_of("stats", name)
    }

    /// The value of one line of a `stats` command.
    pub fn stat_of(&mut self, command: &str, name: &str) -> u64 {
        let found = self.numbers(command).into_iter().find(|(stat, _)| stat == name);
        found.unwrap_or_else(|| panic!("{command} has no number {name}")).1
    }

    /// Chunks of all classes that hold something, by `stats slabs`.
    pub fn used_chunks(&mut self) -> u64 {
        let numbers = self.numbers("stats slabs");
        numbers.iter().filter(|(name, _)| name.ends_with(":used_chunks")).map(|(_, n)| n).sum()
    }

    /// A number of each class by `stats slabs`, in the order of the classes.
    pub fn class_numbers(&mut self, name: &str) -> Vec<u64> {
        let numbers = self.numbers("stats slabs").into_iter();
        let is_of = |stat: &str| stat.split_once(':').is_some_and(|(_, field)| field == name);
        numbers.filter(|(stat, _)| is_of(stat)).map(|(_, number)| number).collect()
    }

    /// Those rows of a `stats` command whose values are whole numbers, in its order.
    fn numbers(&mut self, command: &str) -> Vec<(String, u64)> {
        let rows = self.connection.ask_rows(command).expect("rows");
        let number = |row: Row| Some((row.name, row.value.parse().ok()?));
        rows.0.into_iter().filter_map(number).collect()
    }

    /// Exactly `count` bytes of the reply.
    pub fn read_exact(&mut self, count: usize) -> Vec<u8> {
        while self.connection.received().len() < count {
            assert!(self.receive().expect("a reply") > 0, "the connection stays open");
        }
        self.take(count)
    }

    /// Exactly `count` bytes of the reply; none when the connection ended before the first of them.
    pub fn try_read_exact(&mut self, count: usize) -> Option<Vec<u8>> {
        let ended = self.connection.received().is_empty() && count > 0;
        if ended && self.receive().expect("a reply") == 0 {
            return None;
        }
        Some(self.read_exact(count))
    }

    /// The next `count` bytes of the reply; fewer where it ends or stops before.
    pub fn read_at_most(&mut self, count: usize) -> Vec<u8> {
        while self.connection.received().len() < count && self.receive().is_ok_and(|more| more > 0)
        {
        }
        self.take(count.min(self.connection.received().len()))
    }

    /// All that still comes until the server closes.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, ClientError> {
        while self.receive()? > 0 {}
        Ok(self.take_received())
    }

    /// What has been received and what comes within a moment: for the message of a failed test.
    pub fn leftovers(&mut self) -> Vec<u8> {
        let moment = Duration::from_millis(200);
        self.stream().set_read_timeout(Some(moment)).expect("the moment is not zero");
        while self.receive().is_ok_and(|count| count > 0) {}
        self.stream().set_read_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        self.take_received()
    }

    /// Received and not yet read; from here on it counts as read.
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
            // A server may close with our bytes unread: that resets, and means the same.
            Err(ClientError::Closed) => Ok(0),
            outcome => outcome,
        }
    }
}
