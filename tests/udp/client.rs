//! A UDP client that sends datagrams, and joins the datagrams of a reply in the order of their sequence numbers.

use slabwise_protocol::udp::{HEADER_LEN, Header};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::support::{Client, Deadline, Server, ServerCommand, under_test};

/// The time within which a reply must arrive.
const REPLY_DEADLINE: Duration = Duration::from_secs(20);
/// The time without a datagram after which a request is repeated. Datagrams of a reply that is larger than the socket's
/// buffer can be lost.
const REPEAT_AFTER: Duration = Duration::from_millis(300);

/// A server with a UDP port.
pub struct Fixture {
    pub server: Server,
    /// The address of the UDP port.
    pub address: SocketAddr,
}

impl Fixture {
    /// Starts the server under test with a UDP port and these additional flags.
    pub fn start(flags: &[&str]) -> Fixture {
        Fixture::start_command(&under_test(), flags)
    }

    /// Starts a server with a UDP port and these additional flags.
    pub fn start_command(command: &ServerCommand, flags: &[&str]) -> Fixture {
        loop {
            let port = free_udp_port();
            let command = command.clone().with(&["-U", &port.to_string()]).with(flags);
            let server = Server::start(&command);
            // If another test's server has the same TCP port, the reply can be from that server. Then start again.
            if has_udp_port(&mut server.connect(), port) {
                return Fixture { server, address: SocketAddr::from(([127, 0, 0, 1], port)) };
            }
        }
    }

    /// Returns a UDP client.
    pub fn udp(&self) -> UdpClient {
        UdpClient::new(self.address)
    }

    /// Returns a TCP client.
    pub fn tcp(&self) -> Client {
        self.server.connect()
    }
}

/// True if the server at the other end of the connection has this UDP port.
fn has_udp_port(tcp: &mut Client, port: u16) -> bool {
    tcp.send(b"stats settings\r\n");
    let mut has_port = false;
    loop {
        match tcp.read_line() {
            line if line == "END" => return has_port,
            line => has_port |= line == format!("STAT udpport {port}"),
        }
    }
}

/// Returns a free port. The port is below the range from which the kernel assigns ports to other sockets.
fn free_udp_port() -> u16 {
    const FIRST_PORT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let offset = std::process::id() as u16 % 8_000 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST_PORT + offset % 12_000;
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A client with a UDP socket.
pub struct UdpClient {
    socket: UdpSocket,
    /// The id of the last request.
    request_id: u16,
}

impl UdpClient {
    /// Makes a client of the server with this address.
    pub fn new(server: SocketAddr) -> UdpClient {
        let socket =
            UdpSocket::bind("127.0.0.1:0").expect("a UDP socket can be bound to a free port");
        socket.connect(server).expect("a UDP socket can be connected to a local address");
        socket.set_read_timeout(Some(REPLY_DEADLINE)).expect("20 seconds is a valid timeout");
        UdpClient { socket, request_id: 1_000 }
    }

    /// Sends bytes as a datagram, without a header.
    pub fn send_raw(&self, datagram: &[u8]) {
        self.socket.send(datagram).expect("the kernel accepts the datagram");
    }

    /// Sends a datagram with this header and these commands.
    pub fn send(&self, header: Header, payload: &[u8]) {
        self.send_raw(&[&header.compose()[..], payload].concat());
    }

    /// Returns the header and the payload of the next datagram.
    pub fn receive(&self) -> (Header, Vec<u8>) {
        let mut buffer = [0; 2_000];
        let len = self.socket.recv(&mut buffer).expect("a datagram arrives within 20 seconds");
        assert!(len <= 1_400, "a datagram has at most 1,400 bytes, not {len}");
        assert_eq!(buffer[6..8], [0, 0], "the reserved bytes of the header are 0");
        let header = Header::parse(&buffer[..len]).expect("the datagram starts with a header");
        (header, buffer[HEADER_LEN..len].to_vec())
    }

    /// Returns the next message, which must have this request id. Its datagrams must arrive in order; on a local
    /// connection they do.
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

    /// Sends commands in a datagram with a new request id. Returns this id.
    pub fn request(&mut self, payload: &[u8]) -> u16 {
        self.request_id = self.request_id.wrapping_add(1);
        self.send(request_header(self.request_id), payload);
        self.request_id
    }

    /// Sends one command, and returns its reply.
    pub fn ask(&mut self, command: &[u8]) -> Vec<u8> {
        let request_id = self.request(command);
        self.receive_message(request_id)
    }

    /// Sends one command, and returns its reply as text.
    pub fn ask_text(&mut self, command: &str) -> String {
        String::from_utf8_lossy(&self.ask(command.as_bytes())).into_owned()
    }

    /// Sends one command, and returns its reply, which can be long. If datagrams are lost, the client repeats the
    /// request. So the command must get the same reply each time.
    pub fn ask_until_whole(&mut self, command: &[u8]) -> Vec<u8> {
        let deadline = Deadline::after(REPLY_DEADLINE);
        let mut parts: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        let request_id = self.request(command);
        self.socket.set_read_timeout(Some(REPEAT_AFTER)).expect("300 ms is a valid timeout");
        let mut buffer = [0; 2_000];
        loop {
            assert!(
                !deadline.is_over(),
                "all datagrams of the reply arrive within 20 seconds, not only {}",
                parts.len()
            );
            let len = match self.socket.recv(&mut buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.send(request_header(request_id), command);
                    continue;
                }
                Err(error) => panic!("the socket can receive datagrams: {error}"),
            };
            let header = Header::parse(&buffer[..len]).expect("the datagram starts with a header");
            assert_eq!(header.request_id, request_id);
            parts.insert(header.sequence, buffer[HEADER_LEN..len].to_vec());
            if parts.len() == usize::from(header.total) {
                self.socket
                    .set_read_timeout(Some(REPLY_DEADLINE))
                    .expect("20 seconds is a valid timeout");
                return parts.into_values().flatten().collect();
            }
        }
    }
}

/// Returns the header of a request.
pub fn request_header(request_id: u16) -> Header {
    Header { request_id, sequence: 0, total: 1 }
}
