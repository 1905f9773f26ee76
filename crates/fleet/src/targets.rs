//! Where the servers of a fleet are listed.
//!
//! | argument | servers |
//! |---|---|
//! | `HOST`, `HOST:PORT`, `[IPV6]:PORT`, a path | this server |
//! | `file:PATH` | those in a file: see `target_file` |
//! | `dns:HOST[:PORT]` | one for each address of the host (A records, or AAAA records) |
//! | `srv:NAME` | the hosts and ports of the name's SRV records (RFC 2782) |

use crate::target_file;
use slabwise_client::{DEFAULT_PORT, ServerAddress};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The largest number of servers of a command. `slabwise top` has a thread for each.
pub const SERVERS_MAX: usize = 500;

/// An argument that names one or several servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A server.
    Server(ServerAddress),
    /// The servers in a file.
    File(PathBuf),
    /// The servers at the addresses of a host.
    Dns {
        /// The name of the host.
        host: String,
        /// The port of each server.
        port: u16,
    },
    /// The servers that the SRV records of this name have.
    Srv(String),
}

/// The reason why the servers of a target are not known.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system reports.
        error: io::Error,
    },
    /// The file has an invalid line or document.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is invalid, and where.
        reason: String,
    },
    /// A name has no address or no service.
    #[error("{0}: give another name, or name the servers")]
    Name(io::Error),
    /// No target has a server.
    #[error("the targets list no server: add servers to the file, or name them as arguments")]
    None,
    /// The targets have too many servers. The number is theirs.
    #[error("{0} servers are more than {SERVERS_MAX}: run the command for parts of the fleet")]
    TooMany(usize),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let named = |name: &str, form: &str| match name {
            "" => Err(format!("give {form}")),
            _ => Ok(name.to_owned()),
        };
        if let Some(path) = text.strip_prefix("file:") {
            return Ok(Target::File(named(path, "file:PATH")?.into()));
        }
        if let Some(name) = text.strip_prefix("srv:") {
            return Ok(Target::Srv(named(name, "srv:NAME")?));
        }
        let Some(host) = text.strip_prefix("dns:") else {
            return Ok(Target::Server(ServerAddress::parse_short(text)?));
        };
        let form = "dns:HOST or dns:HOST:PORT";
        let (host, port) = match host.split_once(':') {
            None => (host, DEFAULT_PORT),
            Some((host, port)) => (host, port.parse().map_err(|_| format!("give {form}"))?),
        };
        Ok(Target::Dns { host: named(host, form)?, port })
    }
}

/// Returns the servers of these targets in their order, each once.
pub fn servers(targets: &[Target]) -> Result<Vec<ServerAddress>, TargetError> {
    let mut servers = Vec::new();
    for target in targets {
        for server in servers_of(target)? {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
    }
    match servers.len() {
        0 => Err(TargetError::None),
        count if count > SERVERS_MAX => Err(TargetError::TooMany(count)),
        _ => Ok(servers),
    }
}

/// Returns the servers of a target.
fn servers_of(target: &Target) -> Result<Vec<ServerAddress>, TargetError> {
    match target {
        Target::Server(server) => Ok(vec![server.clone()]),
        Target::File(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| TargetError::File { path: path.clone(), error })?;
            let is_document = path.extension().is_some_and(|it| {
                ["json", "yml", "yaml"].iter().any(|form| it.eq_ignore_ascii_case(form))
            });
            let parsed = if is_document {
                target_file::parse_document(&text)
            } else {
                target_file::parse_lines(&text)
            };
            parsed.map_err(|reason| TargetError::Content { path: path.clone(), reason })
        }
        Target::Dns { host, port } => {
            let found = slabwise_names::resolve(host, *port).map_err(TargetError::Name)?;
            Ok(servers_at(&found))
        }
        Target::Srv(name) => {
            let found = slabwise_names::services(name).map_err(TargetError::Name)?;
            let address = |it: &slabwise_names::Service| format!("{}:{}", it.host, it.port);
            Ok(found.iter().map(|service| ServerAddress::Tcp(address(service))).collect())
        }
    }
}

/// Returns the servers at the addresses of a host, which are in the order of preference: those at its IPv4 addresses or
/// those at its IPv6 addresses, whichever are more, or else the kind of the first address. So a server that has an
/// address of each kind is listed once.
fn servers_at(addresses: &[SocketAddr]) -> Vec<ServerAddress> {
    let prefers_ipv4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (preferred, others): (Vec<SocketAddr>, Vec<SocketAddr>) =
        addresses.iter().partition(|it| it.is_ipv4() == prefers_ipv4);
    let mut listed = if others.len() > preferred.len() { others } else { preferred };
    // A name server returns the addresses in another order each time.
    listed.sort();
    listed.iter().map(|address| ServerAddress::Tcp(address.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::{SERVERS_MAX, Target, TargetError, servers, servers_at};
    use slabwise_client::ServerAddress;

    fn tcp(address: &str) -> ServerAddress {
        ServerAddress::Tcp(address.to_owned())
    }

    #[test]
    fn a_prefix_names_the_source_of_the_servers() {
        let dns = |host: &str, port| Target::Dns { host: host.to_owned(), port };
        for (text, expected) in [
            ("a", Some(Target::Server(tcp("a:11211")))),
            ("/run/a.sock", Some(Target::Server(ServerAddress::Unix("/run/a.sock".to_owned())))),
            ("file:a/b.yml", Some(Target::File("a/b.yml".into()))),
            ("dns:cache.example.com", Some(dns("cache.example.com", 11_211))),
            ("dns:cache:2", Some(dns("cache", 2))),
            ("srv:_memcache._tcp.a", Some(Target::Srv("_memcache._tcp.a".to_owned()))),
            ("file:", None),
            ("dns:", None),
            ("dns:a:x", None),
            ("dns::1", None),
            ("srv:", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Target>().ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_server_with_two_kinds_of_addresses_is_listed_once() {
        let check = |addresses: &[&str], listed: &[&str]| {
            let addresses: Vec<_> =
                addresses.iter().map(|it| it.parse().expect("an address")).collect();
            let listed: Vec<_> = listed.iter().map(|it| tcp(it)).collect();
            assert_eq!(servers_at(&addresses), listed, "{addresses:?}");
        };
        let (ipv4, ipv6) = (["10.0.0.1:1", "10.0.0.2:1"], ["[::1]:1", "[::2]:1"]);
        check(&["10.0.0.2:1", "[::2]:1", "10.0.0.1:1", "[::1]:1"], &ipv4);
        check(&["[::2]:1", "10.0.0.2:1", "[::1]:1", "10.0.0.1:1"], &ipv6);
        check(&["10.0.0.1:1", "[::1]:1", "[::2]:1"], &ipv6);
        check(&["[::1]:1", "10.0.0.1:1", "10.0.0.2:1"], &ipv4);
        check(&["[::1]:1"], &["[::1]:1"]);
    }

    #[test]
    fn the_servers_of_all_targets_are_in_order_and_each_once() {
        let folder = tempfile::tempdir().expect("a folder can be created");
        let path = folder.path().join("servers");
        std::fs::write(&path, "b\nc:2 # spare\n\na\n").expect("the file can be written");
        let targets = ["a", "dns:127.0.0.1:3"].map(|it| it.parse().expect("the target is valid"));
        let targets = [&targets[..], &[Target::File(path.clone())]].concat();
        let expected = ["a:11211", "127.0.0.1:3", "b:11211", "c:2"].map(tcp);
        assert_eq!(servers(&targets).expect("the targets have servers"), expected);
        let text = (0..=SERVERS_MAX).map(|port| format!("a:{}\n", port + 1)).collect::<String>();
        std::fs::write(&path, text).expect("the file can be written");
        let file = [Target::File(path.clone())];
        assert!(matches!(servers(&file), Err(TargetError::TooMany(count)) if count > SERVERS_MAX));
        std::fs::write(&path, "# none\n").expect("the file can be written");
        assert!(matches!(servers(&file), Err(TargetError::None)));
        std::fs::write(&path, "a\nb c\n").expect("the file can be written");
        let error = servers(&file).expect_err("the line is invalid").to_string();
        assert!(error.ends_with("servers: line 2: 'b c': give one server in a line"), "{error}");
        let missing = [Target::File(folder.path().join("missing"))];
        assert!(matches!(servers(&missing), Err(TargetError::File { .. })));
    }
}
