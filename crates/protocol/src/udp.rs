//! The header of UDP datagrams. Each datagram contains a header and then bytes of the protocol.
//!
//! ```text
//!   0         2          4         6          8
//!   | id      | sequence | total   | reserved | payload ...
//!     big-endian, 16 bits each
//! ```
//!
//! A request is one datagram that contains complete commands. A reply is a *message* of one or more datagrams, which
//! are numbered from 0. The header of each datagram contains the number of datagrams in the message and the id of the
//! request. The payloads of a message, in the order of their numbers, are the bytes that a reply by TCP would have.
//!
//! Invariants:
//! - No bytes make the parser panic.
//! - All datagrams of a message except the last are full.
//! - A message that needs more than 65,535 datagrams is refused, and never truncated.

/// The length of the header in bytes.
pub const HEADER_LEN: usize = 8;
/// The maximum length of a reply's datagram in bytes, including the header. Common networks transport a datagram of
/// this length without fragmentation.
pub const DATAGRAM_LEN_MAX: usize = 1_400;
/// The maximum length of the payload of a reply's datagram in bytes.
pub const PAYLOAD_LEN_MAX: usize = DATAGRAM_LEN_MAX - HEADER_LEN;

/// The header of a datagram. The two reserved bytes are sent as 0, and ignored when they are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The id of a request, which the client chooses. The reply repeats it.
    pub request_id: u16,
    /// The position of the datagram in its message, from 0.
    pub sequence: u16,
    /// The number of datagrams in the message.
    pub total: u16,
}

impl Header {
    /// Parses the header of a datagram. Returns `None` if the datagram is shorter than a header.
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

/// Returns the request id and the payload of a received datagram. The payload has at least one byte. As in memcached,
/// the sequence number is ignored. Returns `None` if the payload is empty, or if the request has several datagrams,
/// which the server does not support.
pub fn receive(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (header, payload) = (Header::parse(datagram)?, &datagram[HEADER_LEN..]);
    (header.total == 1 && !payload.is_empty()).then_some((header.request_id, payload))
}

/// Returns the number of datagrams that a message of `message_len` bytes needs, or `None` if the number is above
/// 65,535.
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
        let ignored = "the sequence number and the reserved bytes are ignored";
        assert_eq!(receive(b"\x01\x02\0\x09\0\x01\xff\xffx"), request, "{ignored}");
        assert_eq!(receive(b"\x01\x02\0\0\0\x02\0\0x"), None);
        assert_eq!(receive(b"\x01\x02\0\0\0\0\0\0x"), None);
        assert_eq!(receive(b"\x01\x02\0\0\x01\x01\0\0x"), None);
        for len in 0..=HEADER_LEN {
            assert_eq!(receive(&b"\x01\x02\0\0\0\x01\0\0"[..len]), None);
        }
    }

    #[test]
    fn the_number_of_datagrams_is_the_length_divided_by_the_payload_rounded_up() {
        assert_eq!(datagram_count(0), Some(0));
        assert_eq!(datagram_count(1), Some(1));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX), Some(1));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX + 1), Some(2));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX * 65_535), Some(65_535));
        assert_eq!(datagram_count(PAYLOAD_LEN_MAX * 65_535 + 1), None);
    }
}
