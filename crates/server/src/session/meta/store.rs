//! `ms`.

use super::Asked;
use crate::context::WorkerContext;
use crate::ops::Rules;
use crate::ops::store::Order;
use crate::out::Out;
use crate::session::ack::Ack;
use slabwise_engine::{ItemMeta, StoreConditions, StoreMode, StoreOutcome};
use slabwise_protocol::meta::{OPAQUE_LEN_MAX, SetMode, compose, reply};

/// What a meta store's answer needs after its line is gone.
pub(in crate::session) struct MetaAck {
    /// Those of the flags that its reply has, in order: O, k, c, s.
    letters: [u8; 4],
    letter_count: u8,
    opaque: [u8; OPAQUE_LEN_MAX],
    opaque_len: u8,
    is_base64: bool,
    is_quiet: bool,
}

/// The store that a request asks for.
pub(super) fn order<'a>(
    worker: &WorkerContext<'_>,
    asked: Asked<'a>,
    value_len: usize,
    mode: SetMode,
) -> (Order<'a>, Ack) {
    let options = &asked.request.options;
    let vivifies = options.vivify.is_some() && matches!(mode, SetMode::Append | SetMode::Prepend);
    let exptime = if vivifies { options.vivify } else { options.exptime };
    let order = Order {
        key: worker.handle.hashed(asked.key),
        meta: ItemMeta {
            client_flags: options.client_flags,
            expiry: worker.expiry(exptime.unwrap_or(0)),
            cost: options.cost,
        },
        conditions: conditions(worker, &asked, mode, vivifies),
        value_len,
        rules: Rules::Meta,
    };
    (order, Ack::Meta(MetaAck::new(&asked)))
}

fn conditions(
    worker: &WorkerContext<'_>,
    asked: &Asked<'_>,
    mode: SetMode,
    vivify: bool,
) -> StoreConditions {
    let cas_enabled = worker.shared.settings.cas_enabled;
    let expected = asked.request.options.expected_cas;
    // To set and replace, a CAS value is one to match, and no item has 0; to append and prepend, 0 is none.
    let compared = if cas_enabled { expected } else { expected.map(|_| 0) };
    let joined = expected.filter(|&cas| cas != 0 && cas_enabled);
    let (mode, expected_cas) = match (mode, compared) {
        (SetMode::Set | SetMode::Replace, Some(cas)) => (StoreMode::Cas(cas), None),
        (SetMode::Set, None) => (StoreMode::Set, None),
        (SetMode::Replace, None) => (StoreMode::Replace, None),
        (SetMode::Add, _) => (StoreMode::Add, None),
        (SetMode::Append, _) => (StoreMode::Append, joined),
        (SetMode::Prepend, _) => (StoreMode::Prepend, joined),
    };
    StoreConditions {
        mode,
        expected_cas,
        new_cas: asked.new_cas(worker).filter(|&cas| cas != 0),
        stale_allowed: asked.has(b'I') && compared.is_some_and(|cas| cas != 0),
        vivify,
    }
}

impl MetaAck {
    fn new(asked: &Asked<'_>) -> MetaAck {
        let echo = &asked.request.echo;
        let mut ack = MetaAck {
            letters: [0; 4],
            letter_count: 0,
            opaque: [0; OPAQUE_LEN_MAX],
            opaque_len: echo.opaque().len() as u8,
            is_base64: asked.request.key.is_base64(),
            is_quiet: asked.has(b'q'),
        };
        ack.opaque[..echo.opaque().len()].copy_from_slice(echo.opaque());
        // No flag is there twice, so four places are enough.
        for &letter in echo.letters() {
            if matches!(letter, b'O' | b'k' | b'c' | b's') {
                ack.letters[usize::from(ack.letter_count)] = letter;
                ack.letter_count += 1;
            }
        }
        ack
    }

    /// Tells what came of a store of `value_len` bytes under `key`.
    pub(in crate::session) fn answer<'e>(
        &self,
        worker: &WorkerContext<'e>,
        key: &[u8],
        outcome: StoreOutcome,
        value_len: usize,
        out: &mut Out<'e>,
    ) {
        let out = out.bytes();
        let (code, cas, value_len) = match outcome {
            StoreOutcome::Stored { .. } if self.is_quiet => return,
            StoreOutcome::Stored { cas, value_len } => (reply::CODE_DONE, cas, value_len),
            StoreOutcome::NotStored => (reply::CODE_NOT_STORED, 0, value_len),
            StoreOutcome::Exists => (reply::CODE_EXISTS, 0, value_len),
            StoreOutcome::NotFound => (reply::CODE_NOT_FOUND, 0, value_len),
            StoreOutcome::TooLarge => return out.extend_from_slice(reply::TOO_LARGE),
            StoreOutcome::OutOfMemory => return out.extend_from_slice(reply::NO_MEMORY_STORING),
        };
        out.extend_from_slice(code);
        for &letter in &self.letters[..usize::from(self.letter_count)] {
            match letter {
                b'O' => {
                    let opaque = &self.opaque[..usize::from(self.opaque_len)];
                    compose::flag_opaque(out, opaque);
                }
                b'k' => compose::flag_key(out, self.is_base64, key),
                b'c' => {
                    let cas = if worker.shared.settings.cas_enabled { cas } else { 0 };
                    compose::flag_number(out, b'c', cas);
                }
                _ => compose::flag_number(out, b's', value_len),
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}
