//! Writes the replies of the meta protocol.

use crate::ops::get::HitReply;
use crate::out::{Out, pin_if_large};
use crate::shared::WorkerContext;
use slabwise_base::{Expiry, Now};
use slabwise_engine::{ArithmeticOutcome, DeleteOutcome, GetEffects, ItemView, StoreOutcome};
use slabwise_protocol::meta::{Echo, compose, reply};
use slabwise_protocol::text::write_number;
use std::io::Write;

/// The data for the reply to an `mg` that finds an item.
pub(crate) struct Hit<'a> {
    pub(crate) echo: &'a Echo,
    /// The key in binary. A key that the client sent in base64 is decoded.
    pub(crate) key: &'a [u8],
    pub(crate) now: Now,
    /// False with `-C`. All CAS values are then shown as 0.
    pub(crate) cas_enabled: bool,
    /// The expiry that flag T set.
    pub(crate) touch: Option<Expiry>,
    /// The expiry that flag N gives to an item that this request creates.
    pub(crate) vivify: Option<Expiry>,
    /// The moment of flag R. One client is asked to recache an item that expires before this moment.
    pub(crate) recache: Option<Expiry>,
}

impl Hit<'_> {
    /// Appends the reply. If too many clients are being sent the item's large value already, the reply is an error.
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
            return HitReply::TooManyReaders;
        };
        compose::write_value_code(out.bytes(), view.value_len());
        let reply = self.write_flags(view, effects, out.bytes());
        out.push_value(view, pinned);
        out.bytes().extend_from_slice(b"\r\n");
        reply
    }

    /// Returns the CAS value that the reply shows.
    fn cas(&self, view: &ItemView<'_, '_>) -> u64 {
        if self.cas_enabled { view.cas() } else { 0 }
    }

    /// Appends the flags that the client requested, in the order of the request. Then appends Z if another client is
    /// recaching the item, X if the item is stale, and W if this client must recache it.
    fn write_flags(
        &self,
        view: &ItemView<'_, '_>,
        effects: GetEffects,
        out: &mut Vec<u8>,
    ) -> HitReply {
        let letters = self.echo.letters();
        // Most requests have only `v`, for which `write` has appended the code and the length.
        let mut must_recache = letters != b"v" && self.write_requested(letters, view, effects, out);
        let claimed = view.is_claimed();
        if claimed {
            compose::write_flag(out, b'Z');
        }
        if view.is_stale() {
            compose::write_flag(out, b'X');
            must_recache |= !claimed;
        }
        if must_recache {
            view.claim();
            compose::write_flag(out, b'W');
        }
        out.extend_from_slice(b"\r\n");
        if must_recache { HitReply::Recache } else { HitReply::Answered }
    }

    /// Appends the requested flags. Returns true if this client must recache the item.
    fn write_requested(
        &self,
        letters: &[u8],
        view: &ItemView<'_, '_>,
        effects: GetEffects,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut must_recache = false;
        let mut shown_expiry = self.shown_expiry(view, effects);
        for &letter in letters {
            match letter {
                b'T' => shown_expiry.apply_flag(letter),
                b'N' => {
                    shown_expiry.apply_flag(letter);
                    must_recache |= effects.is_new;
                }
                b'R' => {
                    let due = is_before(shown_expiry.expiry, self.recache);
                    must_recache |= due && !effects.is_new && !view.is_claimed();
                }
                b's' => compose::write_flag_number(out, b's', view.value_len()),
                b't' => compose::write_flag_optional(
                    out,
                    b't',
                    ttl_seconds(shown_expiry.expiry, self.now),
                ),
                b'c' => compose::write_flag_number(out, b'c', self.cas(view)),
                b'g' => {
                    compose::write_flag_optional(out, b'g', view.cost().map(|cost| cost.units()))
                }
                b'f' => compose::write_flag_number(out, b'f', view.client_flags()),
                b'l' => {
                    compose::write_flag_number(out, b'l', idle_seconds(view, self.now));
                }
                b'h' => compose::write_flag_number(out, b'h', u8::from(view.fetched())),
                b'O' => compose::write_flag_opaque(out, self.echo.opaque()),
                b'k' => compose::write_flag_key(out, self.echo.key_is_base64, self.key),
                _ => {}
            }
        }
        must_recache
    }

    /// Returns the expiry that the item had before the request, and the changes that the flags T and N make to it.
    fn shown_expiry(&self, view: &ItemView<'_, '_>, effects: GetEffects) -> ShownExpiry {
        let touches = self.touch.is_some();
        let expiry = if touches || effects.is_new { effects.expiry_before } else { view.expiry() };
        let vivify = self.vivify.filter(|_| effects.is_new);
        ShownExpiry { expiry, touch: self.touch, vivify }
    }
}

/// True if the item expires before `moment`. False if the item never expires or there is no moment.
fn is_before(expiry: Expiry, moment: Option<Expiry>) -> bool {
    let moment = moment.and_then(Expiry::second);
    expiry.second().is_some_and(|end| moment.is_some_and(|moment| end < moment))
}

/// Appends the reply to an `mg` that found no item.
pub(crate) fn write_miss(echo: &Echo, key: &[u8], out: &mut Vec<u8>) {
    if !echo.has(b'q') {
        compose::write_line_without_item(out, reply::CODE_MISS, echo, key);
    }
}

/// Appends the reply to an `ms`. `value_len` is the length of the received value, which flag `s` shows if the store
/// failed.
pub(crate) fn write_store(
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
            b'O' => compose::write_flag_opaque(out, echo.opaque()),
            b'k' => compose::write_flag_key(out, echo.key_is_base64, key),
            b'c' => compose::write_flag_number(out, b'c', worker.shown_cas(cas)),
            b's' => compose::write_flag_number(out, b's', value_len),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the reply to an `md`.
pub(crate) fn write_delete(echo: &Echo, key: &[u8], outcome: DeleteOutcome, out: &mut Vec<u8>) {
    let code = match outcome {
        DeleteOutcome::Done if echo.has(b'q') => return,
        DeleteOutcome::Done => reply::CODE_DONE,
        DeleteOutcome::NotFound => reply::CODE_NOT_FOUND,
        DeleteOutcome::Exists => reply::CODE_EXISTS,
        DeleteOutcome::OutOfMemory => return out.extend_from_slice(reply::NO_MEMORY),
    };
    compose::write_line_without_item(out, code, echo, key);
}

/// Appends the reply to an `ma`. `touch` is the expiry that flag T set. `initial_expiry` is the expiry that flag N gave
/// to a number that this request created.
pub(crate) fn write_arithmetic(
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
            let shown_expiry = ShownExpiry { expiry: expiry_before, touch, vivify };
            let shown = (value, worker.shown_cas(cas));
            write_number_reply((echo, key), shown, shown_expiry, worker.now, out);
        }
        ArithmeticOutcome::NotFound => {
            compose::write_line_without_item(out, reply::CODE_NOT_FOUND, echo, key)
        }
        ArithmeticOutcome::Exists => {
            compose::write_line_without_item(out, reply::CODE_EXISTS, echo, key)
        }
        ArithmeticOutcome::NotNumeric => out.extend_from_slice(reply::NOT_NUMERIC),
        ArithmeticOutcome::OutOfMemory if initial_expiry.is_some() => {
            out.extend_from_slice(reply::NO_MEMORY_FOR_NUMBER);
        }
        ArithmeticOutcome::OutOfMemory => out.extend_from_slice(reply::NO_MEMORY),
    }
}

/// Appends the reply to `me`: `ME <key> <name>=<value>*`.
pub(crate) fn write_examine(
    (echo, key): (&Echo, &[u8]),
    view: &ItemView<'_, '_>,
    cas_enabled: bool,
    now: Now,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"ME ");
    compose::write_key_bytes(out, echo.key_is_base64, key);
    let exp = ttl_seconds(view.expiry(), now).map_or(-1, i64::from);
    let la = idle_seconds(view, now);
    let cas = if cas_enabled { view.cas() } else { 0 };
    let fetch = if view.fetched() { "yes" } else { "no" };
    let (cls, size) = (view.class().wire(), view.size_bytes());
    let fields =
        format_args!(" exp={exp} la={la} cas={cas} fetch={fetch} cls={cls} size={size}\r\n");
    out.write_fmt(fields).expect("a write to a Vec cannot fail");
}

/// Appends the reply to an `ma` that succeeded: the code, the requested flags, and the number if flag `v` requests it.
fn write_number_reply(
    (echo, key): (&Echo, &[u8]),
    (value, cas): (u64, u64),
    mut shown_expiry: ShownExpiry,
    now: Now,
    out: &mut Vec<u8>,
) {
    let shows_value = echo.has(b'v');
    if shows_value {
        let digit_count = value.checked_ilog10().map_or(1, |log| log as usize + 1);
        compose::write_value_code(out, digit_count);
    } else {
        out.extend_from_slice(reply::CODE_DONE);
    }
    for &letter in echo.letters() {
        match letter {
            b'c' => compose::write_flag_number(out, b'c', cas),
            b't' => compose::write_flag_optional(out, b't', ttl_seconds(shown_expiry.expiry, now)),
            b'T' | b'N' => shown_expiry.apply_flag(letter),
            b'O' => compose::write_flag_opaque(out, echo.opaque()),
            b'k' => compose::write_flag_key(out, echo.key_is_base64, key),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if shows_value {
        write_number(out, value);
        out.extend_from_slice(b"\r\n");
    }
}

/// The expiry that flag `t` shows. It depends on the position of `t` in the request: the flags T and N change the
/// expiry for the flags after them.
struct ShownExpiry {
    /// The expiry that a `t` at this position shows.
    expiry: Expiry,
    /// The expiry that flag T sets.
    touch: Option<Expiry>,
    /// The expiry that flag N gave to an item that this request created.
    vivify: Option<Expiry>,
}

impl ShownExpiry {
    /// Changes the expiry as flag T or N does. The caller passes the flags in the order of the request.
    fn apply_flag(&mut self, letter: u8) {
        let changed = match letter {
            b'T' => self.touch,
            b'N' => self.vivify,
            _ => return,
        };
        self.expiry = changed.unwrap_or(self.expiry);
    }
}

/// Returns the number of seconds since the last access to an item before this lookup.
fn idle_seconds(view: &ItemView<'_, '_>, now: Now) -> u32 {
    now.seconds.0.saturating_sub(view.last_access().0)
}

/// Returns the time until the expiry, in seconds; `None` if the item never expires.
fn ttl_seconds(expiry: Expiry, now: Now) -> Option<u32> {
    expiry.second().map(|end| end.0.saturating_sub(now.seconds.0))
}
