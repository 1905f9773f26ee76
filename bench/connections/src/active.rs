//! An active client: it stores and gets its own keys, one request at a time, and checks every reply.
//!
//! A client knows the last value of each of its keys, and no other client changes them. So a hit must have exactly this
//! value. A miss is possible only if the server has evicted the item, or refused to store it.

use crate::link::{Link, Received};
use slabwise_base::Random;
use slabwise_client::reply::{self, Parsed, Reply};
use slabwise_client::request;

/// The number of keys of a client.
const KEYS: usize = 4;
/// Every request whose random number below this number is 0 is a set.
const SET_EVERY: u64 = 4;

/// Ranges of value lengths, each with its share of all values in percent. Values of 16 KiB and more are sent from the
/// cache without a copy, and values of more than 64 KiB arrive in pieces.
const LENGTHS: [(u64, std::ops::Range<u64>); 4] =
    [(60, 10..200), (30, 200..4_096), (9, 4_096..32_768), (1, 32_768..262_144)];
/// The maximum length of a value in bytes.
const VALUE_LEN_MAX: usize = 262_144;
/// The number of different bytes from which values are taken.
const PATTERN_LEN: usize = 1 << 20;

/// Random bytes. A value is a part of them.
pub struct Pattern(Vec<u8>);

/// A value: its position in the pattern, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    start: usize,
    len: usize,
}

impl Pattern {
    pub fn new(random: &mut Random) -> Pattern {
        Pattern((0..PATTERN_LEN + VALUE_LEN_MAX).map(|_| random.next_u64() as u8).collect())
    }

    /// Returns a random value.
    fn draw(&self, random: &mut Random) -> Value {
        let mut percent = random.below(100);
        let (_, lengths) = LENGTHS
            .iter()
            .find(|(share, _)| match percent.checked_sub(*share) {
                None => true,
                Some(rest) => {
                    percent = rest;
                    false
                }
            })
            .expect("the shares add up to 100");
        let len = lengths.start + random.below(lengths.end - lengths.start);
        Value { start: random.below(PATTERN_LEN as u64) as usize, len: len as usize }
    }

    fn bytes(&self, value: Value) -> &[u8] {
        &self.0[value.start..value.start + value.len]
    }
}

/// An active client.
pub struct Active {
    link: Link,
    /// The number of the client, which its keys contain.
    number: usize,
    random: Random,
    /// The value of each key; `None` if the key has none.
    values: [Option<Value>; KEYS],
    /// The request without a complete reply.
    pending: Option<Pending>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// The time at which the request was sent, in nanoseconds.
    sent_nanos: u64,
    /// The index of its key.
    key: usize,
    /// The value that the request stores; `None` for a get.
    stored: Option<Value>,
}

/// A complete and correct reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Stored,
    Hit,
    /// The key has no item, although a value was stored.
    Miss,
}

impl Active {
    pub fn new(link: Link, number: usize, seed: u64) -> Active {
        Active { link, number, random: Random::new(seed), values: [None; KEYS], pending: None }
    }

    /// True if a reply is missing.
    pub fn is_waiting(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns a random pause with this mean, in nanoseconds: from no pause to twice the mean.
    pub fn pause_nanos(&mut self, mean_nanos: u64) -> u64 {
        self.random.below(2 * mean_nanos)
    }

    /// Sends the next request at this time.
    pub fn begin(&mut self, pattern: &Pattern, sent_nanos: u64) -> Result<(), String> {
        assert!(self.pending.is_none(), "a client has one request at a time");
        let key = self.random.below(KEYS as u64) as usize;
        let sets = self.values[key].is_none() || self.random.below(SET_EVERY) == 0;
        let stored = sets.then(|| pattern.draw(&mut self.random));
        let name = self.key(key);
        let out = self.link.queue();
        match stored {
            None => request::get(out, name.as_bytes()),
            Some(value) => {
                request::set_line(out, name.as_bytes(), None, value.len as u32);
                out.extend_from_slice(pattern.bytes(value));
                request::end_value(out);
            }
        }
        self.pending = Some(Pending { sent_nanos, key, stored });
        self.link.send().map_err(|error| format!("cannot send: {error}"))
    }

    /// Sends and receives what is possible. Returns the reply if it is complete, and the time at which its request was
    /// sent. An error describes a wrong reply or the end of the connection.
    pub fn progress(
        &mut self,
        pattern: &Pattern,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<(Answer, u64)>, String> {
        self.link.send().map_err(|error| format!("cannot send: {error}"))?;
        let received =
            self.link.receive(buffer).map_err(|error| format!("cannot receive: {error}"))?;
        let answer = self.take_answer(pattern)?;
        if received == Received::Closed {
            return Err("the server closed the connection".to_owned());
        }
        Ok(answer)
    }

    /// Removes a complete reply from the received bytes, and checks it.
    fn take_answer(&mut self, pattern: &Pattern) -> Result<Option<(Answer, u64)>, String> {
        let bytes = self.link.received();
        if bytes.is_empty() {
            return Ok(None);
        }
        let Some(pending) = self.pending else {
            return Err(format!("bytes without a request: {}", excerpt(bytes)));
        };
        let (reply, len) = match reply::parse(bytes) {
            Parsed::Incomplete(_) => return Ok(None),
            Parsed::Reply(reply, len) => (reply, len),
        };
        if len != bytes.len() {
            return Err(format!("bytes after the reply: {}", excerpt(&bytes[len..])));
        }
        let expected = self.values[pending.key];
        let answer = match (reply, pending.stored) {
            (Reply::Stored, Some(_)) => Answer::Stored,
            (Reply::Miss, None) => Answer::Miss,
            (Reply::Hit { key, value }, None) => {
                let is_same = expected.is_some_and(|expected| pattern.bytes(expected) == value);
                if key != self.key(pending.key).as_bytes() || !is_same {
                    let key = key.escape_ascii();
                    let len = value.len();
                    return Err(format!(
                        "a wrong value of {len} bytes for {key}, not {expected:?}"
                    ));
                }
                Answer::Hit
            }
            _ => return Err(format!("an unexpected reply: {}", excerpt(bytes))),
        };
        self.link.consume(len);
        match answer {
            Answer::Stored => self.values[pending.key] = pending.stored,
            Answer::Miss => self.values[pending.key] = None,
            Answer::Hit => {}
        }
        self.pending = None;
        Ok(Some((answer, pending.sent_nanos)))
    }

    fn key(&self, key: usize) -> String {
        format!("client{}-{key}", self.number)
    }
}

/// Returns the first bytes of a reply in printable form.
pub fn excerpt(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(60)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::{LENGTHS, Pattern, VALUE_LEN_MAX};
    use slabwise_base::Random;

    #[test]
    fn the_shares_of_the_lengths_add_up_to_a_hundred_percent() {
        assert_eq!(LENGTHS.iter().map(|(share, _)| share).sum::<u64>(), 100);
        assert!(LENGTHS.iter().all(|(_, lengths)| lengths.end as usize <= VALUE_LEN_MAX));
    }

    #[test]
    fn values_have_all_ranges_of_lengths_and_differ_from_each_other() {
        let mut random = Random::new(5);
        let pattern = Pattern::new(&mut random);
        let values: Vec<_> = (0..2_000).map(|_| pattern.draw(&mut random)).collect();
        for (share, lengths) in LENGTHS {
            let in_range = |len: usize| lengths.contains(&(len as u64));
            let found = values.iter().filter(|value| in_range(value.len)).count() as u64;
            let expected = 2_000 * share / 100;
            assert!(found > expected / 3 && found < expected * 3, "{found} of {lengths:?}");
        }
        let mut bytes: Vec<&[u8]> = values.iter().map(|&value| pattern.bytes(value)).collect();
        bytes.sort_unstable();
        bytes.dedup();
        assert_eq!(bytes.len(), values.len());
    }
}
