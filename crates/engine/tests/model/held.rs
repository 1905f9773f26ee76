//! What a connection may hold on to between two operations: pinned items and open reservations.

use crate::oracle::show;
use slabwise_base::Random;
use slabwise_engine::{ItemMeta, Pinned, Reservation};

/// A pinned item and the bytes it had; they must not change while it is held.
pub struct HeldPin<'e> {
    pub key: Vec<u8>,
    pub expected: Vec<u8>,
    pub pin: Pinned<'e>,
}

impl HeldPin<'_> {
    pub fn verify(&self) {
        assert_eq!(self.pin.value_len(), self.expected.len(), "law PINNED: {}", show(&self.key));
        let bytes: Vec<u8> = self.pin.value().flatten().copied().collect();
        assert!(bytes == self.expected, "law PINNED: the bytes of {} changed", show(&self.key));
    }
}

/// An open reservation, the value that it is to hold, and how much of it is in.
pub struct HeldReservation<'e> {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub meta: ItemMeta,
    pub reservation: Reservation<'e>,
}

impl<'e> HeldReservation<'e> {
    /// Puts in at most `len` more bytes, by one of the two ways.
    pub fn fill(&mut self, len: usize, random: &mut Random) {
        let filled = self.reservation.filled();
        assert_eq!(
            filled + self.reservation.remaining(),
            self.value.len(),
            "law RESERVED: filled and remaining make the value"
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
            "law RESERVED: there is room, yet nothing fits"
        );
        assert_eq!(self.reservation.filled(), filled + taken, "law RESERVED: the fill counts");
    }

    /// Puts in all that is left, in pieces; `None` if memory runs out on the way.
    pub fn complete(mut self, random: &mut Random) -> Option<HeldReservation<'e>> {
        while self.reservation.remaining() > 0 {
            let len = 1 + random.below(self.value.len() as u64) as usize;
            self.fill(len, random);
            if self.reservation.is_starved() {
                return None;
            }
        }
        assert!(self.reservation.unfilled().is_empty(), "law RESERVED: full means no room");
        assert_eq!(self.reservation.value_len(), self.value.len());
        Some(self)
    }
}
