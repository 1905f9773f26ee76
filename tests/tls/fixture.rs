//! A server with a certificate, and TLS clients that connect to it.

use crate::support::certificates::{Authority, CertificateFiles, Identity, SERVER_NAME};
use crate::support::stream_client;
use crate::support::{Client, Server, under_test};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConfig, Error, StreamOwned, SupportedProtocolVersion};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// The TLS versions that slabwise supports.
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// The time for which a client waits for a reply before the test fails.
const REPLY_DEADLINE: Duration = Duration::from_secs(20);

/// A server with TLS, and the authority that issued its certificate.
pub struct Fixture {
    pub server: Server,
    /// The address of the TLS listener.
    pub address: SocketAddr,
    pub authority: Authority,
    /// The files with the server's certificate and key, and with the trusted authority.
    pub files: CertificateFiles,
    /// The address of the listener without TLS.
    pub plain_address: SocketAddr,
    _plain_reserved: ReservedAddress,
}

impl Fixture {
    /// Starts a server with TLS and these additional flags. The tests read statistics from a second listener without
    /// TLS.
    pub fn start(flags: &[&str]) -> Fixture {
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
        Fixture {
            address: server.address(),
            server,
            authority,
            files,
            plain_address,
            _plain_reserved: reserved,
        }
    }

    /// Connects without a client certificate.
    pub fn connect(&self, version: &'static SupportedProtocolVersion) -> SecureClient {
        self.try_connect(&self.config(version)).expect("the server requires no client certificate")
    }

    /// Returns the configuration of a client without a certificate, for this version of TLS.
    pub fn config(&self, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
        self.authority.client_config(None, &[version])
    }

    /// Connects with this configuration. Returns an error if the server refuses the client.
    pub fn try_connect(&self, config: &Arc<ClientConfig>) -> io::Result<SecureClient> {
        SecureClient::connect(self.address, config)
    }

    /// True if the server accepts a client with this certificate. Panics if the result depends on the TLS version.
    pub fn accepts(&self, identity: Option<&Identity>) -> bool {
        let accepts = VERSIONS.map(|version| {
            let config = self.authority.client_config(identity, &[version]);
            self.try_connect(&config).is_ok()
        });
        assert_eq!(accepts[0], accepts[1], "both TLS versions accept or refuse the certificate");
        accepts[0]
    }

    /// Connects to the listener without TLS.
    pub fn connect_plain(&self) -> Client {
        Client::connect(self.plain_address)
    }

    /// Returns the number of one statistic of `stats`.
    pub fn stat(&self, name: &str) -> u64 {
        self.connect_plain().stat(name)
    }
}

/// Returns the TLS alert with which the server refused the client, if the error contains one.
pub fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

/// A free address. While this value exists, the kernel assigns the address to no other process.
///
/// A socket is bound to the address, but does not listen. Because the socket has the option SO_REUSEADDR, as the
/// sockets of servers do, a server can also bind the address.
pub struct ReservedAddress {
    pub address: SocketAddr,
    _socket: OwnedFd,
}

impl ReservedAddress {
    /// Reserves a free port of 127.0.0.1.
    pub fn new() -> ReservedAddress {
        ReservedAddress::of(Ipv4Addr::LOCALHOST.into())
    }

    /// Reserves a free port of this IP address.
    pub fn of(ip: IpAddr) -> ReservedAddress {
        let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let reserve = || {
            let socket = socket(family, SocketType::STREAM, None)?;
            set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &SocketAddr::from((ip, 0)))?;
            let address = SocketAddr::try_from(getsockname(&socket)?)?;
            rustix::io::Result::Ok(ReservedAddress { address, _socket: socket })
        };
        reserve().expect("a socket can be bound to a free port")
    }
}

/// A socket that can send each byte in its own packet.
pub struct Splitter {
    socket: TcpStream,
    /// True if each byte is sent in its own packet.
    pub bytewise: bool,
}

impl Read for Splitter {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for Splitter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = if self.bytewise { bytes.len().min(1) } else { bytes.len() };
        self.socket.write(&bytes[..count])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection over TLS.
pub type SecureClient = stream_client::Client<StreamOwned<ClientConnection, Splitter>>;

impl SecureClient {
    /// Connects, and checks that the server answers a request. In TLS 1.3 the client learns only after the handshake
    /// that the server refuses it.
    fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<SecureClient> {
        let name = ServerName::try_from(SERVER_NAME).expect("the name of the server is valid");
        SecureClient::connect_to(name, address, config)
    }

    /// Connects, and requests the server by this name.
    pub fn connect_to(
        name: ServerName<'static>,
        address: SocketAddr,
        config: &Arc<ClientConfig>,
    ) -> io::Result<SecureClient> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(REPLY_DEADLINE))?;
        socket.set_write_timeout(Some(REPLY_DEADLINE))?;
        let tls = ClientConnection::new(Arc::clone(config), name)
            .expect("the configuration of the client is valid");
        let stream = StreamOwned::new(tls, Splitter { socket, bytewise: false });
        let mut client = SecureClient { stream };
        client.stream.write_all(b"mn_unknown_command\r\n")?;
        let mut reply = [0; 7];
        client.stream.read_exact(&mut reply)?;
        assert_eq!(&reply, b"ERROR\r\n");
        Ok(client)
    }

    /// Returns the TLS state of the connection.
    pub fn tls(&self) -> &ClientConnection {
        &self.stream.conn
    }

    /// Sends each byte of ciphertext in its own packet from now on.
    pub fn split_ciphertext(&mut self) {
        self.stream.sock.bytewise = true;
    }

    /// Sends bytes directly on the socket, without encryption.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.sock.write_all(bytes).expect("the server keeps the connection open");
    }

    /// Sends close_notify, and returns the bytes up to the server's close_notify. Returns an error if the server closes
    /// the connection without close_notify.
    pub fn finish(&mut self) -> io::Result<Vec<u8>> {
        self.stream.conn.send_close_notify();
        self.stream.flush()?;
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }
}

/// Returns a set request.
pub fn set(key: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Returns the reply to a get that finds this value.
pub fn hit(key: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes();
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\nEND\r\n");
    bytes
}

/// Returns a value whose bytes depend on their position.
pub fn value(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index ^ (index >> 8) ^ (index >> 16)) as u8).collect()
}
