//! A server with a certificate, and clients that speak TLS with it.

use crate::support::certificates::{Authority, CertificateFiles, Identity, SERVER_NAME};
use crate::support::stream_client;
use crate::support::{Client, Server, under_test};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, StreamOwned, SupportedProtocolVersion};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A reply that has not come by then never will.
const REPLY_DEADLINE: Duration = Duration::from_secs(20);

/// A server that serves TLS, and the authority behind it.
pub struct Scene {
    pub server: Server,
    /// Where clients connect.
    pub address: SocketAddr,
    pub authority: Authority,
    pub files: CertificateFiles,
    /// Without TLS.
    pub plain_address: SocketAddr,
    _plain_reserved: ReservedAddress,
}

impl Scene {
    /// Starts a server with more flags. It also listens without TLS, for questions about it.
    pub fn start(flags: &[&str]) -> Scene {
        let authority = Authority::new("ours");
        let files = CertificateFiles::new(&authority.server(), &authority);
        let options = format!(
            "ssl_chain_cert={},ssl_key={},ssl_ca_cert={}",
            files.path("chain.pem").display(),
            files.path("key.pem").display(),
            files.path("ca.pem").display()
        );
        let reserved = ReservedAddress::new();
        let plain_address = reserved.address;
        let plain = format!("notls:{plain_address}");
        let command =
            under_test().with(&["-Z", "-o", &options, "-l", &plain, "-m", "256"]).with(flags);
        let server = Server::start(&command);
        Scene {
            address: server.address(),
            server,
            authority,
            files,
            plain_address,
            _plain_reserved: reserved,
        }
    }

    /// A client without a certificate of its own.
    pub fn connect(&self, version: &'static SupportedProtocolVersion) -> SecureClient {
        let config = self.authority.client_config(None, &[version]);
        self.try_connect(&config).expect("the server lets everybody in")
    }

    /// A client with this configuration, if it is let in.
    pub fn try_connect(&self, config: &Arc<ClientConfig>) -> io::Result<SecureClient> {
        SecureClient::connect(self.address, config)
    }

    /// Whether a client with this certificate is let in, by every version.
    pub fn lets_in(&self, identity: Option<&Identity>) -> bool {
        let lets_in = VERSIONS.map(|version| {
            let config = self.authority.client_config(identity, &[version]);
            self.try_connect(&config).is_ok()
        });
        assert_eq!(lets_in[0], lets_in[1], "the versions differ");
        lets_in[0]
    }

    /// A client without TLS.
    pub fn connect_plain(&self) -> Client {
        Client::connect(self.plain_address)
    }

    /// The value of one line of `stats`.
    pub fn stat(&self, name: &str) -> u64 {
        self.connect_plain().stat(name)
    }
}

/// An address that nobody else is given while this lives.
///
/// Its socket is bound and never listens, with the option that servers set too: so the kernel hands the port
/// to no other process, and still lets a server bind it.
pub struct ReservedAddress {
    pub address: SocketAddr,
    _socket: OwnedFd,
}

impl ReservedAddress {
    pub fn new() -> ReservedAddress {
        let reserve = || {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0)))?;
            let address = SocketAddr::try_from(getsockname(&socket)?)?;
            rustix::io::Result::Ok(ReservedAddress { address, _socket: socket })
        };
        reserve().expect("a free port")
    }
}

/// A socket that may cut what it is given into single bytes.
pub struct Cutter {
    socket: TcpStream,
    pub bytewise: bool,
}

impl Read for Cutter {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for Cutter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = if self.bytewise { bytes.len().min(1) } else { bytes.len() };
        self.socket.write(&bytes[..count])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection through TLS.
pub type SecureClient = stream_client::Client<StreamOwned<ClientConnection, Cutter>>;

impl SecureClient {
    /// Connects, and asks one question: by TLS 1.3 a server says only then that it lets nobody in.
    fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<SecureClient> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(REPLY_DEADLINE))?;
        socket.set_write_timeout(Some(REPLY_DEADLINE))?;
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        let tls = ClientConnection::new(Arc::clone(config), name).expect("a client");
        let stream = StreamOwned::new(tls, Cutter { socket, bytewise: false });
        let mut client = SecureClient { stream };
        client.stream.write_all(b"mn_is_no_command\r\n")?;
        let mut reply = [0; 7];
        client.stream.read_exact(&mut reply)?;
        assert_eq!(&reply, b"ERROR\r\n");
        Ok(client)
    }

    /// What the two ends agreed on.
    pub fn tls(&self) -> &ClientConnection {
        &self.stream.conn
    }

    /// From now on every byte of ciphertext is sent by itself.
    pub fn cut_ciphertext(&mut self) {
        self.stream.sock.bytewise = true;
    }

    /// Sends bytes around TLS.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.sock.write_all(bytes).expect("the server reads");
    }

    /// Says that it ends, and reads to the server's end; an error if that is not said.
    pub fn finish(&mut self) -> io::Result<Vec<u8>> {
        self.stream.conn.send_close_notify();
        self.stream.flush()?;
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }
}

pub fn set(key: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

pub fn hit(key: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes();
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\nEND\r\n");
    bytes
}

/// A value whose every part is another.
pub fn value(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index ^ (index >> 8) ^ (index >> 16)) as u8).collect()
}
