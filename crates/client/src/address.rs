//! Where a server listens.

use std::fmt;
use std::str::FromStr;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// `HOST:PORT`.
    Tcp(String),
    /// `unix:PATH`.
    Unix(String),
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(ServerAddress::Unix(path.to_owned()));
        }
        match text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
            Some((host, Ok(_))) if !host.is_empty() => Ok(ServerAddress::Tcp(text.to_owned())),
            _ => Err("give HOST:PORT or unix:PATH".to_owned()),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Tcp(address) => f.write_str(address),
            ServerAddress::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServerAddress;

    #[test]
    fn addresses_are_a_host_with_a_port_or_a_path() {
        let parse = |text: &str| text.parse::<ServerAddress>();
        for address in ["localhost:11211", "[::1]:11211", "10.0.0.1:1"] {
            assert_eq!(parse(address), Ok(ServerAddress::Tcp(address.to_owned())));
        }
        assert_eq!(parse("unix:/run/a:b"), Ok(ServerAddress::Unix("/run/a:b".to_owned())));
        for address in ["localhost", ":11211", "localhost:port", "localhost:65536", ""] {
            assert!(parse(address).is_err(), "{address}");
        }
    }
}
