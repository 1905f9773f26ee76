//! The names of `/etc/hosts`, and those that the name servers of `/etc/resolv.conf` know.

use crate::dns::Dns;
use hickory_resolver::Hosts;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Returns the addresses of a host name. As with the C library, the name servers are asked only if `/etc/hosts` lacks the
/// name.
pub(super) fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut found = in_hosts_file(host);
    if found.is_empty() {
        found = Dns::new(None)?.addresses(host)?;
    }
    Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
}

/// Returns the addresses of a name in `/etc/hosts`; none if the file does not exist.
fn in_hosts_file(host: &str) -> Vec<IpAddr> {
    let (Ok(hosts), Ok(name)) = (Hosts::from_system(), Name::from_utf8(host)) else {
        return Vec::new();
    };
    let lookups = [RecordType::A, RecordType::AAAA]
        .into_iter()
        .filter_map(|kind| hosts.lookup_static_host(&Query::query(name.clone(), kind)));
    let mut addresses = Vec::new();
    for lookup in lookups {
        addresses.extend(lookup.answers().iter().filter_map(|record| record.data.ip_addr()));
    }
    addresses
}
