//! Replies of the meta protocol.

use crate::ops::get::HitReply;
use crate::out::{Out, pin_if_large};
use crate::shared::WorkerContext;
use slabwise_base::{Expiry, Now, Ticks};
use slabwise_engine::{ArithmeticOutcome, DeleteOutcome, GetEffects, ItemView, StoreOutcome};
use slabwise_protocol::meta::{Echo, compose, reply};
use slabwise_protocol::text::number as write_number;
use std::io::Write;

pub(crate) struct Hit<'a> {
    pub(crate) echo: &'a Echo,
    /// The key; decoded if it was sent in base64.
    pub(crate) key: &'a [u8],
    pub(crate) now: Now,
    pub(crate) cas_enabled: bool,
    pub(crate) touch: Option<Expiry>,
    /// The client is asked to recache an item that expires before this.
    pub(crate) recache: Option<Expiry>,
}

impl Hit<'_> {
    #[inline]
    pub(crate) fn write<'e>(
        &self,
        view: &ItemView<'_, 'e>,
        effects: GetEffects,
        out: &mut Out<'e>,
    ) -> HitReply {
        let shows_value = self.echo.has(b'v') && self.echo.unless_cas != Some(self.cas(view));
        if !shows_value {
            out.bytes().extend_from_slice(reply::CODE_DONE);
            return self.write_flags(view, effects, out.bytes());
        }
        let Some(pinned) = pin_if_large(view) else {
            out.bytes().extend_from_slice(reply::TOO_MANY_READERS);
            return HitReply::PassedOver;
        };
        compose::value_code(out.bytes(), view.value_len());
        let wins = self.write_flags(view, effects, out.bytes());
        out.push_value(view, pinned);
        out.bytes().extend_from_slice(b"\r\n");
        wins
    }

    fn cas(&self, view: &ItemView<'_, '_>) -> u64 {
        if self.cas_enabled { view.cas() } else { 0 }
    }

    /// Appends the flags of the reply in the order of the request, then W, X and Z.
    fn write_flags(
        &self,
        view: &ItemView<'_, '_>,
        effects: GetEffects,
        out: &mut Vec<u8>,
    ) -> HitReply {
        let letters = self.echo.letters();
        // Most requests have only `v`, which is answered already.
        let mut wins = letters != b"v" && self.write_requested(letters, view, effects, out);
        let claimed = view.is_claimed();
        if claimed {
            compose::flag(out, b'Z');
        }
        if view.is_stale() {
            compose::flag(out, b'X');
            wins |= !claimed;
        }
        if wins {
            view.claim();
            compose::flag(out, b'W');
        }
        out.extend_from_slice(b"\r\n");
        if wins { HitReply::Recache } else { HitReply::Answered }
    }

    /// Appends the requested flags. Returns true if the client is to recache the item.
    fn write_requested(
        &self,
        letters: &[u8],
        view: &ItemView<'_, '_>,
        effects: GetEffects,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut wins = false;
        let mut lifetime = self.lifetime(view, effects);
        for &letter in letters {
            match letter {
                b'T' => lifetime.pass(letter),
                b'N' => {
                    lifetime.pass(letter);
                    wins |= effects.is_new;
                }
                b'R' => {
                    let due = is_before(lifetime.expiry, self.recache);
                    wins |= due && !effects.is_new && !view.is_claimed();
                }
                b's' => compose::flag_number(out, b's', view.value_len()),
                b't' => compose::flag_optional(out, b't', ttl_seconds(lifetime.expiry, self.now)),
                b'c' => compose::flag_number(out, b'c', self.cas(view)),
                b'g' => compose::flag_optional(out, b'g', view.cost().map(|cost| cost.units())),
                b'f' => compose::flag_number(out, b'f', view.client_flags()),
                b'l' => {
                    let idle_ticks = view.last_access().age_at(self.now.ticks);
                    compose::flag_number(out, b'l', idle_ticks / Ticks::PER_SECOND);
                }
                b'h' => compose::flag_number(out, b'h', u8::from(view.fetched())),
                b'O' => compose::flag_opaque(out, self.echo.opaque()),
                b'k' => compose::flag_key(out, self.echo.key_is_base64, self.key),
                _ => {}
            }
        }
        wins
    }

    /// The expiry before the first flag, with the changes that flags make.
    fn lifetime(&self, view: &ItemView<'_, '_>, effects: GetEffects) -> Lifetime {
        let touches = self.touch.is_some();
        let expiry = if touches || effects.is_new { effects.expiry_before } else { view.expiry() };
        let vivify = effects.is_new.then(|| view.expiry());
        Lifetime { expiry, touch: self.touch, vivify }
    }
}

/// True if an item expires before this moment.
fn is_before(expiry: Expiry, moment: Option<Expiry>) -> bool {
    let moment = moment.and_then(Expiry::second);
    expiry.second().is_some_and(|end| moment.is_some_and(|moment| end < moment))
}

pub(crate) fn missed(echo: &Echo, key: &[u8], out: &mut Vec<u8>) {
    if !echo.has(b'q') {
        compose::bare_line(out, reply::CODE_MISS, echo, key);
    }
}

pub(crate) fn stored(
    worker: &WorkerContext<'_>,
    (echo, key): (&Echo, &[u8]),
    outcome: StoreOutcome,
    value_len: usize,
    out: &mut Vec<u8>,
) {
    let (code, cas, value_len) = match outcome {
        StoreOutcome::Stored { .. } if echo.has(b'q') => return,
        StoreOutcome::Stored { cas, value_len } => (reply::CODE_DONE, cas, value_len),
        StoreOutcome::NotStored => (reply::CODE_NOT_STORED, 0, value_len),
        StoreOutcome::Exists => (reply::CODE_EXISTS, 0, value_len),
        StoreOutcome::NotFound => (reply::CODE_NOT_FOUND, 0, value_len),
        StoreOutcome::TooLarge => return out.extend_from_slice(reply::TOO_LARGE),
        StoreOutcome::OutOfMemory => return out.extend_from_slice(reply::NO_MEMORY_STORING),
    };
    out.extend_from_slice(code);
    for &letter in echo.letters() {
        match letter {
            b'O' => compose::flag_opaque(out, echo.opaque()),
            b'k' => compose::flag_key(out, echo.key_is_base64, key),
            b'c' => compose::flag_number(out, b'c', worker.shown_cas(cas)),
            b's' => compose::flag_number(out, b's', value_len),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn deleted(echo: &Echo, key: &[u8], outcome: DeleteOutcome, out: &mut Vec<u8>) {
    let code = match outcome {
        DeleteOutcome::Done if echo.has(b'q') => return,
        DeleteOutcome::Done => reply::CODE_DONE,
        DeleteOutcome::NotFound => reply::CODE_NOT_FOUND,
        DeleteOutcome::Exists => reply::CODE_EXISTS,
        DeleteOutcome::OutOfMemory => return out.extend_from_slice(reply::NO_MEMORY),
    };
    compose::bare_line(out, code, echo, key);
}

/// Appends the reply to arithmetic. `touch` is the expiry that it set, `initial_expiry` that of a number that it
/// created.
pub(crate) fn number(
    worker: &WorkerContext<'_>,
    (echo, key): (&Echo, &[u8]),
    outcome: ArithmeticOutcome,
    (touch, initial_expiry): (Option<Expiry>, Option<Expiry>),
    out: &mut Vec<u8>,
) {
    match outcome {
        ArithmeticOutcome::Value { .. } if echo.has(b'q') => {}
        ArithmeticOutcome::Value { value, cas, is_new, expiry_before } => {
            let vivify = initial_expiry.filter(|_| is_new);
            let lifetime = Lifetime { expiry: expiry_before, touch, vivify };
            let shown = (value, worker.shown_cas(cas));
            number_line((echo, key), shown, lifetime, worker.now, out);
        }
        ArithmeticOutcome::NotFound => compose::bare_line(out, reply::CODE_NOT_FOUND, echo, key),
        ArithmeticOutcome::Exists => compose::bare_line(out, reply::CODE_EXISTS, echo, key),
        ArithmeticOutcome::NotNumeric => out.extend_from_slice(reply::NOT_NUMERIC),
        ArithmeticOutcome::OutOfMemory if initial_expiry.is_some() => {
            out.extend_from_slice(reply::NO_MEMORY_FOR_NUMBER);
        }
        ArithmeticOutcome::OutOfMemory => out.extend_from_slice(reply::NO_MEMORY),
    }
}

/// Appends the reply to `me`: `ME <key> <name>=<value>*`.
pub(crate) fn examined(
    (echo, key): (&Echo, &[u8]),
    view: &ItemView<'_, '_>,
    cas_enabled: bool,
    now: Now,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"ME ");
    compose::key_bytes(out, echo.key_is_base64, key);
    let exp = ttl_seconds(view.expiry(), now).map_or(-1, i64::from);
    let la = view.last_access().age_at(now.ticks) / Ticks::PER_SECOND;
    let cas = if cas_enabled { view.cas() } else { 0 };
    let fetch = if view.fetched() { "yes" } else { "no" };
    let (cls, size) = (view.class().wire(), view.size_bytes());
    let fields =
        format_args!(" exp={exp} la={la} cas={cas} fetch={fetch} cls={cls} size={size}\r\n");
    out.write_fmt(fields).expect("a Vec takes every write");
}

fn number_line(
    (echo, key): (&Echo, &[u8]),
    (value, cas): (u64, u64),
    mut lifetime: Lifetime,
    now: Now,
    out: &mut Vec<u8>,
) {
    let shows_value = echo.has(b'v');
    if shows_value {
        let digit_count = value.checked_ilog10().map_or(1, |log| log as usize + 1);
        compose::value_code(out, digit_count);
    } else {
        out.extend_from_slice(reply::CODE_DONE);
    }
    for &letter in echo.letters() {
        match letter {
            b'c' => compose::flag_number(out, b'c', cas),
            b't' => compose::flag_optional(out, b't', ttl_seconds(lifetime.expiry, now)),
            b'T' | b'N' => lifetime.pass(letter),
            b'O' => compose::flag_opaque(out, echo.opaque()),
            b'k' => compose::flag_key(out, echo.key_is_base64, key),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if shows_value {
        write_number(out, value);
        out.extend_from_slice(b"\r\n");
    }
}

/// The expiry that flag `t` returns. It depends on the position of `t`: T and N change it for later flags.
struct Lifetime {
    expiry: Expiry,
    touch: Option<Expiry>,
    /// The expiry of an item that N created.
    vivify: Option<Expiry>,
}

impl Lifetime {
    /// Applies a flag, T or N, in the order of the request.
    fn pass(&mut self, letter: u8) {
        let changed = match letter {
            b'T' => self.touch,
            b'N' => self.vivify,
            _ => return,
        };
        self.expiry = changed.unwrap_or(self.expiry);
    }
}

fn ttl_seconds(expiry: Expiry, now: Now) -> Option<u32> {
    expiry.second().map(|end| end.0.saturating_sub(now.seconds.0))
}
