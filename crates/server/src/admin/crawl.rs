//! Crawls that write a list to one client, in bounded steps: a list of items (metadump, mgdump and cachedump), of
//! prefixes (`stats detail dump`) or of connections (`stats conns`).
//!
//! The session yields between steps, so other clients do not wait for a crawl. A crawl pauses while the output
//! buffer is full, so a client that does not read uses little memory.

use crate::shared::{CrawlTicket, Shared, WorkerContext};
use crate::wire::rows::StatsRows;
use slabwise_base::ClassId;
use slabwise_engine::{CrawlStep, CrawledItem, Crawler};
use slabwise_protocol::text::{reply, write_number, write_percent_encoded};
use std::os::fd::RawFd;

/// The maximum number of chunks, prefixes or connections that one step visits. A step takes about 50 microseconds.
const STEP_CHUNKS: usize = 512;

/// No chunk, prefix or connection has longer lines than this, in bytes. The longest is that of an item whose key is
/// percent-encoded.
const LINES_LEN_MAX: usize = 1024;

/// The maximum length of the reply to `stats cachedump`, in bytes, as in memcached.
const CACHEDUMP_LEN_MAX: usize = 2 << 20;

/// A crawl in progress.
pub(crate) struct Crawl<'e> {
    /// The position among the chunks. Crawls over prefixes and connections do not use it.
    crawler: Crawler,
    listing: Listing,
    /// The permission of a metadump or mgdump, of which only one can run at a time. `None` for other crawls.
    _ticket: Option<CrawlTicket<'e>>,
}

/// The kind of the listed objects, and the form of their lines.
pub(crate) enum Listing {
    /// One line `key=... exp=... la=...` per item.
    Metadump,
    /// One line `mg <key>` per item.
    Mgdump,
    /// One line `ITEM <key> [<bytes> b; <expiry> s]` per item.
    Cachedump {
        /// The number of items that can still be listed.
        items_left: usize,
        /// The number of bytes that can still be written, without the line `END`.
        len_left: usize,
    },
    /// One line `PREFIX <prefix> get ...` per counted prefix.
    Prefixes {
        /// The last listed prefix; `None` at the start.
        after: Option<Box<[u8]>>,
    },
    /// Several lines `STAT <descriptor>:<name> <value>` per socket.
    Connections {
        /// The descriptor of the last listed socket; `None` at the start.
        after: Option<RawFd>,
    },
}

impl Listing {
    /// Returns a cachedump of at most `limit` items; 0 means no limit.
    pub(crate) fn cachedump(limit: u32) -> Listing {
        let items_left = if limit == 0 { usize::MAX } else { limit as usize };
        Listing::Cachedump { items_left, len_left: CACHEDUMP_LEN_MAX - reply::END.len() }
    }

    /// True if the listing has reached its limit.
    fn is_full(&self) -> bool {
        matches!(self, Listing::Cachedump { items_left: 0, .. })
    }
}

impl<'e> Crawl<'e> {
    pub(crate) fn new(
        classes: Vec<ClassId>,
        listing: Listing,
        ticket: Option<CrawlTicket<'e>>,
    ) -> Crawl<'e> {
        Crawl { crawler: Crawler::new(classes), listing, _ticket: ticket }
    }

    /// Runs one bounded step, which appends lines to `out`: at most `room_bytes` and the lines of one more object.
    /// Returns true after the last step.
    pub(crate) fn step(
        &mut self,
        worker: &WorkerContext<'e>,
        room_bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Shared { engine, prefixes, connection_table, .. } = worker.shared;
        let count_max = (room_bytes / LINES_LEN_MAX + 1).min(STEP_CHUNKS);
        let is_done = match &mut self.listing {
            Listing::Prefixes { after } => {
                *after = prefixes.list(after.as_deref(), count_max, out);
                after.is_none()
            }
            Listing::Connections { after } => {
                let mut rows = StatsRows::text(out);
                let row = |name: &str, value: &str| rows.add(name, value);
                *after = connection_table.list(*after, count_max, worker.now, row);
                after.is_none()
            }
            listing => {
                let visit = &mut |item: CrawledItem<'_>| list_item(worker, listing, &item, out);
                let step = engine.crawl_step(&mut self.crawler, count_max, worker.now, visit);
                step == CrawlStep::Done || listing.is_full()
            }
        };
        if is_done {
            out.extend_from_slice(match self.listing {
                Listing::Mgdump => reply::MGDUMP_END,
                _ => reply::END,
            });
        }
        is_done
    }
}

/// Appends the line of one item, unless the listing has reached its limit.
fn list_item(
    worker: &WorkerContext<'_>,
    listing: &mut Listing,
    item: &CrawledItem<'_>,
    out: &mut Vec<u8>,
) {
    match listing {
        Listing::Metadump => metadump_line(worker, item, out),
        Listing::Mgdump => slabwise_protocol::meta::compose::write_get_line(out, item.key),
        Listing::Cachedump { items_left, len_left } => {
            let len_before = out.len();
            // The line of such a key could not be read.
            if item.key.iter().any(|byte| matches!(byte, b' ' | b'\r' | b'\n')) {
                return;
            }
            if *items_left > 0 {
                cachedump_line(worker, item, out);
            }
            let len = out.len() - len_before;
            if len > *len_left {
                out.truncate(len_before);
                *items_left = 0;
            } else {
                *len_left -= len;
                *items_left = items_left.saturating_sub(1);
            }
        }
        Listing::Prefixes { .. } | Listing::Connections { .. } => {
            unreachable!("listings of prefixes and connections visit no items");
        }
    }
}

fn metadump_line(worker: &WorkerContext<'_>, item: &CrawledItem<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"key=");
    write_percent_encoded(out, item.key);
    out.extend_from_slice(b" exp=");
    match item.expiry.second() {
        Some(second) => write_number(out, worker.shared.unix_seconds(second)),
        None => out.extend_from_slice(b"-1"),
    }
    out.extend_from_slice(b" la=");
    write_number(out, worker.shared.unix_seconds(item.last_access()));
    out.extend_from_slice(b" cas=");
    write_number(out, worker.shown_cas(item.cas));
    out.extend_from_slice(if item.fetched { b" fetch=yes" } else { b" fetch=no" });
    out.extend_from_slice(b" cls=");
    write_number(out, item.class.wire());
    out.extend_from_slice(b" size=");
    write_number(out, item.size_bytes);
    out.extend_from_slice(b" flags=");
    write_number(out, item.client_flags);
    out.extend_from_slice(b" \n");
}

fn cachedump_line(worker: &WorkerContext<'_>, item: &CrawledItem<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"ITEM ");
    out.extend_from_slice(item.key);
    out.extend_from_slice(b" [");
    write_number(out, item.value_len);
    out.extend_from_slice(b" b; ");
    let expiry = item.expiry.second().map_or(0, |second| worker.shared.unix_seconds(second));
    write_number(out, expiry);
    out.extend_from_slice(b" s]\r\n");
}
