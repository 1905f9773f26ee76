//! The options that all commands have in common that connect to a memcached: TLS and credentials.
//!
//! ```text
//!   ConnectArgs (clap) --load: reads the files--> Security --connector(address, timeouts)--> Connector
//! ```
//!
//! Invariant: an option that would be ignored is an error, for example `--tls-ca` without `--tls`.

use crate::address::ServerAddress;
use crate::connector::{Connector, Credentials};
use crate::stream::Timeouts;
use crate::tls::{Tls, TlsOptions, Trust};
use std::path::PathBuf;

/// The options for TLS and credentials. A command adds them with `#[command(flatten)]`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "TLS and credentials")]
pub struct ConnectArgs {
    /// Connect with TLS. The server's certificate must be signed by an authority that the system trusts
    #[arg(long)]
    pub tls: bool,
    /// PEM file with the authorities that sign the server's certificate, instead of those of the system
    #[arg(long, value_name = "FILE", requires = "tls", conflicts_with = "tls_insecure")]
    pub tls_ca: Option<PathBuf>,
    /// PEM file with the client's certificate, for servers that require one
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Name that the server's certificate must have [default: the host of the address]
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub tls_server_name: Option<String>,
    /// Accept any certificate: the connection is encrypted, but the server may be another one
    #[arg(long, requires = "tls")]
    pub tls_insecure: bool,
    /// File whose first line is USER:PASSWORD, for a memcached with -Y. The file of the server has this form
    #[arg(long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
}

/// The certificates and the credentials of the client, read from their files.
#[derive(Clone, Debug, Default)]
pub struct Security {
    tls: Option<Tls>,
    credentials: Option<Credentials>,
}

impl ConnectArgs {
    /// Reads the files that the options name. The error names the file.
    pub fn load(&self) -> Result<Security, String> {
        let trust = match (&self.tls_ca, self.tls_insecure) {
            (Some(file), _) => Trust::File(file.clone()),
            (None, true) => Trust::Any,
            (None, false) => Trust::System,
        };
        let certificate = self.tls_cert.clone().zip(self.tls_key.clone());
        let options = TlsOptions { trust, certificate, server_name: self.tls_server_name.clone() };
        Ok(Security {
            tls: self.tls.then(|| Tls::load(&options)).transpose()?,
            credentials: self.auth_file.as_deref().map(Credentials::read).transpose()?,
        })
    }
}

impl Security {
    /// Returns a connector to this server.
    pub fn connector(&self, address: ServerAddress, timeouts: Timeouts) -> Connector {
        let Security { tls, credentials } = self.clone();
        Connector { address, timeouts, tls, credentials }
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectArgs;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        connect: ConnectArgs,
    }

    fn parse(words: &[&str]) -> Result<ConnectArgs, String> {
        let line = ["command"].iter().chain(words);
        Command::try_parse_from(line).map(|it| it.connect).map_err(|error| error.to_string())
    }

    #[test]
    fn options_that_would_be_ignored_are_refused() {
        let cases: [&[&str]; 5] = [
            &["--tls-ca", "f"],
            &["--tls-insecure"],
            &["--tls", "--tls-cert", "f"],
            &["--tls", "--tls-key", "f"],
            &["--tls", "--tls-ca", "f", "--tls-insecure"],
        ];
        for words in cases {
            assert!(parse(words).is_err(), "{words:?}");
        }
        assert!(parse(&["--tls", "--tls-cert", "a", "--tls-key", "b", "--tls-insecure"]).is_ok());
    }

    #[test]
    fn an_error_names_the_file() {
        for words in [&["--tls", "--tls-ca", "/no/ca"][..], &["--auth-file", "/no/auth"]] {
            let error = parse(words).expect("the options are valid").load();
            let error = error.expect_err("there is no such file");
            assert!(error.contains("/no/"), "{error}");
        }
        assert!(parse(&[]).expect("no option is required").load().is_ok());
    }
}
