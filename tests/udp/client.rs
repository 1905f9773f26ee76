//! A client that sends datagrams and puts replies together by their numbers.

use slabwise_protocol::udp::{HEADER_LEN, Header};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::support::{Client, Deadline, Server, ServerCommand, under_test};

const REPLY_DEADLINE: Duration = Duration::from_secs(20);
/// Datagrams may be lost where a reply is larger than the socket's buffer: then it is asked for again.
const LOSS_AFTER: Duration = Duration::from_millis(300);

/// A server with a UDP port.
pub struct Scene {
    pub server: Server,
    pub address: SocketAddr,
}

impl Scene {
    pub fn start(flags: &[&str]) -> Scene {
        Scene::start_command(&under_test(), flags)
    }

    pub fn start_command(command: &ServerCommand, flags: &[&str]) -> Scene {
        loop {
            let port = free_udp_port();
            let command = command.clone().with(&["-U", &port.to_string()]).with(flags);
            let server = Server::start(&command);
            // Another test's server may have been given the same TCP port, and be the one that answers.
            if serves_udp_port(&mut server.connect(), port) {
                return Scene { server, address: SocketAddr::from(([127, 0, 0, 1], port)) };
            }
        }
    }

    /// A client by UDP.
    pub fn udp(&self) -> UdpClient {
        UdpClient::new(self.address)
    }

    /// A client by TCP.
    pub fn tcp(&self) -> Client {
        self.server.connect()
    }
}

fn serves_udp_port(tcp: &mut Client, port: u16) -> bool {
    tcp.send(b"stats settings\r\n");
    let mut is_served = false;
    loop {
        match tcp.read_line() {
            line if line == "END" => return is_served,
            line => is_served |= line == format!("STAT udpport {port}"),
        }
    }
}

/// A port that no client's socket is given by the kernel meanwhile, as those of free choice could be.
fn free_udp_port() -> u16 {
    const BELOW_THE_KERNELS_CHOICE: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let offset = std::process::id() as u16 % 8_000 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = BELOW_THE_KERNELS_CHOICE + offset % 12_000;
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A client's socket.
pub struct UdpClient {
    socket: UdpSocket,
    request_id: u16,
}

impl UdpClient {
    pub fn new(server: SocketAddr) -> UdpClient {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a UDP socket");
        socket.connect(server).expect("an address");
        socket.set_read_timeout(Some(REPLY_DEADLINE)).expect("the deadline is not zero");
        UdpClient { socket, request_id: 1_000 }
    }

    /// Sends a datagram as it is.
    pub fn send_raw(&self, datagram: &[u8]) {
        self.socket.send(datagram).expect("a datagram");
    }

    /// Sends commands with this header.
    pub fn send(&self, header: Header, payload: &[u8]) {
        self.send_raw(&[&header.compose()[..], payload].concat());
    }

    /// The next datagram.
    pub fn receive(&self) -> (Header, Vec<u8>) {
        let mut buffer = [0; 2_000];
        let len = self.socket.recv(&mut buffer).expect("a reply");
        assert!(len <= 1_400, "a datagram of {len} bytes");
        assert_eq!(buffer[6..8], [0, 0], "reserved bytes");
        let header = Header::parse(&buffer[..len]).expect("a header");
        (header, buffer[HEADER_LEN..len].to_vec())
    }

    /// The next message, whose datagrams come in order on this machine.
    pub fn receive_message(&self, request_id: u16) -> Vec<u8> {
        let mut message = Vec::new();
        let mut expected = 0;
        loop {
            let (header, payload) = self.receive();
            assert_eq!(header.request_id, request_id);
            assert_eq!(header.sequence, expected);
            message.extend_from_slice(&payload);
            expected += 1;
            if expected == header.total {
                return message;
            }
        }
    }

    /// Sends commands; returns the header that replies to them will have the number of.
    pub fn request(&mut self, payload: &[u8]) -> u16 {
        self.request_id = self.request_id.wrapping_add(1);
        self.send(request_header(self.request_id), payload);
        self.request_id
    }

    /// One command and its reply.
    pub fn ask(&mut self, command: &[u8]) -> Vec<u8> {
        let request_id = self.request(command);
        self.receive_message(request_id)
    }

    /// The same as text.
    pub fn ask_text(&mut self, command: &str) -> String {
        String::from_utf8_lossy(&self.ask(command.as_bytes())).into_owned()
    }

    /// One command and its long reply, put together by sequence numbers. What is lost on the way is asked for
    /// again: the command must have the same reply each time.
    pub fn ask_until_whole(&mut self, command: &[u8]) -> Vec<u8> {
        let deadline = Deadline::after(REPLY_DEADLINE);
        let mut parts: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        let request_id = self.request(command);
        self.socket.set_read_timeout(Some(LOSS_AFTER)).expect("it is not zero");
        let mut buffer = [0; 2_000];
        loop {
            assert!(!deadline.is_over(), "{} datagrams in time", parts.len());
            let len = match self.socket.recv(&mut buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.send(request_header(request_id), command);
                    continue;
                }
                Err(error) => panic!("no reply: {error}"),
            };
            let header = Header::parse(&buffer[..len]).expect("a header");
            assert_eq!(header.request_id, request_id);
            parts.insert(header.sequence, buffer[HEADER_LEN..len].to_vec());
            if parts.len() == usize::from(header.total) {
                self.socket.set_read_timeout(Some(REPLY_DEADLINE)).expect("it is not zero");
                return parts.into_values().flatten().collect();
            }
        }
    }
}

/// The header of a request.
pub fn request_header(request_id: u16) -> Header {
    Header { request_id, sequence: 0, total: 1 }
}
