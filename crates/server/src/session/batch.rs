//! Requests that are parsed ahead, so that their look-ups wait for memory together and not one after the other.
//!
//! ```text
//!   input:  get a\r\n | set b 0 0 1\r\nx\r\n | mg c v\r\n | stats\r\n ...
//!           items, each with its key's hash               | last: carried out after them
//! ```
//!
//! An item is a request about one item or none that lies whole in the input, so that what follows it is a request
//! whatever comes of it. The first request that is no item ends the batch.

use crate::context::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_protocol::{Answer, Dialect, Parsed, Request};

/// Requests of a batch: about as many cache lines as a core can wait for at a time.
const ITEMS_MAX: usize = 8;

/// A request about one item or none.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    /// A [`Parsed::Request`].
    pub(super) parsed: Parsed<'a>,
    /// See [`hashed`].
    pub(super) key: Option<HashedKey<'a>>,
    /// Where it begins in the input.
    pub(super) start: usize,
}

/// The requests that an input begins with.
pub(super) struct Batch<'a> {
    items: [Option<Item<'a>>; ITEMS_MAX],
    count: usize,
    /// Where the last item ends in the input.
    end: usize,
    last: Option<Parsed<'a>>,
}

/// A request's key; `None` if it has to be decoded first.
#[inline(always)]
pub(super) fn hashed<'a>(
    worker: &WorkerContext<'_>,
    request: &Request<'a>,
    answer: &Answer,
) -> Option<HashedKey<'a>> {
    match answer {
        Answer::Meta(echo) if echo.key_is_base64 => None,
        _ => Some(worker.handle.hashed(request.key())),
    }
}

impl<'a> Batch<'a> {
    /// Reads on behind an item that ends at `end`, and prefetches what all items need.
    pub(super) fn read(
        worker: &WorkerContext<'_>,
        dialect: Dialect,
        input: &'a [u8],
        first: &Parsed<'a>,
        end: usize,
    ) -> Batch<'a> {
        let mut batch = Batch { items: [const { None }; ITEMS_MAX], count: 0, end: 0, last: None };
        let mut keys = Prefetched { keys: [worker.handle.hashed(b""); ITEMS_MAX], count: 0 };
        let count_max = ITEMS_MAX.min(worker.requests_left as usize);
        batch.push(worker, first, end, &mut keys);
        while batch.count < count_max && batch.end < input.len() {
            let rest = &input[batch.end..];
            let parsed = dialect.parse_item(rest);
            let Some(len) = parsed.end(rest.len()) else {
                batch.last = Some(parsed);
                break;
            };
            batch.push(worker, &parsed, len, &mut keys);
        }
        if keys.count > 1 {
            worker.handle.prefetch(&keys.keys[..keys.count]);
        }
        batch
    }

    /// Adds an item of this length.
    #[inline(always)]
    fn push(
        &mut self,
        worker: &WorkerContext<'_>,
        parsed: &Parsed<'a>,
        len: usize,
        keys: &mut Prefetched<'a>,
    ) {
        let Parsed::Request { request, answer, .. } = parsed else {
            unreachable!("only a request has an end");
        };
        let key = hashed(worker, request, answer);
        if let Some(key) = key {
            keys.keys[keys.count] = key;
            keys.count += 1;
        }
        self.items[self.count] = Some(Item { parsed: *parsed, key, start: self.end });
        self.count += 1;
        self.end += len;
    }

    /// The items in order.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item<'a>> {
        self.items[..self.count].iter().flatten()
    }

    /// Where the last item ends in the input, and what was read behind it.
    pub(super) fn rest(&self) -> (usize, Option<&Parsed<'a>>) {
        (self.end, self.last.as_ref())
    }
}

/// The keys whose look-ups are prefetched.
struct Prefetched<'a> {
    keys: [HashedKey<'a>; ITEMS_MAX],
    count: usize,
}
