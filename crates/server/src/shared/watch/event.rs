//! The events of the server, and the line of each event for watchers. A line has memcached's fields in memcached's
//! order.

use crate::shared::connections::Address;
use slabwise_base::{ClassId, Expiry, Now};
use slabwise_engine::Eviction;
use slabwise_protocol::WatchKinds;
use slabwise_protocol::text::write_percent_encoded;
use std::io::{self, Write};
use std::os::fd::RawFd;

/// An event that watchers can request.
#[derive(Clone, Copy, Debug)]
pub enum WatchEvent<'a> {
    /// A command looked up a key.
    Fetch {
        key: &'a [u8],
        /// memcached's name for the result, such as `found`.
        status: &'static str,
        /// The class of the item; `None` if the key has no live item.
        class: Option<ClassId>,
        value_len: usize,
        descriptor: RawFd,
    },
    /// A store command ended.
    Store {
        key: &'a [u8],
        /// memcached's name for the result, such as `stored`.
        status: &'static str,
        /// memcached's name for the command, such as `set`.
        command: &'static str,
        expiry: Expiry,
        /// The time of the store.
        now: Now,
        /// The class of the item; `None` if there was no memory for the item.
        class: Option<ClassId>,
        value_len: usize,
        descriptor: RawFd,
    },
    /// A client deleted an item.
    Deletion {
        key: &'a [u8],
        /// memcached's name for the command, such as `delete`.
        command: &'static str,
        class: ClassId,
        value_len: usize,
    },
    /// The engine evicted an item.
    Eviction(&'a Eviction<'a>),
    /// A client connected.
    Opened { address: &'a Address, descriptor: RawFd },
    /// A client violated the TLS protocol, or its certificate was rejected. The server then closes the connection, so a
    /// [`WatchEvent::Closed`] follows.
    TlsFailed {
        /// The error, without line breaks.
        reason: &'a str,
        descriptor: RawFd,
    },
    /// A connection was closed.
    Closed { address: &'a Address, reason: CloseReason, descriptor: RawFd },
    /// The page policy requested a page move.
    PageMove {
        victim: ClassId,
        /// The class that receives the page; `None` for the page pool.
        receiver: Option<ClassId>,
        /// True if the mover began the move; false if it refused the move.
        is_begun: bool,
    },
    /// An automatic crawl ended.
    Crawl {
        /// The duration of the crawl in seconds.
        elapsed_seconds: u32,
        /// The number of seconds until the next automatic crawl.
        next_seconds: u64,
        /// The number of items that the crawl checked.
        examined: u64,
        /// The number of expired items that the crawl removed.
        reclaimed: u64,
    },
}

/// The reason why a connection was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloseReason {
    /// The socket returned an error, or the client sent an invalid request.
    #[default]
    Error,
    /// The client closed the connection or sent `quit`.
    Normal,
    /// The client was idle for longer than `-o idle_timeout`.
    IdleTimeout,
    /// The TLS handshake was not complete after `-o ssl_handshake_timeout`.
    HandshakeTimeout,
    /// The client sent the command `shutdown`.
    Shutdown,
    /// The client did not read its replies, while other clients waited for the memory that they hold.
    SlowReader,
}

impl WatchEvent<'_> {
    /// Returns the kind of the event, by which watchers request it.
    pub(super) fn kind(&self) -> WatchKinds {
        match self {
            WatchEvent::Fetch { .. } => WatchKinds::FETCHERS,
            WatchEvent::Store { .. } => WatchKinds::MUTATIONS,
            WatchEvent::Deletion { .. } => WatchKinds::DELETIONS,
            WatchEvent::Eviction(_) => WatchKinds::EVICTIONS,
            WatchEvent::Opened { .. }
            | WatchEvent::TlsFailed { .. }
            | WatchEvent::Closed { .. } => WatchKinds::CONNEVENTS,
            WatchEvent::PageMove { .. } | WatchEvent::Crawl { .. } => WatchKinds::SYSEVENTS,
        }
    }

    /// Appends the fields of the event and a line end. The caller has already written the time and number of the event.
    pub(super) fn write(&self, line: &mut Vec<u8>) {
        let written = self.write_fields(line).and_then(|()| writeln!(line));
        written.expect("a write into a vector succeeds");
    }

    fn write_fields(&self, line: &mut Vec<u8>) -> io::Result<()> {
        match *self {
            WatchEvent::Fetch { key, status, class, value_len, descriptor } => {
                start(line, "item_get", key);
                let class = wire(class);
                write!(line, " status={status} clsid={class} cfd={descriptor} size={value_len}")
            }
            WatchEvent::Store {
                key,
                status,
                command,
                expiry,
                now,
                class,
                value_len,
                descriptor,
            } => {
                start(line, "item_store", key);
                let class = wire(class);
                // The TTL is 0 if the item never expires. As in memcached, the TTL of an item that is already expired
                // is negative and is written as an unsigned number of 32 bits.
                let ttl = expiry.second().map_or(0, |end| end.0.wrapping_sub(now.seconds.0));
                write!(line, " status={status} cmd={command} ttl={ttl} clsid={class}")?;
                write!(line, " cfd={descriptor} size={value_len}")
            }
            WatchEvent::Deletion { key, command, class, value_len } => {
                start(line, "deleted", key);
                write!(line, " cmd={command} clsid={} size={value_len}", class.wire())
            }
            WatchEvent::Eviction(eviction) => write_eviction(line, eviction),
            WatchEvent::Opened { address, descriptor } => {
                write!(line, "type=conn_new {} cfd={descriptor}", peer(address))
            }
            WatchEvent::TlsFailed { reason, descriptor } => {
                write!(line, "type=conntlserr fd={descriptor} msg={reason}")
            }
            WatchEvent::Closed { address, reason, descriptor } => {
                let reason = match reason {
                    CloseReason::Error => "error",
                    CloseReason::Normal => "normal",
                    CloseReason::IdleTimeout => "idle_timeout",
                    CloseReason::HandshakeTimeout => "handshake_timeout",
                    CloseReason::Shutdown => "shutdown",
                    CloseReason::SlowReader => "slow_reader",
                };
                let peer = peer(address);
                write!(line, "type=conn_close {peer} reason={reason} cfd={descriptor}")
            }
            WatchEvent::PageMove { victim, receiver, is_begun } => {
                let (src, dst) = (victim.wire(), wire(receiver));
                let state = if is_begun { "ok" } else { "fail" };
                write!(line, "type=slab_move src={src} dst={dst} state={state}")
            }
            // memcached crawls each queue of each class separately, and writes a line for each. slabwise writes one
            // line, because one crawl visits all queues. `next_reclaims` is the expected number of items that the next
            // crawl reclaims; slabwise writes the number of items that this crawl reclaimed.
            WatchEvent::Crawl { elapsed_seconds, next_seconds, examined, reclaimed } => write!(
                line,
                "type=lru_crawler crawler=0 lru=all low_mark={low} next_reclaims={reclaimed} \
                 since_run={elapsed_seconds} next_run={next_seconds} elapsed={elapsed_seconds} \
                 examined={examined} reclaimed={reclaimed}",
                low = examined / 100
            ),
        }
    }
}

/// Appends the type of the event and its key, which is percent-encoded.
fn start(line: &mut Vec<u8>, name: &str, key: &[u8]) {
    line.extend_from_slice(b"type=");
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b" key=");
    write_percent_encoded(line, key);
}

/// Returns memcached's number of a class, or 0 for no class.
fn wire(class: Option<ClassId>) -> u32 {
    class.map_or(0, ClassId::wire)
}

fn write_eviction(line: &mut Vec<u8>, eviction: &Eviction<'_>) -> io::Result<()> {
    start(line, "eviction", eviction.key);
    let Eviction { now, expiry, last_access, class, value_len, .. } = eviction;
    let fetched = if eviction.fetched { "yes" } else { "no" };
    let ttl = expiry.second().map_or(-1, |end| i64::from(end.0) - i64::from(now.seconds.0));
    let age_seconds = now.seconds.0.saturating_sub(last_access.0);
    let class = class.wire();
    write!(line, " fetch={fetched} ttl={ttl} la={age_seconds} clsid={class} size={value_len}")
}

/// Returns the fields `rip`, `rport` and `transport` of a client's address.
fn peer(address: &Address) -> String {
    let (address, transport) = match address {
        Address::Internet(address) => (address, "tcp"),
        Address::Datagram(address) => (address, "udp"),
        Address::Unix(_) | Address::UnixClient => {
            return "rip=unix rport=0 transport=local".to_owned();
        }
    };
    format!("rip={} rport={} transport={transport}", address.ip(), address.port())
}

#[cfg(test)]
mod tests {
    use super::{CloseReason, WatchEvent};
    use crate::shared::connections::Address;
    use slabwise_base::{ClassId, Clock, Expiry, Seconds};
    use slabwise_engine::Eviction;
    use slabwise_protocol::WatchKinds;

    fn line(event: &WatchEvent<'_>) -> String {
        let mut line = Vec::new();
        event.write(&mut line);
        String::from_utf8(line).expect("a line is ASCII, because its key is percent-encoded")
    }

    #[test]
    fn lines_of_item_events_have_the_format_of_memcached() {
        let class = Some(ClassId::from_wire(3).expect("3 is the number of a class"));
        let now = Clock::manual().now();
        let key = b"a b%\xff";
        let fetch = WatchEvent::Fetch { key, status: "found", class, value_len: 4, descriptor: 30 };
        assert_eq!(
            line(&fetch),
            "type=item_get key=a%20b%25%FF status=found clsid=3 cfd=30 size=4\n"
        );
        let store = |expiry| WatchEvent::Store {
            key: b"k",
            status: "stored",
            command: "set",
            expiry,
            now,
            class,
            value_len: 4,
            descriptor: 30,
        };
        let expected = "type=item_store key=k status=stored cmd=set ttl=0 clsid=3 cfd=30 size=4\n";
        assert_eq!(line(&store(Expiry::NEVER)), expected);
        let later = Expiry::at(Seconds(now.seconds.0 + 5));
        assert_eq!(line(&store(later)), expected.replace("ttl=0", "ttl=5"));
        assert_eq!(line(&store(Expiry::PAST)), expected.replace("ttl=0", "ttl=4294967295"));
        let command = "md";
        let class = ClassId::from_wire(3).expect("3 is the number of a class");
        let deletion = WatchEvent::Deletion { key: b"k", command, class, value_len: 4 };
        assert_eq!(line(&deletion), "type=deleted key=k cmd=md clsid=3 size=4\n");
        let mut eviction = Eviction {
            key: b"k",
            value_len: 4,
            expiry: Expiry::NEVER,
            last_access: Seconds(now.seconds.0 - 2),
            fetched: true,
            class,
            now,
        };
        let expected = "type=eviction key=k fetch=yes ttl=-1 la=2 clsid=3 size=4\n";
        assert_eq!(line(&WatchEvent::Eviction(&eviction)), expected);
        (eviction.expiry, eviction.fetched) = (later, false);
        let expected = "type=eviction key=k fetch=no ttl=5 la=2 clsid=3 size=4\n";
        assert_eq!(line(&WatchEvent::Eviction(&eviction)), expected);
    }

    #[test]
    fn lines_of_connection_events_contain_the_address_of_the_client() {
        let internet =
            |text: &str| Address::Internet(text.parse().expect("an IP address and a port"));
        let (v4, v6) = (internet("127.0.0.1:4711"), internet("[::1]:4711"));
        let opened = |address| line(&WatchEvent::Opened { address, descriptor: 30 });
        assert_eq!(opened(&v4), "type=conn_new rip=127.0.0.1 rport=4711 transport=tcp cfd=30\n");
        assert_eq!(opened(&v6), "type=conn_new rip=::1 rport=4711 transport=tcp cfd=30\n");
        let reason = CloseReason::IdleTimeout;
        let closed = WatchEvent::Closed { address: &Address::UnixClient, reason, descriptor: 30 };
        assert_eq!(
            line(&closed),
            "type=conn_close rip=unix rport=0 transport=local reason=idle_timeout cfd=30\n"
        );
        assert_eq!(closed.kind(), WatchKinds::CONNEVENTS);
    }

    #[test]
    fn lines_of_page_moves_and_crawls_have_the_format_of_memcached() {
        let victim = ClassId::from_wire(3).expect("3 is the number of a class");
        let moved = WatchEvent::PageMove { victim, receiver: None, is_begun: true };
        assert_eq!(line(&moved), "type=slab_move src=3 dst=0 state=ok\n");
        let crawl =
            WatchEvent::Crawl { elapsed_seconds: 1, next_seconds: 60, examined: 500, reclaimed: 7 };
        assert_eq!(
            line(&crawl),
            "type=lru_crawler crawler=0 lru=all low_mark=5 next_reclaims=7 since_run=1 next_run=60 \
             elapsed=1 examined=500 reclaimed=7\n"
        );
        assert_eq!(crawl.kind(), WatchKinds::SYSEVENTS);
    }
}
