//! Requests that are parsed ahead, so that the memory accesses of their lookups overlap.
//!
//! ```text
//!   input:  get a\r\n | set b 0 0 1\r\nx\r\n | mg c v\r\n | stats\r\n ...
//!           items, each with its key's hash               | last: carried out after them
//! ```
//!
//! A batch has only item requests: requests about at most one item that are complete in the input. The bytes after such
//! a request are always a request, even if it fails. The first other request ends the batch.

use super::items::Dialect;
use crate::shared::WorkerContext;
use slabwise_base::HashedKey;
use slabwise_protocol::text::join_sole_key;
use slabwise_protocol::{Parsed, Request};

/// The most requests of a batch: about the number of cache misses that a core can have outstanding.
const ITEMS_MAX: usize = 8;

/// The requests at the start of an input.
pub(super) struct Batch<'a> {
    /// The item requests, then perhaps the request that ends the batch.
    parsed: [Parsed<'a>; ITEMS_MAX],
    /// The key of each item request as sent, perhaps in base64.
    keys: [HashedKey<'a>; ITEMS_MAX],
    /// The start of each item request in the input.
    starts: [usize; ITEMS_MAX],
    count: usize,
    /// The end of the last item request in the input.
    end: usize,
    /// True if the request that ends the batch was parsed.
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

    /// Parses the requests after a first item request that ends at `end`, and prefetches the lookups of all.
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
        self.take(worker, end);
        while self.count < count_max && self.end < input.len() {
            let rest = &input[self.end..];
            let parsed = &mut self.parsed[self.count];
            *parsed = dialect.parse(worker, rest);
            join_sole_key(parsed, rest);
            match parsed.end(rest.len()) {
                Some(len) => self.take(worker, len),
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

    /// Adds the request that was parsed last, of this length.
    #[inline(always)]
    fn take(&mut self, worker: &WorkerContext<'_>, len: usize) {
        let Parsed::Request { request, .. } = &self.parsed[self.count] else {
            unreachable!("only a request has an end");
        };
        self.keys[self.count] = worker.handle.hashed(request.key());
        self.has_writes |= matches!(request, Request::Store(_) | Request::Delete(_));
        self.starts[self.count] = self.end;
        self.count += 1;
        self.end += len;
    }

    pub(super) fn items(&self) -> impl Iterator<Item = ((&Parsed<'a>, &HashedKey<'a>), &usize)> {
        self.parsed[..self.count].iter().zip(&self.keys).zip(&self.starts)
    }

    /// Returns the end of the last item request in the input, and the request after it if that was parsed.
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

    /// Returns the keys of the batch at the start of an input, the end of its last item request, and whether a request
    /// after it was parsed.
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
    fn a_batch_has_its_keys_in_order() {
        let input = b"get a\r\nset bb 1 0 3\r\nx\ny\r\ngat 5 ccc\r\ndelete d\r\nget e\r\n";
        let keys = vec![&b"a"[..], b"bb", b"ccc", b"d", b"e"];
        assert_eq!(batch(TEXT, input, 20), (keys, input.len(), false));
        let input = b"mg a v\r\nms bb 3 T0 k\r\nx\ny\r\nmn\r\nmg ccc\r\nget e\r\n";
        let keys = vec![&b"a"[..], b"bb", b"", b"ccc", b"e"];
        assert_eq!(batch(TEXT, input, 20), (keys, input.len(), false));
    }

    #[test]
    fn a_batch_ends_at_a_request_of_another_kind_or_an_incomplete_one() {
        let only = |keys: &[&'static [u8]], end, is_request| (keys.to_vec(), end, is_request);
        assert_eq!(batch(TEXT, b"get a\r\nget b", 20), only(&[b"a"], 7, false));
        assert_eq!(batch(TEXT, b"get a\r\nstats\r\nget c\r\n", 20), only(&[b"a"], 7, true));
        assert_eq!(batch(TEXT, b"get a\r\nget b c\r\nget d\r\n", 20), only(&[b"a"], 7, true));
        assert_eq!(batch(TEXT, b"mg a\r\nbogus\r\nmg b\r\n", 20), only(&[b"a"], 6, true));
        let cut = b"get a\r\nset b 0 0 99\r\nshort\r\n";
        assert_eq!(batch(TEXT, cut, 20), only(&[b"a"], 7, true));
        for none in [
            &b"set a 0 0 99\r\nshort\r\n"[..],
            b"get ",
            b"mg \n",
            b"ms a 99 T0\r\nshort\r\n",
            b"version\r\nget a\r\n",
        ] {
            assert_eq!(batch(TEXT, none, 20), only(&[], 0, false), "{}", none.escape_ascii());
        }
        let get = b"\x80\0\0\x02\0\0\0\0\0\0\0\x02opaqcasvalueab";
        let set = b"\x80\x01\0\x01\x08\0\0\0\0\0\0\x0bopaqcasvalueexptimexkvv";
        let packets = [&get[..], set, &get[..25]].concat();
        let expected = only(&[b"ab", b"k"], get.len() + set.len(), false);
        assert_eq!(batch(&Dialect::Binary(Exchange::default()), &packets, 20), expected);
    }

    #[test]
    fn a_batch_is_bounded_by_its_size_and_the_request_budget() {
        let many = b"get a\r\n".repeat(ITEMS_MAX + 1);
        assert_eq!(batch(TEXT, &many, 20).0.len(), ITEMS_MAX);
        assert_eq!(batch(TEXT, &many, 3).0.len(), 3);
    }
}
