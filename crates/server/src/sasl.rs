//! SASL authentication for `-S`: the mechanism PLAIN with a password file.
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
//! - Every attempt first ends the client's authentication, so a client is anonymous after a failed attempt.
//! - A STEP without an AUTH before it fails.
//! - Passwords are compared in constant time.
//!
//! PLAIN sends passwords in clear text: use it in a trusted network or with TLS.

use crate::passwords::{PasswordFile, Verdict};

/// The supported mechanism.
pub const MECHANISMS: &[u8] = b"PLAIN";

/// The state of a client's authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exchange {
    #[default]
    Anonymous,
    /// The client has chosen the mechanism and must send its credentials.
    AwaitsResponse,
    Authenticated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Authenticated,
    Continue,
    Refused,
}

impl Exchange {
    pub fn is_authenticated(self) -> bool {
        self == Exchange::Authenticated
    }

    pub fn end(&mut self) {
        *self = Exchange::Anonymous;
    }

    /// Handles AUTH, which names the mechanism and may contain the credentials.
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

    /// Handles STEP, which contains the credentials.
    pub fn go_on(&mut self, response: &[u8], passwords: Option<&PasswordFile>) -> Answer {
        let is_awaited = *self == Exchange::AwaitsResponse;
        self.end();
        if is_awaited { self.check(response, passwords) } else { Answer::Refused }
    }

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

#[derive(Debug, PartialEq, Eq)]
struct Credentials<'a> {
    user: &'a [u8],
    password: &'a [u8],
}

impl<'a> Credentials<'a> {
    /// Parses `[<authorization identity>] NUL <user> NUL <password>`. The identity must be empty or equal to the user.
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
    use crate::passwords::{Kind, PasswordFile};

    fn passwords(text: &str) -> (TemporaryFile, PasswordFile) {
        let file = TemporaryFile::new(text);
        let passwords = PasswordFile::new(file.path().to_owned(), Kind::Sasl);
        (file, passwords)
    }

    #[test]
    fn authenticates_in_one_or_two_steps() {
        let (_file, passwords) = passwords("user:pass\n");
        let passwords = Some(&passwords);
        let mut exchange = Exchange::default();
        assert_eq!(exchange.begin(b"plain", b"\0user\0pass", passwords), Answer::Authenticated);
        assert!(exchange.is_authenticated());
        assert_eq!(exchange.begin(b"PLAIN", b"", passwords), Answer::Continue);
        assert!(!exchange.is_authenticated());
        assert_eq!(exchange.go_on(b"user\0user\0pass", passwords), Answer::Authenticated);
        assert!(exchange.is_authenticated());
    }

    #[test]
    fn a_failed_attempt_ends_the_authentication() {
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
            assert_eq!(answer, Answer::Refused, "{}", response.escape_ascii());
            assert_eq!(exchange, Exchange::Anonymous);
        }
        for before in [Exchange::Anonymous, Exchange::Authenticated] {
            let mut exchange = before;
            assert_eq!(exchange.go_on(b"\0user\0pass", Some(&passwords)), Answer::Refused);
            assert_eq!(exchange, Exchange::Anonymous);
        }
        let mut exchange = Exchange::default();
        assert_eq!(exchange.begin(b"PLAIN", b"\0user\0pass", None), Answer::Refused);
    }

    #[test]
    fn every_step_needs_its_own_auth() {
        let (_file, passwords) = passwords("user:pass\n");
        let mut exchange = Exchange::default();
        assert_eq!(exchange.begin(b"PLAIN", b"", Some(&passwords)), Answer::Continue);
        assert_eq!(exchange.go_on(b"\0user\0guess", Some(&passwords)), Answer::Refused);
        assert_eq!(exchange.go_on(b"\0user\0pass", Some(&passwords)), Answer::Refused);
    }

    #[test]
    fn credentials_have_three_parts() {
        let expected = Credentials { user: b"u", password: b"p" };
        assert_eq!(Credentials::parse(b"\0u\0p"), Some(expected));
        assert_eq!(Credentials::parse(b"u\0p"), None);
        assert_eq!(Credentials::parse(b""), None);
    }
}
