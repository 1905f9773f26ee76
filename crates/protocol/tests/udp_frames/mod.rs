//! Invariants of UDP datagrams. The property test and the fuzz target check them.

use slabwise_protocol::udp::{
    DATAGRAM_LEN_MAX, HEADER_LEN, Header, PAYLOAD_LEN_MAX, datagram_count, receive,
};

/// Panics if an invariant does not hold for the input, first as a received datagram, and then as a message to send.
pub fn check(input: &[u8]) {
    let header = Header::parse(input);
    assert_eq!(header.is_some(), input.len() >= HEADER_LEN);
    if let Some(header) = header {
        assert_eq!(header.compose()[..6], input[..6], "composing a parsed header gives its bytes");
        assert_eq!(header.compose()[6..], [0, 0], "reserved bytes are sent as 0");
    }
    match receive(input) {
        Some((request_id, payload)) => {
            assert_eq!(
                header.map(|header| (header.request_id, header.total)),
                Some((request_id, 1))
            );
            assert_eq!(payload, &input[HEADER_LEN..]);
            assert!(!payload.is_empty());
        }
        None => {
            let is_part_of_request = header.is_some_and(|header| header.total != 1);
            assert!(is_part_of_request || input.len() <= HEADER_LEN);
        }
    }
    split_and_reassemble(input);
}

/// Splits a message into datagrams and reverses their order. Checks that a client gets the message back by sorting the
/// datagrams by their sequence numbers.
fn split_and_reassemble(message: &[u8]) {
    let total = datagram_count(message.len()).expect("the input needs at most 65,535 datagrams");
    let mut datagrams: Vec<Vec<u8>> = message
        .chunks(PAYLOAD_LEN_MAX)
        .zip(0..)
        .map(|(payload, sequence)| {
            [&Header { request_id: 7, sequence, total }.compose(), payload].concat()
        })
        .collect();
    assert_eq!(datagrams.len(), usize::from(total));
    assert!(datagrams.iter().all(|datagram| datagram.len() <= DATAGRAM_LEN_MAX));
    datagrams.reverse();
    datagrams.sort_by_key(|datagram| Header::parse(datagram).map(|header| header.sequence));
    let payloads = datagrams.iter().map(|datagram| &datagram[HEADER_LEN..]);
    assert_eq!(payloads.collect::<Vec<_>>().concat(), message);
}
