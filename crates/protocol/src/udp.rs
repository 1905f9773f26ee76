//! The header of UDP datagrams, which precedes the protocol's bytes.
//!
//! ```text
//!   0         2          4         6          8
//!   | id      | sequence | total   | reserved | payload ...
//!     big-endian, 16 bits each
//! ```
//!
//! A request is one datagram with complete commands. A reply is a *message* of one or more datagrams, numbered from 0.
//! Each of them states the number of datagrams and the request's id. Their payloads, in order, are the bytes that TCP
//! would carry.
//!
//! Invariants: no bytes make the parser panic. All datagrams of a message but the last are full. A message of more
//! datagrams than can be numbered is refused, and never truncated.

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 8;
/// The length of a reply's datagram with its header in bytes. Common networks transport it without fragmentation.
pub const DATAGRAM_LEN_MAX: usize = 1_400;
/// The length of the payload of a reply's datagram in bytes.
pub const PAYLOAD_LEN_MAX: usize = DATAGRAM_LEN_MAX - HEADER_LEN;

/// The header of a datagram. Its reserved bytes are sent as 0 and ignored when received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The client's own number for its request; a reply repeats it.
    pub request_id: u16,
    /// The number of this datagram in the message, from 0.
    pub sequence: u16,
    /// The number of datagrams of the message.
    pub total: u16,
}

impl Header {
    /// Parses the header of a datagram; returns `None` if the datagram is too short.
    pub fn parse(datagram: &[u8]) -> Option<Header> {
        let &[id_high, id_low, sequence_high, sequence_low, total_high, total_low, _, _] =
            datagram.first_chunk::<HEADER_LEN>()?;
        Some(Header {
            request_id: u16::from_be_bytes([id_high, id_low]),
            sequence: u16::from_be_bytes([sequence_high, sequence_low]),
            total: u16::from_be_bytes([total_high, total_low]),
        })
    }

    /// Returns the bytes of the header.
    pub fn compose(self) -> [u8; HEADER_LEN] {
        let [id_high, id_low] = self.request_id.to_be_bytes();
        let [sequence_high, sequence_low] = self.sequence.to_be_bytes();
        let [total_high, total_low] = self.total.to_be_bytes();
        [id_high, id_low, sequence_high, sequence_low, total_high, total_low, 0, 0]
    }
}

/// Returns the id and the commands (at least one byte) of a request's datagram. As in memcached, only the id and the
/// total of the header are used. Returns `None` for a datagram without commands, and for a part of a request of several
/// datagrams, which is not supported.
pub fn receive(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (header, payload) = (Header::parse(datagram)?, &datagram[HEADER_LEN..]);
    (header.total == 1 && !payload.is_empty()).then_some((header.request_id, payload))
}

/// Returns the number of datagrams of a message of `message_len` bytes, or `None` if they cannot be numbered.
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
    fn a_request_is_one_datagram_with_a_payload() {
        let request = Some((258, &b"x"[..]));
        assert_eq!(receive(b"\x01\x02\0\0\0\x01\0\0x"), request);
        assert_eq!(receive(b"\x01\x02\0\x09\0\x01\xff\xffx"), request, "ignored fields");
        assert_eq!(receive(b"\x01\x02\0\0\0\x02\0\0x"), None);
        assert_eq!(receive(b"\x01\x02\0\0\0\0\0\0x"), None);
        assert_eq!(receive(b"\x01\x02\0\0\x01\x01\0\0x"), None);
        for len in 0..=HEADER_LEN {
            assert_eq!(receive(&b"\x01\x02\0\0\0\x01\0\0"[..len]), None);
        }
    }

    #[test]
    fn the_number_of_datagrams_is_that_of_payloads_rounded_up() {
        assert_eq!(datagram_count(0), Some(0));
        assert_eq!(datagram_count(1), Some(1));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX), Some(1));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX + 1), Some(2));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX * 65_535), Some(65_535));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX * 65_535 + 1), None);
    }
}
