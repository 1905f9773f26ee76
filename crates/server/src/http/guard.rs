//! Decides whether a request may read statistics.

use crate::config::{HttpAddress, HttpSettings};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// The maximum length of a token in bytes.
const TOKEN_LEN_MAX: usize = 4096;
/// The minimum length of a token in bytes, so that it cannot be guessed.
const TOKEN_LEN_MIN: usize = 16;

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Method,
    Host,
    Token,
}

impl Refusal {
    pub fn status(self) -> StatusCode {
        match self {
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Host => StatusCode::MISDIRECTED_REQUEST,
            Refusal::Token => StatusCode::UNAUTHORIZED,
        }
    }

    /// Returns the text of the response.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Method => "the server is read-only: use GET or HEAD\n",
            Refusal::Host => {
                "the host name is not this server's: use its IP address or localhost, or add the name to -o http_hosts\n"
            }
            Refusal::Token => "the token is missing or wrong: send 'Authorization: Bearer TOKEN'\n",
        }
    }
}

/// The rules for requests.
#[derive(Debug)]
pub(super) struct Guard {
    /// The token that requests must contain; `None` if none is required.
    token: Option<Vec<u8>>,
    /// The names that the header `Host` may contain, in addition to IP addresses and `localhost`. `None` if it may contain
    /// any name, because web browsers cannot connect to a Unix socket.
    hosts: Option<Vec<String>>,
}

impl Guard {
    /// Reads the token file.
    pub fn new(http: &HttpSettings) -> Result<Guard, String> {
        let token = http.token_file.as_ref().map(|path| {
            let error = |reason: String| format!("-o http_token_file={}: {reason}", path.display());
            let bytes = std::fs::read(path)
                .map_err(|reason| error(format!("{reason}; give a file that the server can read")))?;
            let token = bytes.trim_ascii();
            if !(TOKEN_LEN_MIN..=TOKEN_LEN_MAX).contains(&token.len()) {
                return Err(error(format!(
                    "the token has {} bytes: give a file with one of {TOKEN_LEN_MIN} to {TOKEN_LEN_MAX}",
                    token.len()
                )));
            }
            Ok(token.to_vec())
        });
        let hosts = match http.address {
            HttpAddress::Unix { .. } => None,
            HttpAddress::Tcp { .. } => Some(http.hosts.clone()),
        };
        Ok(Guard { token: token.transpose()?, hosts })
    }

    /// Checks a request for statistics. `needs_token` is false for responses that contain no data of the server.
    pub fn check(&self, request: &Parts, needs_token: bool) -> Result<(), Refusal> {
        if request.method != Method::GET && request.method != Method::HEAD {
            return Err(Refusal::Method);
        }
        if !self.accepts_host(request) {
            return Err(Refusal::Host);
        }
        if needs_token && !self.accepts_token(request) {
            return Err(Refusal::Token);
        }
        Ok(())
    }

    /// True if the request names this server. A page of another site can let its name resolve to the server's address
    /// (DNS rebinding), but then the browser sends this name.
    fn accepts_host(&self, request: &Parts) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let header = request.headers.get(HOST).and_then(|host| host.to_str().ok());
        let Some(host) = request.uri.authority().map(|it| it.as_str()).or(header) else {
            return false;
        };
        let name = without_port(host);
        let is_name = |known: &str| known.eq_ignore_ascii_case(name);
        let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
        address.parse::<IpAddr>().is_ok()
            || is_name("localhost")
            || hosts.iter().any(|it| is_name(it))
    }

    /// True if no token is required, or if the request has the right one. The time of the comparison depends only on the
    /// lengths.
    fn accepts_token(&self, request: &Parts) -> bool {
        let Some(token) = &self.token else { return true };
        let sent = request.headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let sent = sent.and_then(|value| value.split_at_checked("Bearer ".len()));
        sent.is_some_and(|(scheme, sent)| {
            scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(sent.trim_ascii().ct_eq(token))
        })
    }
}

/// Removes the port from the value of `Host`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() =>
        {
            name
        }
        _ => host,
    }
}
