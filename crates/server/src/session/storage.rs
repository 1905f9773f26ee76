//! set, add, replace, append, prepend, cas: the value after the line.

use super::{Next, Phase, Reply, Session, Step, events};
use crate::context::WorkerContext;
use crate::out::Out;
use slabwise_engine::{ItemMeta, Reservation, ReserveError, StoreMode, StoreOutcome};
use slabwise_protocol::text::reply;
use slabwise_protocol::{StoreHeader, StoreVerb};

/// With less than this missing of a value, the socket is read into the connection's buffer: that
/// read also takes the value's end and the commands after it, which saves one.
const DIRECT_READ_LEN_MIN: usize = 4 << 10;

/// What an item takes in memcached beside key, value, CAS and flags: its header, and the ends of key and
/// value.
const MEMCACHED_ITEM_BYTES: usize = 48 + 1 + 2;

const VALUE_END: &[u8] = b"\r\n";

/// A value that is arriving, in memory that nobody sees yet.
pub(super) struct Upload<'e> {
    reservation: Reservation<'e>,
    verb: StoreVerb,
    noreply: bool,
}

impl Upload<'_> {
    pub(super) fn target(&mut self) -> Option<&mut [u8]> {
        if self.reservation.remaining() < DIRECT_READ_LEN_MIN {
            return None;
        }
        // Empty where there is no memory for more: what follows is then read and skipped.
        let place = self.reservation.unfilled();
        (!place.is_empty()).then_some(place)
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.reservation.advance(count);
    }
}

impl<'e> Session<'e> {
    /// A storage command whose line has been read; `rest` is the input after it. Returns how much of
    /// `rest` it took.
    pub(super) fn store(
        &mut self,
        worker: &mut WorkerContext<'e>,
        header: StoreHeader<'_>,
        noreply: bool,
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> usize {
        let prefixes = &worker.shared.prefixes;
        if prefixes.is_enabled() {
            prefixes.record_set(header.key);
        }
        let StoreHeader { verb, key, value_len, .. } = header;
        let meta =
            ItemMeta { client_flags: header.client_flags, expiry: worker.expiry(header.exptime) };
        let reply = &mut Reply::new(worker, out, noreply);
        let mode = mode(worker, verb);
        let is_too_large = exceeds_item_size(worker, &header);
        if let Some(value) = whole_value(rest, value_len)
            && !is_too_large
            && !extends(verb)
            && !events::stores_are_watched(worker)
        {
            let outcome = worker.handle.set(key, value, meta, mode, worker.now);
            match outcome {
                StoreOutcome::TooLarge => refuse(worker, &header, ReserveError::TooLarge, reply),
                StoreOutcome::OutOfMemory => {
                    refuse(worker, &header, ReserveError::OutOfMemory, reply);
                }
                _ => answer(verb, outcome, reply),
            }
            return value_len + VALUE_END.len();
        }
        let reserved = if is_too_large {
            worker.handle.count_too_large();
            Err(ReserveError::TooLarge)
        } else {
            worker.handle.reserve(key, value_len, meta, worker.now)
        };
        match reserved {
            Ok(mut reservation) => {
                let count = reservation.fill(rest);
                if reservation.is_starved() {
                    self.phase = Phase::Skip(reservation.remaining() + VALUE_END.len());
                    worker.handle.give_up(reservation);
                    refuse(worker, &header, ReserveError::OutOfMemory, reply);
                } else {
                    self.phase = Phase::Value(Upload { reservation, verb, noreply });
                }
                count
            }
            Err(error) => {
                refuse(worker, &header, error, reply);
                self.phase = Phase::Skip(value_len + VALUE_END.len());
                0
            }
        }
    }

    /// More of a value, or its end.
    pub(super) fn value(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        let Phase::Value(upload) = &mut self.phase else {
            unreachable!("called only while a value is read");
        };
        let count = upload.reservation.fill(input);
        let rest = &input[count..];
        if upload.reservation.is_starved() {
            return self.give_up_upload(worker, count, out);
        }
        if upload.reservation.remaining() > 0 || rest.len() < VALUE_END.len() {
            return Step::Pause(count, Next::Read);
        }
        let Phase::Value(mut upload) = std::mem::take(&mut self.phase) else {
            unreachable!("it was a value above");
        };
        let reply = &mut Reply::new(worker, out, upload.noreply);
        if rest.starts_with(VALUE_END) {
            let mode = mode(worker, upload.verb);
            let announced = events::storing(worker, &mut upload.reservation);
            let outcome = worker.handle.store(upload.reservation, mode, worker.now);
            events::stored(worker, announced, mode, outcome);
            answer(upload.verb, outcome, reply);
        } else {
            reply.line(reply::BAD_DATA);
        }
        Step::Took(count + VALUE_END.len())
    }
}

impl<'e> Session<'e> {
    /// There is no memory for the rest of the value: says so, and skips what is still to come.
    fn give_up_upload(
        &mut self,
        worker: &mut WorkerContext<'e>,
        count: usize,
        out: &mut Out<'e>,
    ) -> Step {
        let Phase::Value(mut upload) = std::mem::take(&mut self.phase) else {
            unreachable!("called only while a value is read");
        };
        self.phase = Phase::Skip(upload.reservation.remaining() + VALUE_END.len());
        Reply::new(worker, out, upload.noreply).line(reply::NO_MEMORY_STORING);
        let key = upload.reservation.key().to_vec();
        worker.handle.give_up(upload.reservation);
        let mode = mode(worker, upload.verb);
        events::store_refused(worker, &key, mode, ReserveError::OutOfMemory);
        if upload.verb == StoreVerb::Set {
            events::looking_up(worker, &key);
            worker.handle.discard(&key, worker.now);
        }
        Step::Took(count)
    }
}

/// Whether memcached would find the item larger than `-I`. The engine's items are smaller, so its own
/// limit would let a few bytes more pass; clients, and whoever set `-I`, know memcached's.
fn exceeds_item_size(worker: &WorkerContext<'_>, header: &StoreHeader<'_>) -> bool {
    let settings = worker.shared.settings;
    let overhead = MEMCACHED_ITEM_BYTES
        + if settings.cas_enabled { size_of::<u64>() } else { 0 }
        + if header.client_flags != 0 { size_of::<u32>() } else { 0 };
    let size_bytes = overhead + header.key.len() + header.value_len;
    size_bytes as u64 > settings.engine.item_size_bytes_max
}

/// The value, if all of it and its end are at hand.
fn whole_value(rest: &[u8], value_len: usize) -> Option<&[u8]> {
    let end = rest.get(value_len..value_len + VALUE_END.len())?;
    (end == VALUE_END).then(|| &rest[..value_len])
}

fn extends(verb: StoreVerb) -> bool {
    matches!(verb, StoreVerb::Append | StoreVerb::Prepend)
}

fn mode(worker: &WorkerContext<'_>, verb: StoreVerb) -> StoreMode {
    match verb {
        StoreVerb::Set => StoreMode::Set,
        StoreVerb::Add => StoreMode::Add,
        StoreVerb::Replace => StoreMode::Replace,
        StoreVerb::Append => StoreMode::Append,
        StoreVerb::Prepend => StoreMode::Prepend,
        // Without CAS nothing that is there matches: 0 is no item's.
        StoreVerb::Cas(_) if !worker.shared.settings.cas_enabled => StoreMode::Cas(0),
        StoreVerb::Cas(cas) => StoreMode::Cas(cas),
    }
}

/// No memory for an item. A set that fails must not leave the old value to be read: the client has
/// been told to forget it.
fn refuse(
    worker: &mut WorkerContext<'_>,
    header: &StoreHeader<'_>,
    error: ReserveError,
    reply: &mut Reply<'_>,
) {
    reply.line(match error {
        ReserveError::TooLarge => reply::TOO_LARGE,
        ReserveError::OutOfMemory => reply::NO_MEMORY_STORING,
    });
    events::store_refused(worker, header.key, mode(worker, header.verb), error);
    if header.verb == StoreVerb::Set {
        events::looking_up(worker, header.key);
        worker.handle.discard(header.key, worker.now);
    }
}

fn answer(verb: StoreVerb, outcome: StoreOutcome, reply: &mut Reply<'_>) {
    reply.line(match outcome {
        StoreOutcome::Stored { .. } => reply::STORED,
        StoreOutcome::NotStored => reply::NOT_STORED,
        StoreOutcome::Exists => reply::EXISTS,
        StoreOutcome::NotFound => reply::NOT_FOUND,
        // The value fitted, what it would have grown into does not: the item stays as it was.
        StoreOutcome::TooLarge | StoreOutcome::OutOfMemory if extends(verb) => reply::NOT_STORED,
        StoreOutcome::TooLarge => reply::TOO_LARGE,
        StoreOutcome::OutOfMemory => reply::NO_MEMORY_STORING,
    });
}
