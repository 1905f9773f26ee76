//! A connection that sends bytes as they are and reads replies line by line.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A reply that has not come by then never will.
const REPLY_DEADLINE: Duration = Duration::from_secs(20);
const READ_SIZE_BYTES: usize = 64 * 1024;

/// A connection and what was received but not yet read.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    read: usize,
}

impl Client {
    /// Connects; panics when the server does not accept.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).expect("a TCP socket takes TCP_NODELAY");
        stream.set_read_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        stream.set_write_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        Client { stream, received: Vec::new(), read: 0 }
    }

    /// The socket itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends the bytes in one write.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the server reads what it is sent");
    }

    /// Sends the bytes; the error when the server has closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends the bytes, each in a packet of its own.
    pub fn try_send_bytewise(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.iter().try_for_each(|byte| self.stream.write_all(&[*byte]))
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) {
        // Fails only when the server has closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The next reply line without its CR LF; none when the connection ended before it. A line
    /// that ends in a bare LF keeps it: the difference is part of the protocol.
    pub fn try_read_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            let pending = &self.received[self.read..];
            if let Some(end) = pending[searched..].iter().position(|&byte| byte == b'\n') {
                let line = &pending[..=searched + end];
                let line = line.strip_suffix(b"\r\n").unwrap_or(line).to_vec();
                self.read += searched + end + 1;
                return Ok(Some(line));
            }
            searched = pending.len();
            if self.receive()? == 0 {
                return Ok(None);
            }
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

    /// Those lines of a `stats` command whose values are whole numbers, in its order.
    fn numbers(&mut self, command: &str) -> Vec<(String, u64)> {
        self.send(format!("{command}\r\n").as_bytes());
        let mut numbers = Vec::new();
        loop {
            let line = self.read_line();
            if line == "END" {
                return numbers;
            }
            let mut words = line.split(' ').skip(1);
            if let (Some(name), Some(Ok(number))) = (words.next(), words.next().map(str::parse)) {
                numbers.push((name.to_owned(), number));
            }
        }
    }

    /// Exactly so many bytes of the reply.
    pub fn read_exact(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() - self.read < count {
            assert!(self.receive().expect("a reply") > 0, "the connection stays open");
        }
        let bytes = self.received[self.read..self.read + count].to_vec();
        self.read += count;
        bytes
    }

    /// The same; none when the connection ended before the first of them.
    pub fn try_read_exact(&mut self, count: usize) -> Option<Vec<u8>> {
        let ended = self.read == self.received.len() && count > 0;
        if ended && self.receive().expect("a reply") == 0 {
            return None;
        }
        Some(self.read_exact(count))
    }

    /// The next bytes of the reply, so many or, where it ends or stops before, fewer.
    pub fn read_at_most(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() - self.read < count && self.receive().is_ok_and(|more| more > 0) {
        }
        let bytes = self.received[self.read..].iter().copied().take(count).collect::<Vec<_>>();
        self.read += bytes.len();
        bytes
    }

    /// All that still comes until the server closes.
    pub fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        while self.receive()? > 0 {}
        Ok(self.take_received())
    }

    /// What has been received and what comes within a moment: for the message of a failed test.
    pub fn leftovers(&mut self) -> Vec<u8> {
        let moment = Duration::from_millis(200);
        self.stream.set_read_timeout(Some(moment)).expect("the moment is not zero");
        while self.receive().is_ok_and(|count| count > 0) {}
        self.stream.set_read_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        self.take_received()
    }

    /// Received and not yet read; from here on it counts as read.
    fn take_received(&mut self) -> Vec<u8> {
        let rest = self.received.split_off(self.read);
        self.received.clear();
        self.read = 0;
        rest
    }

    fn receive(&mut self) -> io::Result<usize> {
        if self.read == self.received.len() {
            self.received.clear();
            self.read = 0;
        }
        let kept = self.received.len();
        self.received.resize(kept + READ_SIZE_BYTES, 0);
        let outcome = self.stream.read(&mut self.received[kept..]);
        self.received.truncate(kept + *outcome.as_ref().unwrap_or(&0));
        match outcome {
            // A server may close with our bytes unread: that resets, and means the same.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            outcome => outcome,
        }
    }
}
