//! get, gets, gat, gats: one key at a time.

use super::{Next, Phase, Session, Step};
use crate::context::WorkerContext;
use crate::ops::Rules;
use crate::ops::get::{Access, PINNED_VALUE_LEN_MIN, Shown, get};
use crate::out::Out;
use slabwise_base::Expiry;
use slabwise_engine::{ItemView, ReserveError};
use slabwise_protocol::Retrieval;
use slabwise_protocol::text::{NextKey, compose, next_key, reply};

/// So many keys of one line count as one request, so that a line of ten thousand keys lets others
/// have their turn, and one of fifty is answered in one write.
const KEYS_PER_REQUEST: u32 = 64;

/// A retrieval whose keys are being read.
pub(super) struct Keys {
    with_cas: bool,
    touch: Option<Expiry>,
    keys_before_charge: u32,
}

impl Keys {
    pub(super) fn new(retrieval: Retrieval, worker: &WorkerContext<'_>) -> Keys {
        Keys {
            with_cas: retrieval.with_cas,
            touch: retrieval.touch.map(|exptime| worker.expiry(exptime)),
            keys_before_charge: KEYS_PER_REQUEST,
        }
    }

    /// Charges the turn for the next key; false when the turn is used up.
    fn try_charge(&mut self, worker: &mut WorkerContext<'_>) -> bool {
        if self.keys_before_charge == 0 {
            if worker.requests_left == 0 {
                return false;
            }
            worker.charge();
            self.keys_before_charge = KEYS_PER_REQUEST;
        }
        self.keys_before_charge -= 1;
        true
    }
}

impl<'e> Session<'e> {
    /// The next key of a retrieval, or the end of its line.
    pub(super) fn key(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        let Phase::Keys(keys) = &mut self.phase else {
            unreachable!("called only while keys are read");
        };
        match next_key(input) {
            NextKey::Key { key, consumed } => {
                if out.is_full() || !keys.try_charge(worker) {
                    return Step::Pause(0, Next::Yield);
                }
                if look_up(worker, keys, key, out).is_err() {
                    out.bytes().extend_from_slice(reply::NO_MEMORY);
                    self.phase = Phase::SkipLine;
                }
                Step::Took(consumed)
            }
            NextKey::End { consumed } => {
                out.bytes().extend_from_slice(reply::END);
                self.phase = Phase::Command;
                Step::Took(consumed)
            }
            NextKey::Incomplete { consumed } => Step::Pause(consumed, Next::Read),
            NextKey::TooLong => {
                out.bytes().extend_from_slice(reply::BAD_FORMAT);
                self.phase = Phase::SkipLine;
                Step::Took(0)
            }
        }
    }
}

/// Looks one key up and answers if it is there. Fails only where an item needs room for the lifetime
/// that it is given, and there is none.
fn look_up<'e>(
    worker: &mut WorkerContext<'e>,
    keys: &Keys,
    key: &[u8],
    out: &mut Out<'e>,
) -> Result<(), ReserveError> {
    let with_cas = keys.with_cas;
    let cas_enabled = worker.shared.settings.cas_enabled;
    let access = keys.touch.map_or(Access::Plain, Access::Touch);
    let key = worker.handle.hashed(key);
    get(worker, key, access, Rules::Classic, |view, _| answer(view, with_cas, cas_enabled, out))?;
    Ok(())
}

/// Appends an item's line and value.
///
/// A large value that too many clients are being sent already is passed over like a miss, as in
/// memcached: copies of it would be memory without a bound.
fn answer<'e>(
    view: &ItemView<'_, 'e>,
    with_cas: bool,
    cas_enabled: bool,
    out: &mut Out<'e>,
) -> Shown {
    let value_len = view.value_len();
    let is_large = value_len >= PINNED_VALUE_LEN_MIN;
    let pinned = if is_large { view.pin() } else { None };
    if is_large && pinned.is_none() {
        return Shown::PassedOver;
    }
    let cas = with_cas.then(|| if cas_enabled { view.cas() } else { 0 });
    compose::value_line(out.bytes(), view.key(), view.client_flags(), value_len, cas);
    match pinned {
        Some(pinned) => out.push_pinned(pinned),
        None => view.copy_value(out.bytes()),
    }
    out.bytes().extend_from_slice(b"\r\n");
    Shown::Answered
}
