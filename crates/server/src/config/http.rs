//! The settings of the HTTP server: `-o http` and the options `http_*`.

use super::paths::absolute;
use std::path::PathBuf;

/// The maximum of `-o http_hot_keys`.
pub(crate) const HOT_KEYS_MAX: usize = 100;

/// The address on which the HTTP server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAddress {
    /// A TCP address. Without a host: all interfaces. Port 0: any free port.
    Tcp { host: Option<String>, port: u16 },
    /// A Unix socket whose file has the permission bits `mode` (`-a`).
    Unix { path: PathBuf, mode: u32 },
}

/// The settings of the HTTP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    pub address: HttpAddress,
    /// `-o http_token_file`: the file with the token that requests must contain; `None` if none is required.
    pub token_file: Option<PathBuf>,
    /// `-o http_insecure`: true if the network guards an address beyond loopback.
    pub is_insecure: bool,
    /// `-o http_hosts`: the host names that requests may contain, in addition to IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// `-o http_slab_metrics`: true if the metrics include those of classes.
    pub has_slab_metrics: bool,
    /// `-o http_hot_keys`: the number of hot keys that the server shows; 0 if keys are not sampled.
    pub hot_keys: usize,
}

/// The values of the options as they are given.
#[derive(Debug, Default)]
pub(super) struct HttpGiven {
    pub address: Option<HttpGivenAddress>,
    pub token_file: Option<String>,
    pub is_insecure: bool,
    pub hosts: Vec<String>,
    pub omits_slab_metrics: bool,
    pub hot_keys: usize,
}

/// The value of `-o http`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HttpGivenAddress {
    Tcp { host: Option<String>, port: u16 },
    Unix(PathBuf),
}

impl HttpGivenAddress {
    /// Parses `HOST:PORT`, `[IPv6]:PORT`, `:PORT`, or the path of a Unix socket, which begins with `/` or `unix:`.
    pub fn parse(text: &str) -> Result<HttpGivenAddress, String> {
        if text.starts_with('/') || text.starts_with("unix:") {
            let path = absolute(text.strip_prefix("unix:").unwrap_or(text))?;
            return Ok(HttpGivenAddress::Unix(path));
        }
        let expected = "give HOST:PORT, such as 127.0.0.1:9150, or the path of a Unix socket";
        let (host, port) = text.rsplit_once(':').ok_or(expected)?;
        let port = port.parse().map_err(|_| format!("'{port}' is not a port: {expected}"))?;
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if host.contains(':') && bracketed.is_none() {
            return Err(format!("an IPv6 address needs brackets: {expected}"));
        }
        let host = bracketed.unwrap_or(host);
        let host = (!host.is_empty() && host != "*").then(|| host.to_owned());
        Ok(HttpGivenAddress::Tcp { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::HttpGivenAddress;
    use std::path::PathBuf;

    fn tcp(host: &str, port: u16) -> HttpGivenAddress {
        HttpGivenAddress::Tcp { host: (!host.is_empty()).then(|| host.to_owned()), port }
    }

    #[test]
    fn parses_every_form_of_address() {
        let parse = HttpGivenAddress::parse;
        let unix = HttpGivenAddress::Unix(PathBuf::from("/run/a.sock"));
        for (text, expected) in [
            ("127.0.0.1:9150", tcp("127.0.0.1", 9150)),
            ("localhost:0", tcp("localhost", 0)),
            ("[::1]:9150", tcp("::1", 9150)),
            (":9150", tcp("", 9150)),
            ("*:9150", tcp("", 9150)),
            ("/run/a.sock", unix.clone()),
            ("unix:/run/a.sock", unix),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in ["9150", "localhost", "a:b", "::1:9150", "a:70000", "a:"] {
            let error = parse(text).expect_err(text);
            assert!(error.contains("give HOST:PORT"), "{text}: {error}");
        }
    }
}
