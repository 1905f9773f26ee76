//! Pinned items and reservations that a client holds between two operations.

use crate::oracle::show;
use slabwise_base::Random;
use slabwise_engine::{ItemMeta, Pinned, Reservation};

/// A pinned item and its bytes, which must not change while it is pinned.
pub struct HeldPin<'e> {
    pub key: Vec<u8>,
    pub expected: Vec<u8>,
    pub pin: Pinned<'e>,
}

impl HeldPin<'_> {
    /// Checks that the bytes of the pinned item have not changed.
    pub fn verify(&self) {
        assert_eq!(
            self.pin.value_len(),
            self.expected.len(),
            "invariant PINNED: the length of {} changed",
            show(&self.key)
        );
        let bytes: Vec<u8> = self.pin.value().flatten().copied().collect();
        assert!(
            bytes == self.expected,
            "invariant PINNED: the bytes of {} changed",
            show(&self.key)
        );
    }
}

/// A reservation, and the key, value and metadata of the item that it will become.
pub struct HeldReservation<'e> {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub meta: ItemMeta,
    pub reservation: Reservation<'e>,
}

impl<'e> HeldReservation<'e> {
    /// Writes at most `len` more bytes of the value, by `fill` or by `unfilled` and `advance`.
    pub fn fill(&mut self, len: usize, random: &mut Random) {
        let filled = self.reservation.filled();
        assert_eq!(
            filled + self.reservation.remaining(),
            self.value.len(),
            "invariant RESERVED: filled plus remaining is the length of the value"
        );
        let rest = &self.value[filled..];
        let rest = &rest[..rest.len().min(len)];
        let taken = if random.below(2) == 0 {
            self.reservation.fill(rest)
        } else {
            let slice = self.reservation.unfilled();
            let taken = slice.len().min(rest.len());
            slice[..taken].copy_from_slice(&rest[..taken]);
            self.reservation.advance(taken);
            taken
        };
        assert!(
            rest.is_empty() || taken > 0 || self.reservation.is_starved(),
            "invariant RESERVED: no byte was written, but the reservation is not starved"
        );
        assert_eq!(
            self.reservation.filled(),
            filled + taken,
            "invariant RESERVED: the written bytes are counted"
        );
    }

    /// Writes the rest of the value in pieces. Returns `None` if there is no memory for the value.
    pub fn complete(mut self, random: &mut Random) -> Option<HeldReservation<'e>> {
        while self.reservation.remaining() > 0 {
            let len = 1 + random.below(self.value.len() as u64) as usize;
            self.fill(len, random);
            if self.reservation.is_starved() {
                return None;
            }
        }
        assert!(
            self.reservation.unfilled().is_empty(),
            "invariant RESERVED: a complete reservation returns an empty buffer"
        );
        assert_eq!(self.reservation.value_len(), self.value.len());
        Some(self)
    }
}
