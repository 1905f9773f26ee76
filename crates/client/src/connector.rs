//! How to connect to a server: its address, timeouts, TLS and credentials.

use crate::address::ServerAddress;
use crate::connection::{Connection, LINE_LEN_MAX};
use crate::error::ClientError;
use crate::stream::{Stream, Timeouts};
use crate::tls::Tls;
use std::fmt;
use std::path::Path;

/// The name and password of a user, for memcached's authentication with the ASCII protocol (its option `-Y`).
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// Reads the first line of a file, which has the form `USER:PASSWORD`, as in memcached's own file. The error names the
    /// file, and never contains the password.
    pub fn read(path: &Path) -> Result<Credentials, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
        Credentials::parse(&text)
            .ok_or_else(|| format!("{}: the first line is not USER:PASSWORD", path.display()))
    }

    fn parse(text: &str) -> Option<Credentials> {
        let (user, password) = text.lines().next()?.split_once(':')?;
        let is_valid = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        (is_valid(user) && is_valid(password))
            .then(|| Credentials { user: user.to_owned(), password: password.to_owned() })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Opens connections to one server.
#[derive(Clone, Debug)]
pub struct Connector {
    /// The address of the server.
    pub address: ServerAddress,
    /// The timeouts of the connections.
    pub timeouts: Timeouts,
    /// `None`: without TLS.
    pub tls: Option<Tls>,
    /// `None`: without authentication.
    pub credentials: Option<Credentials>,
}

impl Connector {
    /// Returns a connector without TLS and authentication.
    pub fn new(address: ServerAddress, timeouts: Timeouts) -> Connector {
        Connector { address, timeouts, tls: None, credentials: None }
    }

    /// Connects, and authenticates if there are credentials.
    pub fn open(&self) -> Result<Connection, ClientError> {
        let stream = Stream::connect(&self.address, self.timeouts, self.tls.as_ref())?;
        let mut connection = Connection::over(stream, LINE_LEN_MAX);
        if let Some(Credentials { user, password }) = &self.credentials {
            let data = format!("{user} {password}");
            // memcached takes the data of the first set as the credentials, and ignores its key.
            connection.send(format!("set auth 0 0 {}\r\n{data}\r\n", data.len()).as_bytes())?;
            let line = connection.line()?;
            if line != b"STORED" {
                return Err(ClientError::Refused(line.to_vec()));
            }
        }
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::Credentials;

    #[test]
    fn credentials_are_the_first_line_and_are_not_shown() {
        let found = Credentials::parse("cache:secret:1\nother:x\n").expect("the line is valid");
        assert_eq!((found.user.as_str(), found.password.as_str()), ("cache", "secret:1"));
        assert!(!format!("{found:?}").contains("secret"));
        for text in ["", "user", "user:", ":password", "us er:password", "user:pass word"] {
            assert_eq!(Credentials::parse(text), None, "{text:?}");
        }
    }
}
