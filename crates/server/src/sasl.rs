//! SASL authentication for `-S`: the mechanism PLAIN, with the users of a password file.
//!
//! ```text
//!   Anonymous --AUTH PLAIN, empty--> AwaitsResponse
//!       |                                 |
//!       | AUTH PLAIN, response            | STEP response
//!       v                                 v
//!   Authenticated, if the credentials are valid; else Anonymous
//! ```
//!
//! Invariants:
//! - AUTH and STEP first make the client anonymous. A client is therefore anonymous after a failed attempt.
//! - A STEP fails unless the client's previous AUTH or STEP command was an AUTH PLAIN without credentials.
//! - The time of a password comparison does not depend on the stored passwords.
//!
//! PLAIN sends passwords in clear text. Use it only in a trusted network or with TLS.

use crate::passwords::{PasswordFile, Verdict};

/// The supported mechanisms, as the reply to a list request contains them: only PLAIN.
pub const MECHANISMS: &[u8] = b"PLAIN";

/// The state of a client's SASL authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exchange {
    /// The client has not authenticated, or its last attempt failed.
    #[default]
    Anonymous,
    /// The client has sent AUTH PLAIN without credentials. The server expects the credentials in a STEP command.
    AwaitsResponse,
    /// The client has sent the name and the password of a user.
    Authenticated,
}

/// The server's answer to an AUTH or STEP command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The credentials are those of a user. The client is authenticated.
    Authenticated,
    /// The client must send its credentials in a STEP command.
    Continue,
    /// The authentication failed.
    Refused,
}

impl Exchange {
    pub fn is_authenticated(self) -> bool {
        self == Exchange::Authenticated
    }

    /// Makes the client anonymous.
    pub fn end(&mut self) {
        *self = Exchange::Anonymous;
    }

    /// Handles an AUTH command. The command names the mechanism, and `response` contains the credentials or is empty.
    /// Without a password file (`passwords` is `None`) every attempt fails.
    pub fn begin(
        &mut self,
        mechanism: &[u8],
        response: &[u8],
        passwords: Option<&PasswordFile>,
    ) -> Answer {
        self.end();
        if !mechanism.eq_ignore_ascii_case(MECHANISMS) {
            return Answer::Refused;
        }
        if response.is_empty() {
            *self = Exchange::AwaitsResponse;
            return Answer::Continue;
        }
        self.check(response, passwords)
    }

    /// Handles a STEP command, whose `response` contains the credentials.
    pub fn continue_with(&mut self, response: &[u8], passwords: Option<&PasswordFile>) -> Answer {
        let is_awaited = *self == Exchange::AwaitsResponse;
        self.end();
        if is_awaited { self.check(response, passwords) } else { Answer::Refused }
    }

    /// Authenticates the client if `response` contains the name and the password of a user.
    fn check(&mut self, response: &[u8], passwords: Option<&PasswordFile>) -> Answer {
        if let (Some(Credentials { user, password }), Some(passwords)) =
            (Credentials::parse(response), passwords)
            && passwords.check(user, password) == Verdict::Known
        {
            *self = Exchange::Authenticated;
            return Answer::Authenticated;
        }
        Answer::Refused
    }
}

/// A user's name and password, as a client sends them.
///
/// Only tests can print this type, so that no log contains a password.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
struct Credentials<'a> {
    user: &'a [u8],
    password: &'a [u8],
}

impl<'a> Credentials<'a> {
    /// Parses a response of the form `[<authorization identity>] NUL <user> NUL <password>`. Returns `None` if the
    /// response has another form, or if the authorization identity is neither empty nor equal to the user.
    fn parse(response: &'a [u8]) -> Option<Credentials<'a>> {
        let mut parts = response.split(|&byte| byte == 0);
        let (identity, user, password) = (parts.next()?, parts.next()?, parts.next()?);
        let is_well_formed = parts.next().is_none()
            && !user.is_empty()
            && !password.is_empty()
            && (identity.is_empty() || identity == user);
        is_well_formed.then_some(Credentials { user, password })
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Credentials, Exchange};
    use crate::passwords::testing::TemporaryFile;
    use crate::passwords::{PasswordFile, PasswordFileKind};

    fn passwords(text: &str) -> (TemporaryFile, PasswordFile) {
        let file = TemporaryFile::new(text);
        let passwords = PasswordFile::new(file.path().to_owned(), PasswordFileKind::Sasl);
        (file, passwords)
    }

    #[test]
    fn a_client_authenticates_by_auth_alone_or_by_auth_and_step() {
        let (_file, passwords) = passwords("user:pass\n");
        let passwords = Some(&passwords);
        let mut exchange = Exchange::default();
        assert_eq!(exchange.begin(b"plain", b"\0user\0pass", passwords), Answer::Authenticated);
        assert!(exchange.is_authenticated());
        assert_eq!(exchange.begin(b"PLAIN", b"", passwords), Answer::Continue);
        assert!(!exchange.is_authenticated());
        assert_eq!(exchange.continue_with(b"user\0user\0pass", passwords), Answer::Authenticated);
        assert!(exchange.is_authenticated());
    }

    #[test]
    fn a_client_is_anonymous_after_a_failed_attempt() {
        let (_file, passwords) = passwords("user:pass\nempty:\nbare::x\n");
        let attempts: [(&[u8], &[u8]); 14] = [
            (b"PLAIN", b"\0user\0wrong"),
            (b"PLAIN", b"\0user\0pas"),
            (b"PLAIN", b"\0user\0passs"),
            (b"PLAIN", b"\0user\0"),
            (b"PLAIN", b"\0empty\0"),
            (b"PLAIN", b"\0bare\0"),
            (b"PLAIN", b"\0nobody\0pass"),
            (b"PLAIN", b"\0\0pass"),
            (b"PLAIN", b"\0\0"),
            (b"PLAIN", b"user"),
            (b"PLAIN", b"\0user\0pass\0"),
            (b"PLAIN", b"admin\0user\0pass"),
            (b"CRAM-MD5", b"\0user\0pass"),
            (b"", b"\0user\0pass"),
        ];
        for (mechanism, response) in attempts {
            let mut exchange = Exchange::Authenticated;
            let answer = exchange.begin(mechanism, response, Some(&passwords));
            assert_eq!(answer, Answer::Refused, "the response is {}", response.escape_ascii());
            assert_eq!(exchange, Exchange::Anonymous);
        }
        for before in [Exchange::Anonymous, Exchange::Authenticated] {
            let mut exchange = before;
            assert_eq!(exchange.continue_with(b"\0user\0pass", Some(&passwords)), Answer::Refused);
            assert_eq!(exchange, Exchange::Anonymous);
        }
        let mut exchange = Exchange::default();
        assert_eq!(exchange.begin(b"PLAIN", b"\0user\0pass", None), Answer::Refused);
    }

    #[test]
    fn a_second_step_after_one_auth_is_refused() {
        let (_file, passwords) = passwords("user:pass\n");
        let mut exchange = Exchange::default();
        assert_eq!(exchange.begin(b"PLAIN", b"", Some(&passwords)), Answer::Continue);
        assert_eq!(exchange.continue_with(b"\0user\0guess", Some(&passwords)), Answer::Refused);
        assert_eq!(exchange.continue_with(b"\0user\0pass", Some(&passwords)), Answer::Refused);
    }

    #[test]
    fn credentials_with_fewer_than_three_parts_are_rejected() {
        let expected = Credentials { user: b"u", password: b"p" };
        assert_eq!(Credentials::parse(b"\0u\0p"), Some(expected));
        assert_eq!(Credentials::parse(b"u\0p"), None);
        assert_eq!(Credentials::parse(b""), None);
    }
}
