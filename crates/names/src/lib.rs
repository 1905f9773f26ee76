//! The IP addresses of host names, and the hosts of services.
//!
//! A program that is linked with the C library at run time asks the C library, which knows every source of names that the
//! machine has, such as LDAP. A static program cannot load the libraries for these sources. It reads `/etc/hosts` and
//! `/etc/resolv.conf`, and asks the name servers itself.
//!
//! Hosts of services are SRV records, for which every program asks the name servers itself.
#![forbid(unsafe_code)]

mod dns;
#[cfg(not(target_feature = "crt-static"))]
mod system;
#[cfg(not(target_feature = "crt-static"))]
use system as source;

#[cfg(target_feature = "crt-static")]
mod own;
#[cfg(target_feature = "crt-static")]
use own as source;

pub use dns::Service;

use std::io;
use std::net::{IpAddr, SocketAddr};

/// Returns the addresses of a host with this port, in the order in which they should be tried. `host` is a name or an IP
/// address. Returns an error if the host has no address.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let addresses = source::addresses(host, port)?;
    if addresses.is_empty() { Err(no_address(host)) } else { Ok(addresses) }
}

/// Returns the addresses of `HOST:PORT`. The host can be an IPv6 address in brackets.
pub fn resolve_address(address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return Ok(vec![address]);
    }
    let parsed = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parsed.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("'{address}' is not HOST:PORT"))
    })?;
    resolve(host, port)
}

/// Returns the hosts of the SRV records of a name, such as `_memcache._tcp.example.com`, in the order in which clients should
/// prefer them. Returns an error if there are none.
pub fn services(name: &str) -> io::Result<Vec<Service>> {
    let found = dns::Dns::new(None)?.services(name)?;
    let none = || {
        io::Error::new(io::ErrorKind::NotFound, format!("'{name}' has no SRV record with a host"))
    };
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

fn no_address(host: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("the name '{host}' has no address"))
}

#[cfg(test)]
mod tests {
    use super::{resolve, resolve_address};

    #[test]
    fn a_host_is_a_name_or_an_address() {
        let texts = |host| -> Vec<String> {
            let addresses = resolve(host, 1).unwrap_or_else(|error| panic!("{host}: {error}"));
            addresses.iter().map(ToString::to_string).collect()
        };
        assert_eq!(texts("127.0.0.1"), ["127.0.0.1:1"]);
        assert_eq!(texts("::1"), ["[::1]:1"]);
        let localhost = texts("localhost");
        assert!(localhost.iter().all(|it| it == "127.0.0.1:1" || it == "[::1]:1"), "{localhost:?}");
        assert!(!localhost.is_empty());
    }

    #[test]
    fn an_address_has_a_port() {
        for (text, expected) in [("127.0.0.1:5", "127.0.0.1:5"), ("[::1]:5", "[::1]:5")] {
            let found = resolve_address(text).expect(text);
            assert_eq!(found, [expected.parse().expect("an address")]);
        }
        for text in ["localhost", "localhost:x", "[::1]", ":5x"] {
            assert!(resolve_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        // The top-level domain `invalid` is reserved for names that do not exist (RFC 6761).
        assert!(resolve("slabwise.invalid", 1).is_err());
    }
}
