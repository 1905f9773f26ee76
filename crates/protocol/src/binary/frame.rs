//! Parses one request packet of the binary protocol.

use super::opcode;
use super::opcode::Command;
use crate::admin::{Admin, DetailMode, StatsRequest};
use crate::request::{
    Answer, Arithmetic, Delete, Direction, Fault, Get, HEAD_LEN, Head, Initial, Parsed,
    REQUEST_MAGIC, Refusal, Request, Sasl, Store, StoreVerb,
};
use crate::words::{BODY_LEN_MAX, Exptime, KEY_LEN_MAX, LINE_LEN_MAX};

/// An increment or decrement with this expiry creates no item on a miss.
const DO_NOT_CREATE: u32 = 0xffff_ffff;
/// The maximum length of the name of a SASL mechanism in bytes.
const MECHANISM_LEN_MAX: usize = 32;
/// The maximum length of a SASL response in bytes. A longer response cannot match an entry of a password file.
const SASL_RESPONSE_LEN_MAX: usize = 1024;

const _: () = assert!(
    HEAD_LEN + MECHANISM_LEN_MAX + SASL_RESPONSE_LEN_MAX <= LINE_LEN_MAX,
    "a SASL request fits into the maximum number of bytes that the parser waits for"
);
const _: () = assert!(
    HEAD_LEN + u8::MAX as usize + KEY_LEN_MAX <= LINE_LEN_MAX,
    "extras and a valid key fit into the maximum number of bytes that the parser waits for"
);

/// Parses one request. The value of a store is not parsed; it follows the consumed bytes.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    if input.first().is_some_and(|&magic| magic != REQUEST_MAGIC) {
        return Parsed::Hangup;
    }
    let Some(frame) = Frame::read(input) else { return Parsed::Incomplete };
    let command = opcode::command(frame.head.opcode);
    if let Err(fault) = frame.check_lengths(command) {
        return frame.refuse(fault);
    }
    let Some(command) = command else { return frame.refuse(Fault::UnknownCommand) };
    if matches!(command, Command::SaslAuth | Command::SaslStep) {
        return frame.parse_sasl(command);
    }
    let request = frame.parse_request(command);
    Parsed::Request { request, answer: Answer::Binary(frame.head), consumed: frame.consumed }
}

/// The parts of a request packet. All lengths are in bytes, as the head gives them.
struct Frame<'a> {
    head: Head,
    key_len: usize,
    extras_len: usize,
    body_len: usize,
    /// The length of the body without extras and key. 0 if extras and key are longer than the body.
    value_len: usize,
    extras: &'a [u8],
    /// The received bytes of the key. They are the whole key, unless the key is too long.
    key: &'a [u8],
    /// The received bytes after the key.
    rest: &'a [u8],
    /// The number of received bytes up to the end of the key.
    consumed: usize,
}

impl<'a> Frame<'a> {
    /// Splits the input into the parts of a packet. Returns `None` if the head, the extras or the key are incomplete,
    /// unless the input already has [`LINE_LEN_MAX`] bytes.
    fn read(input: &'a [u8]) -> Option<Frame<'a>> {
        let (head, body) = input.split_first_chunk::<HEAD_LEN>()?;
        let key_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let extras_len = usize::from(head[4]);
        let body_len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let opcode = head[1];
        if input.len() < (HEAD_LEN + extras_len + key_len).min(LINE_LEN_MAX) {
            return None;
        }
        let (extras, rest) = body.split_at(extras_len.min(body.len()));
        let (key, rest) = rest.split_at(key_len.min(rest.len()));
        let [.., c0, c1, c2, c3, c4, c5, c6, c7] = *head;
        Some(Frame {
            head: Head {
                opcode,
                opaque: [head[12], head[13], head[14], head[15]],
                cas: u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
                quiet: opcode::is_quiet(opcode),
                with_key: opcode::reply_has_key(opcode),
            },
            key_len,
            extras_len,
            body_len,
            value_len: body_len.saturating_sub(extras_len + key_len),
            extras,
            key,
            rest,
            consumed: HEAD_LEN + extras.len() + key.len(),
        })
    }

    /// Returns an error if the lengths contradict each other, exceed a limit, or are not valid for the command.
    fn check_lengths(&self, command: Option<Command>) -> Result<(), Fault> {
        if self.extras_len + self.key_len > self.body_len {
            return Err(Fault::BadLengths);
        }
        if self.body_len > BODY_LEN_MAX {
            return Err(Fault::BodyTooLarge);
        }
        if self.key_len > KEY_LEN_MAX {
            return Err(Fault::BadArguments);
        }
        match command {
            Some(command)
                if !command.accepts_lengths(self.extras_len, self.key_len, self.value_len) =>
            {
                Err(Fault::BadArguments)
            }
            _ => Ok(()),
        }
    }

    /// Refuses the request. The caller skips the rest of the body, unless it closes the connection because of the
    /// fault.
    fn refuse(&self, fault: Fault) -> Parsed<'a> {
        let skip_len = if fault.closes() { 0 } else { self.value_len };
        let refusal = Refusal::Packet(self.head, fault);
        Parsed::Refused { refusal, consumed: self.consumed, skip_len }
    }

    /// Parses a SASL request, including its value, which is the response.
    fn parse_sasl(&self, command: Command) -> Parsed<'a> {
        if self.key.len() > MECHANISM_LEN_MAX {
            return self.refuse(Fault::MechanismTooLong);
        }
        if self.value_len > SASL_RESPONSE_LEN_MAX {
            return self.refuse(Fault::ResponseTooLong);
        }
        let Some(response) = self.rest.get(..self.value_len) else { return Parsed::Incomplete };
        let request = match command {
            Command::SaslAuth => Sasl::Auth { mechanism: self.key, response },
            _ => Sasl::Step(response),
        };
        let consumed = self.consumed + self.value_len;
        let answer = Answer::Binary(self.head);
        Parsed::Request { request: Request::Sasl(request), answer, consumed }
    }

    /// Parses a request whose lengths are valid and whose command is not a step of SASL authentication.
    fn parse_request(&self, command: Command) -> Request<'a> {
        let key = self.key;
        let store = |verb| {
            // append and prepend have no extras, so their client flags and expiry are 0.
            let has_extras = self.extras_len > 0;
            let exptime = if has_extras { self.u32_at(4) } else { 0 };
            Request::Store(Store {
                client_flags: if has_extras { self.u32_at(0) } else { 0 },
                exptime: Exptime::of_unsigned(exptime),
                expected_cas: self.expected_cas(),
                verb,
                key,
                value_len: self.value_len,
                ..Store::default()
            })
        };
        match command {
            Command::Get => Request::Get(Get { key, ..Get::default() }),
            Command::GetAndTouch => {
                let touch = Some(Exptime::of_unsigned(self.u32_at(0)));
                Request::Get(Get { key, touch, ..Get::default() })
            }
            Command::Touch => Request::Touch(key, Exptime::of_unsigned(self.u32_at(0))),
            Command::Set => store(StoreVerb::Set),
            Command::Add => store(StoreVerb::Add),
            Command::Replace => store(StoreVerb::Replace),
            Command::Append => store(StoreVerb::Append),
            Command::Prepend => store(StoreVerb::Prepend),
            Command::Delete => Request::Delete(Delete {
                expected_cas: self.expected_cas(),
                key,
                ..Delete::default()
            }),
            Command::Increment => self.parse_arithmetic(Direction::Increment),
            Command::Decrement => self.parse_arithmetic(Direction::Decrement),
            Command::Quit => Request::Quit,
            Command::Flush => {
                let exptime = if self.extras_len > 0 { self.u32_at(0) } else { 0 };
                Request::Admin(Admin::FlushAll(Exptime::of_unsigned(exptime)))
            }
            Command::Noop => Request::NoOp,
            Command::Version => Request::Version,
            Command::Stat => Request::Stats(parse_subject(key)),
            Command::SaslListMechanisms => Request::Sasl(Sasl::ListMechanisms),
            Command::SaslAuth | Command::SaslStep => {
                unreachable!("`parse_sasl` parses the steps of SASL authentication")
            }
        }
    }

    fn parse_arithmetic(&self, direction: Direction) -> Request<'a> {
        let exptime = self.u32_at(16);
        let initial = (exptime != DO_NOT_CREATE).then(|| {
            let exptime = Exptime::of_unsigned(exptime);
            Initial { value: self.u64_at(8), exptime, first_exptime: exptime }
        });
        Request::Arithmetic(Arithmetic {
            expected_cas: self.expected_cas(),
            initial,
            key: self.key,
            direction,
            delta: self.u64_at(0),
            ..Arithmetic::default()
        })
    }

    /// Returns the CAS value that the item must have. In the head, 0 means any CAS value.
    fn expected_cas(&self) -> Option<u64> {
        (self.head.cas != 0).then_some(self.head.cas)
    }

    /// Returns the 32-bit number at this position of the extras.
    fn u32_at(&self, at: usize) -> u32 {
        let bytes = self.extras[at..]
            .first_chunk()
            .expect("`check_lengths` has checked the length of the extras");
        u32::from_be_bytes(*bytes)
    }

    /// Returns the 64-bit number at this position of the extras.
    fn u64_at(&self, at: usize) -> u64 {
        let bytes = self.extras[at..]
            .first_chunk()
            .expect("`check_lengths` has checked the length of the extras");
        u64::from_be_bytes(*bytes)
    }
}

/// Parses the subject of a `stat` request. As in memcached, some subjects of the text protocol are unknown, and some
/// subjects are recognized if the name only starts with them.
fn parse_subject(name: &[u8]) -> StatsRequest<'_> {
    match name {
        _ if name.starts_with(b"reset") => StatsRequest::Reset,
        _ if name.starts_with(b"settings") => StatsRequest::Settings,
        _ if name.starts_with(b"detail on") => StatsRequest::Detail(DetailMode::On),
        _ if name.starts_with(b"detail off") => StatsRequest::Detail(DetailMode::Off),
        _ if name.starts_with(b"detail dump") => StatsRequest::Detail(DetailMode::Dump),
        _ => StatsRequest::of_name(name),
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
