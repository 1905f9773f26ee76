//! A batch: item requests that are parsed before the first of them runs. Their lookups are prefetched together, so that
//! the memory accesses overlap.
//!
//! ```text
//!   input:  get a\r\n | set b 0 0 1\r\nx\r\n | mg c v\r\n | stats\r\n ...
//!           item requests, each with the hash of its key  | the request that ends the batch
//! ```
//!
//! A batch has only item requests, which are about at most one item, and only complete ones. After a complete item
//! request the next byte of the input always begins another request, even if the item request fails. Therefore the
//! next request can be parsed before the item request runs. The first request that is incomplete or of another kind
//! ends the batch and is served last.

use super::items::Dialect;
use crate::shared::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_protocol::text::join_sole_key;
use slabwise_protocol::{Parsed, Request};

/// The maximum number of keys whose lookups are prefetched together: about the number of cache misses for which a processor
/// core can wait at the same time.
pub(super) const ITEMS_MAX: usize = 8;

/// The requests that were parsed from the start of an input.
pub(super) struct Batch<'a> {
    /// The item requests, in the first `count` entries. If `has_last`, the next entry is the request that ends the
    /// batch.
    parsed: [Parsed<'a>; ITEMS_MAX],
    /// The key of each item request, as the client sent it: a key in base64 is not decoded.
    keys: [HashedKey<'a>; ITEMS_MAX],
    /// The offset in the input at which each item request starts, in bytes.
    starts: [usize; ITEMS_MAX],
    /// The number of item requests in the batch.
    count: usize,
    /// The offset in the input at which the last item request ends, in bytes.
    end: usize,
    /// True if `parsed` contains the request that ends the batch.
    has_last: bool,
    /// True if an item request is a store or a delete.
    has_writes: bool,
}

impl<'a> Batch<'a> {
    #[inline(always)]
    pub(super) fn new() -> Batch<'a> {
        Batch {
            parsed: [Parsed::Incomplete; ITEMS_MAX],
            keys: [HashedKey::from_parts(b"", 0); ITEMS_MAX],
            starts: [0; ITEMS_MAX],
            count: 0,
            end: 0,
            has_last: false,
            has_writes: false,
        }
    }

    /// Fills the batch: adds the item request `first`, which ends at `end`, parses the requests after it, and
    /// prefetches the lookups of all keys.
    pub(super) fn read(
        &mut self,
        worker: &WorkerContext<'_>,
        dialect: &Dialect,
        input: &'a [u8],
        first: &Parsed<'a>,
        end: usize,
    ) {
        let count_max = ITEMS_MAX.min(worker.requests_left as usize);
        self.parsed[0] = *first;
        self.add(worker, end);
        while self.count < count_max && self.end < input.len() {
            let rest = &input[self.end..];
            let parsed = &mut self.parsed[self.count];
            *parsed = dialect.parse(worker, rest);
            join_sole_key(parsed, rest);
            match parsed.end(rest.len()) {
                Some(len) => self.add(worker, len),
                None => {
                    self.has_last = true;
                    break;
                }
            }
        }
        if self.count > 1 {
            let keys = &self.keys[..self.count];
            if self.has_writes {
                worker.handle.prefetch_for_writes(keys);
            } else {
                worker.handle.prefetch(keys);
            }
        }
    }

    /// Adds the request in entry `count` of `parsed` to the item requests. `len` is its length in the input, in bytes.
    #[inline(always)]
    fn add(&mut self, worker: &WorkerContext<'_>, len: usize) {
        let Parsed::Request { request, .. } = &self.parsed[self.count] else {
            unreachable!("the caller adds only valid requests, which have an end");
        };
        self.keys[self.count] = worker.handle.hashed(request.key());
        self.has_writes |= matches!(request, Request::Store(_) | Request::Delete(_));
        self.starts[self.count] = self.end;
        self.count += 1;
        self.end += len;
    }

    /// Returns the item requests in order, each with its key and the offset at which it starts in the input.
    pub(super) fn items(&self) -> impl Iterator<Item = ((&Parsed<'a>, &HashedKey<'a>), &usize)> {
        self.parsed[..self.count].iter().zip(&self.keys).zip(&self.starts)
    }

    /// Returns the offset at which the last item request ends, and the parsed request that ended the batch, if any.
    pub(super) fn rest(&self) -> (usize, Option<&Parsed<'a>>) {
        (self.end, self.has_last.then(|| &self.parsed[self.count]))
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, ITEMS_MAX, join_sole_key};
    use crate::sasl::Exchange;
    use crate::session::items::Dialect;
    use crate::session::testing::Fixture;
    use slabwise_protocol::Parsed;

    const TEXT: &Dialect = &Dialect::Text;

    /// Returns the keys of the batch at the start of `input`, the offset at which its last item request ends, and true
    /// if the batch ended at a request whose line or packet head is complete.
    fn batch<'a>(
        dialect: &Dialect,
        input: &'a [u8],
        requests_left: u32,
    ) -> (Vec<&'a [u8]>, usize, bool) {
        let fixture = Fixture::new();
        let shared = fixture.shared();
        let mut worker = fixture.worker(&shared);
        worker.requests_left = requests_left;
        let mut first = dialect.parse(&worker, input);
        join_sole_key(&mut first, input);
        let Some(end) = first.end(input.len()) else { return (Vec::new(), 0, false) };
        let mut batch = Batch::new();
        batch.read(&worker, dialect, input, &first, end);
        let keys = batch.items().map(|((_, key), _)| key.bytes());
        let (keys, (end, last)) = (keys.collect(), batch.rest());
        let is_request = matches!(last, Some(Parsed::Request { .. } | Parsed::Refused { .. }));
        (keys, end, is_request)
    }

    #[test]
    fn a_batch_has_the_keys_of_its_requests_in_order() {
        let input = b"get a\r\nset bb 1 0 3\r\nx\ny\r\ngat 5 ccc\r\ndelete d\r\nget e\r\n";
        let keys = vec![&b"a"[..], b"bb", b"ccc", b"d", b"e"];
        assert_eq!(batch(TEXT, input, 20), (keys, input.len(), false));
        let input = b"mg a v\r\nms bb 3 T0 k\r\nx\ny\r\nmn\r\nmg ccc\r\nget e\r\n";
        let keys = vec![&b"a"[..], b"bb", b"", b"ccc", b"e"];
        assert_eq!(batch(TEXT, input, 20), (keys, input.len(), false));
    }

    #[test]
    fn a_batch_ends_at_a_request_of_another_kind_or_at_an_incomplete_request() {
        let expected = |keys: &[&'static [u8]], end, is_request| (keys.to_vec(), end, is_request);
        assert_eq!(batch(TEXT, b"get a\r\nget b", 20), expected(&[b"a"], 7, false));
        assert_eq!(batch(TEXT, b"get a\r\nstats\r\nget c\r\n", 20), expected(&[b"a"], 7, true));
        assert_eq!(batch(TEXT, b"get a\r\nget b c\r\nget d\r\n", 20), expected(&[b"a"], 7, true));
        assert_eq!(batch(TEXT, b"mg a\r\nbogus\r\nmg b\r\n", 20), expected(&[b"a"], 6, true));
        let cut = b"get a\r\nset b 0 0 99\r\nshort\r\n";
        assert_eq!(batch(TEXT, cut, 20), expected(&[b"a"], 7, true));
        for input in [
            &b"set a 0 0 99\r\nshort\r\n"[..],
            b"get ",
            b"mg \n",
            b"ms a 99 T0\r\nshort\r\n",
            b"version\r\nget a\r\n",
        ] {
            assert_eq!(batch(TEXT, input, 20), expected(&[], 0, false), "{}", input.escape_ascii());
        }
        let get = b"\x80\0\0\x02\0\0\0\0\0\0\0\x02opaqcasvalueab";
        let set = b"\x80\x01\0\x01\x08\0\0\0\0\0\0\x0bopaqcasvalueexptimexkvv";
        let packets = [&get[..], set, &get[..25]].concat();
        let gets_and_sets = expected(&[b"ab", b"k"], get.len() + set.len(), false);
        assert_eq!(batch(&Dialect::Binary(Exchange::default()), &packets, 20), gets_and_sets);
    }

    #[test]
    fn a_batch_has_at_most_eight_requests_and_at_most_the_request_budget() {
        let many = b"get a\r\n".repeat(ITEMS_MAX + 1);
        assert_eq!(batch(TEXT, &many, 20).0.len(), ITEMS_MAX);
        assert_eq!(batch(TEXT, &many, 3).0.len(), 3);
    }
}
