//! The frame of a datagram: what stands before the protocol's bytes when they travel by UDP.
//!
//! ```text
//!   0         2          4         6          8
//!   | id      | sequence | total   | reserved | payload ...
//!     big-endian, 16 bits each
//! ```
//!
//! A request is one datagram: its commands are complete in it. A reply is a *message*: as many datagrams
//! as it needs, numbered from 0, each saying how many there are and whose id it answers; in order of their
//! numbers their payloads are what TCP would have carried.
//!
//! Invariants: any bytes are parsed without a panic; the datagrams of a message are all full but the last; what
//! cannot be numbered is refused as a whole and never cut.

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// Bytes of a reply's datagram, its header included: what passes every common network unfragmented.
pub const DATAGRAM_LEN_MAX: usize = 1_400;
/// Bytes of the message that a reply's datagram carries.
pub const PAYLOAD_LEN_MAX: usize = DATAGRAM_LEN_MAX - HEADER_LEN;

/// The header of a datagram. Its reserved bytes are sent as 0 and not looked at when received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The client's own number for its request; a reply repeats it.
    pub request_id: u16,
    /// Which datagram of the message this is, from 0.
    pub sequence: u16,
    /// How many datagrams the message has.
    pub total: u16,
}

impl Header {
    /// The header that a datagram begins with; `None` if it is too short to have one.
    pub fn parse(datagram: &[u8]) -> Option<Header> {
        let &[id_high, id_low, sequence_high, sequence_low, total_high, total_low, _, _] =
            datagram.first_chunk::<HEADER_LEN>()?;
        Some(Header {
            request_id: u16::from_be_bytes([id_high, id_low]),
            sequence: u16::from_be_bytes([sequence_high, sequence_low]),
            total: u16::from_be_bytes([total_high, total_low]),
        })
    }

    /// The bytes of the header.
    pub fn compose(self) -> [u8; HEADER_LEN] {
        let [id_high, id_low] = self.request_id.to_be_bytes();
        let [sequence_high, sequence_low] = self.sequence.to_be_bytes();
        let [total_high, total_low] = self.total.to_be_bytes();
        [id_high, id_low, sequence_high, sequence_low, total_high, total_low, 0, 0]
    }
}

/// The number that replies to a request's datagram must bear, and its commands, a byte at least. Of the header only id
/// and total count, as in memcached. `None`: nobody asked anything, or it is a part of a request of several datagrams,
/// which no server puts together.
pub fn receive(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (header, payload) = (Header::parse(datagram)?, &datagram[HEADER_LEN..]);
    (header.total == 1 && !payload.is_empty()).then_some((header.request_id, payload))
}

/// How many datagrams a message of `message_len` bytes takes; `None` if it has more than can be numbered.
pub fn datagram_count(message_len: usize) -> Option<u16> {
    u16::try_from(message_len.div_ceil(PAYLOAD_LEN_MAX)).ok()
}

#[cfg(test)]
mod tests {
    use super::{HEADER_LEN, Header, PAYLOAD_LEN_MAX, datagram_count, receive};

    #[test]
    fn a_header_is_four_big_endian_numbers() {
        let header = Header { request_id: 0x0102, sequence: 0x0304, total: 0x0506 };
        assert_eq!(header.compose(), [1, 2, 3, 4, 5, 6, 0, 0]);
        assert_eq!(Header::parse(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), Some(header));
        assert_eq!(Header::parse(&[0; HEADER_LEN - 1]), None);
    }

    #[test]
    fn a_request_is_one_datagram_with_something_in_it() {
        let request = Some((258, &b"x"[..]));
        assert_eq!(receive(b"\x01\x02\0\0\0\x01\0\0x"), request);
        assert_eq!(receive(b"\x01\x02\0\x09\0\x01\xff\xffx"), request, "what does not count");
        assert_eq!(receive(b"\x01\x02\0\0\0\x02\0\0x"), None);
        assert_eq!(receive(b"\x01\x02\0\0\0\0\0\0x"), None);
        assert_eq!(receive(b"\x01\x02\0\0\x01\x01\0\0x"), None);
        for len in 0..=HEADER_LEN {
            assert_eq!(receive(&b"\x01\x02\0\0\0\x01\0\0"[..len]), None);
        }
    }

    #[test]
    fn a_message_has_as_many_datagrams_as_it_fills() {
        assert_eq!(datagram_count(0), Some(0));
        assert_eq!(datagram_count(1), Some(1));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX), Some(1));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX + 1), Some(2));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX * 65_535), Some(65_535));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX * 65_535 + 1), None);
    }
}
