//! Differences in the classic text protocol.

use super::exchange::Exchange;
use crate::player::{End, Reply};
use crate::step::Dialect;

const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const STORAGE: [&str; 6] = ["set", "add", "replace", "append", "prepend", "cas"];
const STORAGE_WITH_COST: [&str; 3] = ["set", "add", "replace"];

pub fn is_refused_delete(exchange: &Exchange<'_>) -> bool {
    let usage = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
    exchange.has_command(&["delete"]) && exchange.slabwise.bytes == usage
}

pub fn is_silent_delete(exchange: &Exchange<'_>) -> bool {
    exchange.has_command(&["delete"]) && exchange.has_noreply() && exchange.words().len() > 3
}

pub fn is_refused_cost(exchange: &Exchange<'_>) -> bool {
    is_silent_cost(exchange)
        || (exchange.has_command(&STORAGE_WITH_COST)
            && exchange.slabwise.bytes.starts_with(b"CLIENT_ERROR costs are not taken here"))
}

/// True if the line is that of a store with a cost and with `noreply`. If slabwise refuses the line, it sends nothing.
/// It then takes a part of the value for commands, because the length is another word.
pub fn is_silent_cost(exchange: &Exchange<'_>) -> bool {
    exchange.has_command(&STORAGE_WITH_COST)
        && exchange.has_noreply()
        && exchange.words().len() == 7
}

pub fn is_long_retrieval(exchange: &Exchange<'_>) -> bool {
    exchange.has_command(&["get", "gets", "gat", "gats"])
        && exchange.slabwise.bytes == BAD_FORMAT
        && exchange.memcached.bytes == [BAD_FORMAT, b"\r\n"].concat()
}

/// True if memcached reads the flags or the TTL only up to a white space or a zero byte, or modulo 2^64.
fn has_odd_number(exchange: &Exchange<'_>) -> bool {
    let is_odd = |word: &[u8]| {
        matches!(word, b"-0" | b"-9223372036854775809") || word.iter().any(|byte| b"\t\r\x0b\x0c\0".contains(byte))
    };
    exchange.has_command(&STORAGE) && exchange.words().iter().skip(2).take(2).any(|word| is_odd(word))
}

pub fn is_refused_number(exchange: &Exchange<'_>) -> bool {
    exchange.slabwise.bytes.starts_with(BAD_FORMAT) && has_odd_number(exchange)
}

pub fn is_silent_number(exchange: &Exchange<'_>) -> bool {
    exchange.has_noreply() && has_odd_number(exchange)
}

pub fn is_watch_after_reply(exchange: &Exchange<'_>) -> bool {
    let error = b"ERROR cannot pipeline other commands before watch\r\n";
    exchange.has_command(&["watch"]) && exchange.slabwise.bytes == error
}

/// The maximum length of a line whose end has not arrived.
const LINE_LEN_MAX: usize = 2048;

/// True if one server has closed the connection because of a long line, which is a part of a value. Whether the end of
/// the line has arrived depends on how many bytes the server reads at once.
pub fn is_long_line(exchange: &Exchange<'_>) -> bool {
    let is_closed = |reply: &Reply| reply.end == End::Closed;
    exchange.step.family.dialect() == Dialect::Text
        && exchange.request.split(|&byte| byte == b'\n').any(|line| line.len() > LINE_LEN_MAX)
        && is_closed(exchange.memcached) != is_closed(exchange.slabwise)
}
