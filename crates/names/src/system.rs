//! The names that the C library knows.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Returns the addresses of a host name.
pub(super) fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}
