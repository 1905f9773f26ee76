//! A client with a blocking connection: it sends raw bytes and reads replies line by line. An error panics, which fails
//! the test, except in methods that return a `Result`.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use slabwise_client::{ClientError, Connection, Row};

/// The time for which the client waits for a reply before the test fails.
const REPLY_DEADLINE: Duration = Duration::from_secs(40);

/// A client of the text protocol.
pub struct Client {
    connection: Connection<TcpStream>,
}

impl Client {
    /// Connects to a server. Panics if the server does not accept the connection.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).expect("a TCP socket has the option TCP_NODELAY");
        stream.set_read_timeout(Some(REPLY_DEADLINE)).expect("40 seconds is a valid timeout");
        stream.set_write_timeout(Some(REPLY_DEADLINE)).expect("40 seconds is a valid timeout");
        Client { connection: Connection::over(stream, usize::MAX) }
    }

    /// Returns the socket of the connection.
    pub fn stream(&self) -> &TcpStream {
        self.connection.stream()
    }

    /// Sends the bytes in one write.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the server reads the whole request");
    }

    /// Sends the bytes in one write. Returns an error if the server has closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.connection.send(bytes)
    }

    /// Sends each byte in its own packet. Returns an error if the server has closed the connection.
    pub fn try_send_bytewise(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        bytes.chunks(1).try_for_each(|byte| self.connection.send(byte))
    }

    /// Shuts down the sending direction of the connection.
    pub fn finish_sending(&mut self) {
        // The shutdown fails only if the server has already closed the connection.
        let _ = self.stream().shutdown(Shutdown::Write);
    }

    /// Returns the next line of the reply without its CR LF, or `None` if the connection has ended. A line that ends
    /// with only an LF keeps the LF, because the difference is part of the protocol.
    pub fn try_read_line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        match self.connection.line_with_end() {
            Ok(line) => Ok(Some(line.strip_suffix(b"\r\n").unwrap_or(line).to_vec())),
            Err(ClientError::Closed) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the next line of the reply as text. Panics if the connection ends before the line.
    pub fn read_line(&mut self) -> String {
        let line = self.try_read_line().expect("a line of the reply arrives within 20 seconds");
        let line = line.expect("the server keeps the connection open and sends a reply");
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Sends a command line, and returns the first line of the reply.
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
        let value_len = value_len
            .unwrap_or_else(|| panic!("the reply to `get {key}` is a VALUE line, not {head:?}"));
        let value = self.read_exact(value_len);
        assert_eq!(self.read_exact(2), b"\r\n", "CR LF follows the value of {key}");
        assert_eq!(self.read_line(), "END");
        Some(value)
    }

    /// Returns the number of one statistic of `stats`.
    pub fn stat(&mut self, name: &str) -> u64 {
        self.stat_of("stats", name)
    }

    /// Returns the number of one statistic in the reply to a command such as `stats slabs`.
    pub fn stat_of(&mut self, command: &str, name: &str) -> u64 {
        let found = self.numbers(command).into_iter().find(|(stat, _)| stat == name);
        found
            .unwrap_or_else(|| panic!("the reply to `{command}` has no numeric statistic {name}"))
            .1
    }

    /// Returns the sum of the used chunks of all classes, from `stats slabs`.
    pub fn used_chunks(&mut self) -> u64 {
        let numbers = self.numbers("stats slabs");
        numbers.iter().filter(|(name, _)| name.ends_with(":used_chunks")).map(|(_, n)| n).sum()
    }

    /// Returns the values of one statistic of `stats slabs`: one value per class, in the order of the classes.
    pub fn class_numbers(&mut self, name: &str) -> Vec<u64> {
        let numbers = self.numbers("stats slabs").into_iter();
        let has_name = |stat: &str| stat.split_once(':').is_some_and(|(_, field)| field == name);
        numbers.filter(|(stat, _)| has_name(stat)).map(|(_, number)| number).collect()
    }

    /// Returns the statistics in a reply whose values are integers, in the server's order.
    pub fn numbers(&mut self, command: &str) -> Vec<(String, u64)> {
        let number = |row: Row| Some((row.name, row.value.parse().ok()?));
        self.rows(command).into_iter().filter_map(number).collect()
    }

    /// Returns true if the output to at least one client is blocked.
    pub fn is_output_blocked(&mut self) -> bool {
        self.rows("stats conns").iter().any(|row| row.value == "conn_mwrite")
    }

    fn rows(&mut self, command: &str) -> Vec<Row> {
        let rows = self.connection.ask_rows(command);
        rows.expect("the server replies with STAT lines and END").0
    }

    /// Returns the next `count` bytes of the reply. Panics if the connection ends before them.
    pub fn read_exact(&mut self, count: usize) -> Vec<u8> {
        while self.connection.received().len() < count {
            let len = self.receive().expect("the next bytes of the reply arrive within 20 seconds");
            assert!(len > 0, "the server sends {count} bytes before it closes the connection");
        }
        self.take(count)
    }

    /// Returns the next `count` bytes of the reply, or `None` if the connection ended before the first of them.
    pub fn try_read_exact(&mut self, count: usize) -> Option<Vec<u8>> {
        let must_receive = self.connection.received().is_empty() && count > 0;
        if must_receive
            && self.receive().expect("the server replies or closes within 20 seconds") == 0
        {
            return None;
        }
        Some(self.read_exact(count))
    }

    /// Returns the next `count` bytes of the reply. Returns fewer bytes if the connection ends, or if no byte arrives
    /// for 20 seconds.
    pub fn read_at_most(&mut self, count: usize) -> Vec<u8> {
        while self.connection.received().len() < count && self.receive().is_ok_and(|more| more > 0)
        {
        }
        self.take(count.min(self.connection.received().len()))
    }

    /// Reads until the server closes the connection. Returns all bytes that were not read yet.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, ClientError> {
        while self.receive()? > 0 {}
        Ok(self.take_received())
    }

    /// Returns the unread bytes, and further bytes until none arrives for 200 ms. Failed tests print these bytes.
    pub fn leftovers(&mut self) -> Vec<u8> {
        let moment = Duration::from_millis(200);
        self.stream().set_read_timeout(Some(moment)).expect("200 ms is a valid timeout");
        while self.receive().is_ok_and(|count| count > 0) {}
        self.stream()
            .set_read_timeout(Some(REPLY_DEADLINE))
            .expect("20 seconds is a valid timeout");
        self.take_received()
    }

    /// Returns and consumes the bytes that were received but not read yet.
    fn take_received(&mut self) -> Vec<u8> {
        self.take(self.connection.received().len())
    }

    /// Returns and consumes the next `count` received bytes.
    fn take(&mut self, count: usize) -> Vec<u8> {
        let bytes = self.connection.received()[..count].to_vec();
        self.connection.consume(count);
        bytes
    }

    /// Receives more bytes. Returns their number; 0 if the connection has ended.
    fn receive(&mut self) -> Result<usize, ClientError> {
        match self.connection.receive() {
            // If the server closes the connection with unread input, the kernel resets it. Both count as the end.
            Err(ClientError::Closed) => Ok(0),
            outcome => outcome,
        }
    }
}
