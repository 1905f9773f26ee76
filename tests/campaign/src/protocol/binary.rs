//! The binary protocol.

use super::{Decoded, append_value, malformed};
use crate::kinds::Kind;
use crate::operation::{Operation, Outcome, Verb};
use crate::value::Values;
use slabwise_protocol::binary::{HEAD_LEN, REPLY_MAGIC, REQUEST_MAGIC, opcode};

/// The largest length of a body that is taken for valid, in bytes.
const BODY_LEN_MAX: usize = 1 << 31;

/// Returns the opcode of a request. Half of the gets ask for the key.
fn opcode_of(operation: &Operation) -> u8 {
    let with_key = operation.opaque.is_multiple_of(2);
    match (operation.verb, operation.quiet) {
        (Verb::Get | Verb::Gets, false) if with_key => opcode::GETK,
        (Verb::Get | Verb::Gets, true) if with_key => opcode::GETKQ,
        (Verb::Get | Verb::Gets, false) => opcode::GET,
        (Verb::Get | Verb::Gets, true) => opcode::GETQ,
        (Verb::Gat, false) if with_key => opcode::GATK,
        (Verb::Gat, true) if with_key => opcode::GATKQ,
        (Verb::Gat, false) => opcode::GAT,
        (Verb::Gat, true) => opcode::GATQ,
        (Verb::Touch, _) => opcode::TOUCH,
        (Verb::Set | Verb::Cas, false) => opcode::SET,
        (Verb::Set | Verb::Cas, true) => opcode::SETQ,
        (Verb::Add, false) => opcode::ADD,
        (Verb::Add, true) => opcode::ADDQ,
        (Verb::Replace, false) => opcode::REPLACE,
        (Verb::Replace, true) => opcode::REPLACEQ,
        (Verb::Delete, false) => opcode::DELETE,
        (Verb::Delete, true) => opcode::DELETEQ,
        (Verb::Append, false) => opcode::APPEND,
        (Verb::Append, true) => opcode::APPENDQ,
        (Verb::Prepend, false) => opcode::PREPEND,
        (Verb::Prepend, true) => opcode::PREPENDQ,
        (Verb::Step | Verb::StepOrCreate, _) if Kind::of(operation.key) == Kind::Down => {
            opcode::DECREMENT
        }
        (Verb::Step | Verb::StepOrCreate, _) => opcode::INCREMENT,
    }
}

/// True if a hit contains the key.
fn has_key(code: u8) -> bool {
    matches!(code, opcode::GETK | opcode::GETKQ | opcode::GATK | opcode::GATKQ)
}

pub(super) fn encode(operation: &Operation, key: &[u8], values: Values, out: &mut Vec<u8>) {
    let Operation { verb, flags, ttl_seconds: ttl, len, .. } = *operation;
    let extras_len: u8 = match verb {
        Verb::Gat | Verb::Touch => 4,
        Verb::Step | Verb::StepOrCreate => 20,
        _ if verb.stores() => 8,
        _ => 0,
    };
    let has_value = verb.stores() || verb.adds_part();
    let value_len = if has_value { len } else { 0 };
    let body_len = u32::from(extras_len) + key.len() as u32 + value_len;
    out.extend_from_slice(&[REQUEST_MAGIC, opcode_of(operation)]);
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(&[extras_len, 0, 0, 0]);
    out.extend_from_slice(&body_len.to_be_bytes());
    out.extend_from_slice(&operation.opaque.to_be_bytes());
    out.extend_from_slice(&operation.cas.0.to_be_bytes());
    if verb.stores() {
        out.extend_from_slice(&flags.to_be_bytes());
    }
    if verb.steps() {
        // With a TTL of 2^32 - 1, a missing item is not created.
        let ttl = if verb == Verb::Step { u32::MAX } else { 0 };
        out.extend_from_slice(&1u64.to_be_bytes());
        out.extend_from_slice(&Kind::of(operation.key).number(operation.version).to_be_bytes());
        out.extend_from_slice(&ttl.to_be_bytes());
    } else if extras_len > 0 {
        out.extend_from_slice(&ttl.to_be_bytes());
    }
    out.extend_from_slice(key);
    if has_value {
        append_value(operation, values, out);
    }
}

pub(super) fn decode<'a>(operation: &Operation, key: &[u8], bytes: &'a [u8]) -> Decoded<'a> {
    let Some(head) = bytes.first_chunk::<HEAD_LEN>() else {
        return Decoded::Incomplete(HEAD_LEN);
    };
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let key_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let extras_len = usize::from(head[4]);
    let status = u16::from_be_bytes([head[6], head[7]]);
    let body_len = word(8) as usize;
    if head[0] != REPLY_MAGIC || body_len > BODY_LEN_MAX || extras_len + key_len > body_len {
        return malformed("not the head of a reply", head);
    }
    if word(12) != operation.opaque {
        return match operation.quiet {
            true => Decoded::Quiet(quiet_outcome(operation.verb)),
            false => malformed("the reply has the opaque of another request", head),
        };
    }
    let code = opcode_of(operation);
    if head[1] != code {
        return malformed("the reply has another opcode than its request", head);
    }
    let end = HEAD_LEN + body_len;
    if bytes.len() < end {
        return Decoded::Incomplete(end);
    }
    let (extras, rest) = bytes[HEAD_LEN..end].split_at(extras_len);
    let (named_key, value) = rest.split_at(key_len);
    let is_named = has_key(code) && status <= 1;
    if if is_named { named_key != key } else { !named_key.is_empty() } {
        return malformed("the reply has another key", &bytes[..end]);
    }
    let cas = u64::from_be_bytes(head[16..24].try_into().unwrap_or_default());
    match outcome(operation, status, extras, value, cas) {
        Some(outcome) => Decoded::Reply(outcome, end),
        None => malformed("unexpected reply", &bytes[..end]),
    }
}

fn outcome<'a>(
    operation: &Operation,
    status: u16,
    extras: &[u8],
    value: &'a [u8],
    cas: u64,
) -> Option<Outcome<'a>> {
    let verb = operation.verb;
    if !has_valid_lengths(verb, status, extras.len(), value.len()) {
        return None;
    }
    let flags = extras.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    Some(match (status, verb) {
        (0, _) if verb.reads() => Outcome::Hit { flags: Some(flags?), cas: Some(cas), value },
        (0, _) if operation.quiet => return None,
        (0, _) if verb.steps() => Outcome::Number(u64::from_be_bytes(*value.first_chunk()?)),
        (0, Verb::Delete) => Outcome::Deleted,
        (0, Verb::Touch) => Outcome::Touched,
        (0, _) => Outcome::Stored(Some(cas)),
        (1, Verb::Replace) => Outcome::NotStored,
        (5, Verb::Append | Verb::Prepend | Verb::StepOrCreate) => Outcome::NotStored,
        (1, Verb::Set | Verb::Add | Verb::Append | Verb::Prepend | Verb::StepOrCreate) => {
            return None;
        }
        (1, _) if verb.reads() && operation.quiet => return None,
        (1, _) => Outcome::Miss,
        (2, Verb::Add) => Outcome::NotStored,
        (2, Verb::Cas) => Outcome::Exists,
        (3 | 0x82, _) => Outcome::Refused(value),
        _ => return None,
    })
}

/// True if the extras and the value of a reply can have these lengths, in bytes. The value of an error is its text.
fn has_valid_lengths(verb: Verb, status: u16, extras_len: usize, value_len: usize) -> bool {
    match (status, verb) {
        (0, _) if verb.reads() => extras_len == 4,
        (0, Verb::Touch) => extras_len == 4 && value_len == 0,
        (0, _) if verb.steps() => extras_len == 0 && value_len == 8,
        (0, _) => extras_len == 0 && value_len == 0,
        _ => extras_len == 0,
    }
}

/// Returns the outcome of a quiet request without a reply.
fn quiet_outcome(verb: Verb) -> Outcome<'static> {
    match verb {
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Touch => Outcome::Miss,
        Verb::Delete => Outcome::Deleted,
        _ => Outcome::Stored(None),
    }
}
