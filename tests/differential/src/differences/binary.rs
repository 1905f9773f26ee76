//! Differences in the binary protocol.

use super::exchange::Exchange;
use crate::step::Dialect;
use slabwise_protocol::binary::{Status, opcode};

/// The head of a packet.
struct Head {
    opcode: u8,
    key_len: usize,
    extras_len: usize,
    body_len: usize,
}

/// Returns the head of the exchange's packet, or `None` if the step is a line.
fn head(exchange: &Exchange<'_>) -> Option<Head> {
    let is_packet = exchange.step.family.dialect() == Dialect::Binary;
    let head = exchange.request.first_chunk::<24>().filter(|_| is_packet)?;
    Some(Head {
        opcode: head[1],
        key_len: usize::from(u16::from_be_bytes([head[2], head[3]])),
        extras_len: usize::from(head[4]),
        body_len: u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize,
    })
}

/// True if slabwise's first reply is an error with this status.
fn has_error(exchange: &Exchange<'_>, status: Status) -> bool {
    exchange.slabwise.bytes.get(6..8) == Some(&(status as u16).to_be_bytes())
}

pub fn is_unknown_opcode(exchange: &Exchange<'_>) -> bool {
    let is_known = |opcode| matches!(opcode, 0..=0x1a | 0x1c..=0x1e | 0x20..=0x24);
    head(exchange).is_some_and(|head| !is_known(head.opcode) && head.key_len + head.extras_len > 0)
        && has_error(exchange, Status::UnknownCommand)
}

pub fn is_longer_body(exchange: &Exchange<'_>) -> bool {
    let has_row = |opcode| {
        let touches = [opcode::TOUCH, opcode::GAT, opcode::GATQ, opcode::GATK, opcode::GATKQ];
        touches.contains(&opcode) || opcode == opcode::STAT
    };
    head(exchange)
        .is_some_and(|head| has_row(head.opcode) && head.body_len > head.key_len + head.extras_len)
        && has_error(exchange, Status::InvalidArguments)
}

pub fn is_very_long_key(exchange: &Exchange<'_>) -> bool {
    head(exchange).is_some_and(|head| head.key_len >= 2000)
        && has_error(exchange, Status::InvalidArguments)
        && exchange.memcached.bytes.is_empty()
}

/// True if bytes follow the packet that do not begin with the magic byte of a packet.
pub fn is_followed_by_other_bytes(exchange: &Exchange<'_>) -> bool {
    let Some(head) = head(exchange) else { return false };
    let next = exchange.request.get(24 + head.body_len);
    let replies = exchange.slabwise.bytes.strip_prefix(&exchange.memcached.bytes[..]);
    next.is_some_and(|&byte| byte != 0x80) && replies.is_some_and(|lost| !lost.is_empty())
}
