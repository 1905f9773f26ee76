//! The normalisation of replies: the only place that decides which parts of a reply may differ between two servers.
//!
//! | part | is compared |
//! |---|---|
//! | CAS values: word 5 of `VALUE` lines, the flag `c`, the field `cas` of `me`, bytes 16 to 23 of packets | two servers assign different numbers, so the n-th CAS value of one server and the n-th of the other must always appear at the same places: see `compare.rs` |
//! | the flag `t`, the field `exp` of `me` | may differ by two seconds, because the clocks of the servers do not advance at the same moment, plus the measured time between the moments at which the servers carried out the commands |
//! | the flag `l`, the fields `la`, `cls` and `size` of `me` | not compared: `docs/differences.md` lists that memcached rarely updates the time of the last access, and that classes and the sizes of items differ |
//! | values of statistics | not compared; the names are |
//! | the version | not compared |
//! | the setting `drop_privileges`, and those whose names begin with `ssl_` | left out, because memcached may be built without libseccomp and TLS |
//!
//! All other bytes must be equal.

use crate::keys::KEY_WITH_LINE_END;
use crate::step::Dialect;
use memchr::memmem;
use slabwise_protocol::binary::opcode;
use std::borrow::Cow;

/// The names, or their starts, of settings that memcached without TLS or libseccomp does not have.
const OPTIONAL_SETTINGS: [&[u8]; 2] = [b"ssl_", b"drop_privileges"];

/// True if the row of a setting, or its packet's body, may be missing.
fn is_optional_setting(row: &[u8]) -> bool {
    OPTIONAL_SETTINGS.iter().any(|name| row.starts_with(name))
}

/// A reply without the parts that may differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Normal {
    /// The reply, with a letter in place of each part that may differ.
    pub bytes: Vec<u8>,
    /// The CAS values in order, with the key if the reply names it.
    pub cas: Vec<(Option<Vec<u8>>, u64)>,
    /// The numbers of seconds, in order.
    pub seconds: Vec<i64>,
}

/// Returns a reply with another text for the key that contains a line end. memcached sends this key as it is, so the
/// end of its line would not be found.
fn without_key_with_line_end(reply: &[u8]) -> Cow<'_, [u8]> {
    let Some(at) = memmem::find(reply, KEY_WITH_LINE_END) else { return Cow::Borrowed(reply) };
    let rest = without_key_with_line_end(&reply[at + KEY_WITH_LINE_END.len()..]);
    Cow::Owned([&reply[..at], b"key-with-line-end", &rest].concat())
}

/// Normalises a reply.
pub fn normalise(dialect: Dialect, reply: &[u8]) -> Normal {
    let mut normal = Normal::default();
    match dialect {
        Dialect::Text => normal.add_lines(&without_key_with_line_end(reply)),
        Dialect::Binary => normal.add_packets(reply),
    }
    normal
}

impl Normal {
    /// Adds lines, and the values that follow some of them.
    fn add_lines(&mut self, mut rest: &[u8]) {
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            rest = after;
            let text = line.strip_suffix(b"\r\n").unwrap_or(line);
            let words: Vec<&[u8]> = text.split(|&byte| byte == b' ').collect();
            let value_len = match words[..] {
                [b"VALUE", _, _, len] => decimal(len),
                [b"VALUE", key, _, len, cas] => {
                    self.add_value_line_with_cas(&words[..4], key, cas);
                    rest = self.add_value(rest, decimal(len));
                    continue;
                }
                [b"VA", len, ..] => decimal(len),
                _ => None,
            };
            match words[..] {
                [b"VA" | b"HD" | b"EN" | b"NS" | b"EX" | b"NF", ..] => self.add_flags(&words),
                [b"ME", ..] => self.add_fields(&words),
                [b"STAT", name, ..] if is_optional_setting(name) => continue,
                [b"STAT", name, ..] => self.add_words(&[b"STAT", name, b"*"]),
                [b"VERSION", _] => self.add_words(&[b"VERSION", b"*"]),
                _ => self.bytes.extend_from_slice(text),
            }
            self.bytes.extend_from_slice(&line[text.len()..]);
            rest = self.add_value(rest, value_len);
        }
    }

    fn add_value_line_with_cas(&mut self, words: &[&[u8]], key: &[u8], cas: &[u8]) {
        self.add_words(words);
        match decimal(cas) {
            Some(number) => {
                self.cas.push((Some(key.to_vec()), number));
                self.bytes.extend_from_slice(b" #\r\n");
            }
            None => {
                self.bytes.push(b' ');
                self.bytes.extend_from_slice(cas);
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Adds a value of this length and its line end. Returns the bytes after it.
    fn add_value<'r>(&mut self, rest: &'r [u8], value_len: Option<u64>) -> &'r [u8] {
        let Some(value_len) = value_len.and_then(|len| usize::try_from(len).ok()) else {
            return rest;
        };
        let (value, after) = rest.split_at(value_len.saturating_add(2).min(rest.len()));
        self.bytes.extend_from_slice(value);
        after
    }

    fn add_words(&mut self, words: &[&[u8]]) {
        self.bytes.extend_from_slice(&words.join(&b' '));
    }

    /// Adds the words of a meta reply.
    fn add_flags(&mut self, words: &[&[u8]]) {
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                self.bytes.push(b' ');
            }
            match word.split_first() {
                Some((b'c', token)) if decimal(token).is_some() => {
                    self.cas.push((None, decimal(token).unwrap_or_default()));
                    self.bytes.extend_from_slice(b"c#");
                }
                Some((b't', token)) if decimal(token).is_some() => {
                    self.add_seconds(decimal(token));
                    self.bytes.extend_from_slice(b"t#");
                }
                Some((b'l', token)) if decimal(token).is_some() => {
                    self.bytes.extend_from_slice(b"l#");
                }
                _ => self.bytes.extend_from_slice(word),
            }
        }
    }

    /// Adds the words of a reply to `me`.
    fn add_fields(&mut self, words: &[&[u8]]) {
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                self.bytes.push(b' ');
            }
            let equals = word.iter().position(|&byte| byte == b'=').filter(|_| index > 1);
            let (name, value) =
                equals.map_or((&b""[..], *word), |at| (&word[..at], &word[at + 1..]));
            match (name, decimal(value)) {
                (b"exp", Some(number)) => self.add_seconds(Some(number)),
                // memcached shows a number of more than 31 bits as a negative number.
                (b"exp", None) if value != b"-1" => {
                    let number = value.strip_prefix(b"-").and_then(decimal);
                    let number = number.and_then(|number| 0i64.checked_sub_unsigned(number));
                    self.seconds.push(number.unwrap_or(i64::MIN));
                }
                (b"cas", Some(number)) => self.cas.push((None, number)),
                (b"la" | b"cls" | b"size", Some(_)) => {}
                _ => {
                    self.bytes.extend_from_slice(word);
                    continue;
                }
            }
            self.bytes.extend_from_slice(name);
            self.bytes.extend_from_slice(b"=#");
        }
    }

    fn add_seconds(&mut self, number: Option<u64>) {
        self.seconds.push(number.and_then(|number| number.try_into().ok()).unwrap_or(i64::MAX));
    }

    /// Adds packets.
    fn add_packets(&mut self, mut rest: &[u8]) {
        while let Some((head, after)) = rest.split_first_chunk::<24>() {
            let key_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let body_len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
            let cas: [u8; 8] = *head[16..].first_chunk().expect("a head has 24 bytes");
            let (body, after) = after.split_at(body_len.min(after.len()));
            self.cas.push((None, u64::from_be_bytes(cas)));
            let is_success = head[6..8] == [0, 0];
            rest = after;
            if is_success && head[1] == opcode::STAT && is_optional_setting(body) {
                continue;
            }
            if is_success && matches!(head[1], opcode::STAT | opcode::VERSION) {
                self.bytes.extend_from_slice(&head[..8]);
                self.bytes.extend_from_slice(&head[12..16]);
                self.bytes.extend_from_slice(&body[..key_len.min(body.len())]);
            } else {
                self.bytes.extend_from_slice(&head[..16]);
                self.bytes.extend_from_slice(body);
            }
        }
        self.bytes.extend_from_slice(rest);
    }
}

/// Parses a decimal number. Returns `None` if it does not fit into 64 bits, or if it is negative.
fn decimal(word: &[u8]) -> Option<u64> {
    let is_number = word.first().is_some_and(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::normalise;
    use crate::step::Dialect;

    #[test]
    fn only_the_variable_parts_of_lines_are_replaced() {
        let reply = b"VALUE a 5 3 77\r\nc1 \r\nEND\r\nVA 2 t100 c78 sx\r\nl5\r\nHD t-1 h0\r\n\
                      ME a exp=-1 la=3 cas=9 fetch=no cls=4 size=63\r\nVERSION 1.6.45\r\nERROR\r\n";
        let normal = normalise(Dialect::Text, reply);
        let expected = "VALUE a 5 3 #\r\nc1 \r\nEND\r\nVA 2 t# c# sx\r\nl5\r\nHD t-1 h0\r\n\
                        ME a exp=-1 la=# cas=# fetch=no cls=# size=#\r\nVERSION *\r\nERROR\r\n";
        assert_eq!(String::from_utf8_lossy(&normal.bytes), expected);
        assert_eq!(normal.cas, [(Some(b"a".to_vec()), 77), (None, 78), (None, 9)]);
        assert_eq!(normal.seconds, [100]);
    }

    #[test]
    fn the_cas_value_of_a_packet_is_replaced_and_its_body_is_not() {
        let mut reply = vec![0x81, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 6, 1, 2, 3, 4];
        reply.extend_from_slice(&55u64.to_be_bytes());
        reply.extend_from_slice(b"\0\0\0\x05ab");
        let normal = normalise(Dialect::Binary, &reply);
        assert_eq!(normal.bytes, [&reply[..16], &reply[24..]].concat());
        assert_eq!(normal.cas, [(None, 55)]);
    }
}
