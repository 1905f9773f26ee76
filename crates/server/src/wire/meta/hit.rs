//! `mg` of an item that is there.

use super::lifetime::Lifetime;
use crate::ops::get::{PINNED_VALUE_LEN_MIN, Shown};
use crate::out::Out;
use slabwise_base::{Expiry, Now, Ticks};
use slabwise_engine::{ItemView, Met, Pinned};
use slabwise_protocol::meta::{Echo, compose, reply};

pub(crate) struct Hit<'a> {
    pub(crate) echo: &'a Echo,
    /// Decoded, if it was sent in base64.
    pub(crate) key: &'a [u8],
    pub(crate) now: Now,
    pub(crate) cas_enabled: bool,
    pub(crate) touch: Option<Expiry>,
    /// An item that ends before this is to be stored anew.
    pub(crate) recache: Option<Expiry>,
}

impl Hit<'_> {
    #[inline]
    pub(crate) fn write<'e>(&self, view: &ItemView<'_, 'e>, met: Met, out: &mut Out<'e>) -> Shown {
        let value_len = view.value_len();
        let shows_value = self.echo.has(b'v') && self.echo.unless_cas != Some(self.cas(view));
        if !shows_value {
            out.bytes().extend_from_slice(reply::CODE_DONE);
            return self.write_flags(view, met, out.bytes());
        }
        let mut pinned: Option<Pinned<'e>> = None;
        if value_len >= PINNED_VALUE_LEN_MIN {
            pinned = view.pin();
            if pinned.is_none() {
                // Copies of it would be memory without a bound.
                out.bytes().extend_from_slice(reply::TOO_MANY_READERS);
                return Shown::PassedOver;
            }
        }
        compose::value_code(out.bytes(), value_len);
        let wins = self.write_flags(view, met, out.bytes());
        match pinned {
            Some(pinned) => out.push_pinned(pinned),
            None => view.copy_value(out.bytes()),
        }
        out.bytes().extend_from_slice(b"\r\n");
        wins
    }

    fn cas(&self, view: &ItemView<'_, '_>) -> u64 {
        if self.cas_enabled { view.cas() } else { 0 }
    }

    /// The flags of the reply, in the order of the request's, and what else the client learns.
    fn write_flags(&self, view: &ItemView<'_, '_>, met: Met, out: &mut Vec<u8>) -> Shown {
        let letters = self.echo.letters();
        // Of most requests: `v` alone, which is answered already.
        let mut wins = letters != b"v" && self.write_asked(letters, view, met, out);
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
        if wins { Shown::Recache } else { Shown::Answered }
    }

    /// The flags that were asked for. True: the client is to store the item anew.
    fn write_asked(
        &self,
        letters: &[u8],
        view: &ItemView<'_, '_>,
        met: Met,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut wins = false;
        let mut lifetime = self.lifetime(view, met);
        for &letter in letters {
            match letter {
                b'T' => lifetime.pass(letter),
                b'N' => {
                    lifetime.pass(letter);
                    wins |= met.is_new;
                }
                b'R' => {
                    let due = is_before(lifetime.expiry, self.recache);
                    wins |= due && !met.is_new && !view.is_claimed();
                }
                b's' => compose::flag_number(out, b's', view.value_len()),
                b't' => compose::flag_ttl(out, lifetime.ttl_seconds(self.now)),
                b'c' => compose::flag_number(out, b'c', self.cas(view)),
                b'g' => compose::flag_cost(out, view.cost()),
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

    /// When the item ends, before the first flag has changed that.
    fn lifetime(&self, view: &ItemView<'_, '_>, met: Met) -> Lifetime {
        let touches = self.touch.is_some();
        let expiry = if touches || met.is_new { met.expiry_before } else { view.expiry() };
        let vivify = met.is_new.then(|| view.expiry());
        Lifetime { expiry, touch: self.touch, vivify }
    }
}

/// Whether an item ends, and before a moment.
fn is_before(expiry: Expiry, moment: Option<Expiry>) -> bool {
    let moment = moment.and_then(Expiry::second);
    expiry.second().is_some_and(|end| moment.is_some_and(|moment| end < moment))
}
