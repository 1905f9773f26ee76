//! Looking ahead in a pipelined batch: the keys of the next few requests, so that their look-ups wait for
//! memory together and not one after the other.
//!
//! What is found here is a hint and no more: a key that is wrong, missing or on no command at all costs
//! a few cycles. So the reading is rough on purpose, and knows the commands that are sent in batches, and
//! packets.

use slabwise_protocol::binary::{HEAD_LEN, REQUEST_MAGIC};

/// So many requests are looked at together: about as many lines as a core can wait for at a time.
pub(super) const KEYS_MAX: usize = 8;

/// Keys of requests to come.
pub(super) struct Ahead<'a> {
    keys: [&'a [u8]; KEYS_MAX],
    count: usize,
    /// Bytes of the input that were looked at.
    pub(super) len: usize,
}

impl<'a> Ahead<'a> {
    /// What the next requests in `input` ask for, as far as that is plain.
    pub(super) fn of(input: &'a [u8]) -> Ahead<'a> {
        let mut ahead = Ahead { keys: [b""; KEYS_MAX], count: 0, len: 0 };
        while ahead.count < KEYS_MAX {
            let Some((key, len)) = request(&input[ahead.len..]) else { break };
            ahead.keys[ahead.count] = key;
            ahead.count += 1;
            ahead.len += len;
        }
        ahead
    }

    pub(super) fn keys(&self) -> &[&'a [u8]] {
        &self.keys[..self.count]
    }
}

/// The first key of the request that `input` begins with, and the request's length.
fn request(input: &[u8]) -> Option<(&[u8], usize)> {
    let (name_len, value_len): (usize, fn(&[u8]) -> usize) = match input.get(..4)? {
        b"get " => (4, |_| 0),
        b"set " => (4, |line| last_number(line) + 2),
        [b'm', b'g', b' ', _] => (3, |_| 0),
        [b'm', b's', b' ', _] => (3, |line| second_number(line) + 2),
        [REQUEST_MAGIC, ..] => return packet(input),
        _ => return None,
    };
    let end = memchr::memchr(b'\n', input)?;
    let line = input.get(name_len..end)?;
    let key_len = line.iter().position(|&byte| byte <= b' ').unwrap_or(line.len());
    let len = end + 1 + value_len(line);
    (len <= input.len()).then_some((&line[..key_len], len))
}

/// The number that is a line's second word.
fn second_number(line: &[u8]) -> usize {
    let word = line.iter().skip_while(|&&byte| byte != b' ').skip_while(|&&byte| byte == b' ');
    let digits = word.take_while(|byte| byte.is_ascii_digit()).take(9);
    digits.fold(0, |sum, byte| sum * 10 + usize::from(byte - b'0'))
}

/// The same for a packet: whatever its command, its key lies in the same place.
fn packet(input: &[u8]) -> Option<(&[u8], usize)> {
    let (head, body) = input.split_first_chunk::<HEAD_LEN>()?;
    let key_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let extras_len = usize::from(head[4]);
    let body_len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
    let key = body.get(..body_len)?.get(extras_len..extras_len + key_len)?;
    Some((key, HEAD_LEN + body_len))
}

/// The number that a line ends with, before its carriage return.
fn last_number(line: &[u8]) -> usize {
    let digits = line.iter().rev().skip_while(|byte| byte.is_ascii_whitespace());
    let digits = digits.take_while(|byte| byte.is_ascii_digit()).take(9);
    digits.fold((0, 1), |(sum, unit), byte| (sum + usize::from(byte - b'0') * unit, unit * 10)).0
}

#[cfg(test)]
mod tests {
    use super::{Ahead, KEYS_MAX};

    #[test]
    fn keys_of_a_batch_are_found_in_order() {
        let input = b"get a\r\nset bb 1 0 3\r\nx\ny\r\nget ccc d\r\nget e\r\n";
        let ahead = Ahead::of(input);
        assert_eq!(ahead.keys(), [&b"a"[..], b"bb", b"ccc", b"e"]);
        assert_eq!(ahead.len, input.len());
        let input = b"mg a v\r\nms bb 3 T0 k\r\nx\ny\r\nmg ccc\r\nget e\r\n";
        let ahead = Ahead::of(input);
        assert_eq!(ahead.keys(), [&b"a"[..], b"bb", b"ccc", b"e"]);
        assert_eq!(ahead.len, input.len());
    }

    #[test]
    fn it_stops_where_a_request_is_not_plain_or_not_whole() {
        assert_eq!(Ahead::of(b"get a\r\ndelete b\r\nget c\r\n").keys(), [b"a"]);
        assert_eq!(Ahead::of(b"get a\r\nget b").keys(), [b"a"]);
        assert_eq!(Ahead::of(b"set a 0 0 99\r\nshort\r\n").keys(), [] as [&[u8]; 0]);
        assert_eq!(Ahead::of(b"get ").keys(), [] as [&[u8]; 0]);
        assert_eq!(Ahead::of(b"mg \n").keys(), [b""]);
        assert_eq!(Ahead::of(b"mn\r\nmg a\r\n").keys(), [] as [&[u8]; 0]);
        assert_eq!(Ahead::of(b"ms a 99 T0\r\nshort\r\n").keys(), [] as [&[u8]; 0]);
        let get = b"\x80\0\0\x02\0\0\0\0\0\0\0\x02opaqcasvalueab";
        let set = b"\x80\x01\0\x01\x02\0\0\0\0\0\0\x05opaqcasvaluexxkvv";
        let packets = [&get[..], set, &get[..25]].concat();
        let ahead = Ahead::of(&packets);
        assert_eq!(ahead.keys(), [&b"ab"[..], b"k"]);
        let many = b"get a\r\n".repeat(KEYS_MAX + 1);
        assert_eq!(Ahead::of(&many).keys().len(), KEYS_MAX);
    }
}
