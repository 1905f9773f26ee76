//! Asks the name servers of `/etc/resolv.conf`.

use hickory_resolver::Resolver;
use hickory_resolver::config::{LookupIpStrategy, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use std::fmt::Display;
use std::io;

/// A resolver, and the runtime that it needs.
pub(crate) struct Dns {
    runtime: tokio::runtime::Runtime,
    resolver: Resolver<TokioRuntimeProvider>,
}

/// A host that offers a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name of the host, without the dot at its end.
    pub host: String,
    /// The port of the service.
    pub port: u16,
}

impl Dns {
    /// Returns a resolver that asks these name servers; `None`: those of the system.
    pub fn new(config: Option<ResolverConfig>) -> io::Result<Dns> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let provider = TokioRuntimeProvider::default();
        let mut builder = match config {
            Some(config) => Resolver::builder_with_config(config, provider),
            None => Resolver::builder(provider).map_err(|error| {
                io::Error::other(format!("cannot use the name servers of the system: {error}"))
            })?,
        };
        let options = builder.options_mut();
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.use_hosts_file = ResolveHosts::Never;
        let resolver = builder.build().map_err(io::Error::other)?;
        Ok(Dns { runtime, resolver })
    }

    /// Returns the IPv4 and IPv6 addresses of a host.
    #[cfg(target_feature = "crt-static")]
    pub fn addresses(&self, host: &str) -> io::Result<Vec<std::net::IpAddr>> {
        let found = self.runtime.block_on(self.resolver.lookup_ip(host));
        Ok(found.map_err(|error| failure(host, error))?.iter().collect())
    }

    /// Returns the hosts of the SRV records of a name (RFC 2782): those of the lowest priority value first, and of the same
    /// priority those of the largest weight first.
    pub fn services(&self, name: &str) -> io::Result<Vec<Service>> {
        let found = self.runtime.block_on(self.resolver.srv_lookup(name));
        let found = found.map_err(|error| failure(name, error))?;
        let mut records: Vec<_> = found
            .answers()
            .iter()
            .filter_map(|record| match &record.data {
                RData::SRV(srv) => Some(srv),
                _ => None,
            })
            .map(|srv| {
                let host = srv.target.to_utf8().trim_end_matches('.').to_owned();
                (srv.priority, u16::MAX - srv.weight, Service { host, port: srv.port })
            })
            .collect();
        records.sort_by(|(a_first, a_then, a), (b_first, b_then, b)| {
            (a_first, a_then, &a.host, a.port).cmp(&(b_first, b_then, &b.host, b.port))
        });
        // The record of a name that does not offer the service has the root as its host.
        let services = records.into_iter().map(|(.., service)| service);
        Ok(services.filter(|service| !service.host.is_empty()).collect())
    }
}

fn failure(name: &str, error: impl Display) -> io::Error {
    io::Error::other(format!("cannot resolve the name '{name}': {error}"))
}

#[cfg(test)]
#[path = "dns_tests.rs"]
mod tests;
