//! Differences in the classic text protocol.

use super::exchange::Exchange;

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
        matches!(word, b"-0" | b"-9223372036854775809")
            || word.iter().any(|byte| b"\t\r\x0b\x0c\0".contains(byte))
    };
    exchange.has_command(&STORAGE)
        && exchange.words().iter().skip(2).take(2).any(|word| is_odd(word))
}

pub fn is_refused_number(exchange: &Exchange<'_>) -> bool {
    exchange.slabwise.bytes.starts_with(BAD_FORMAT) && has_odd_number(exchange)
}

pub fn is_silent_number(exchange: &Exchange<'_>) -> bool {
    exchange.has_noreply() && has_odd_number(exchange)
}

/// True if the number is in a value that slabwise stores in several chunks.
pub fn is_number_in_large_value(exchange: &Exchange<'_>) -> bool {
    const NOT_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    let is_refused = exchange.slabwise.bytes == NOT_NUMERIC
        || exchange.slabwise.bytes.get(6..8) == Some(&[0, 6]);
    is_refused && exchange.has_large_value_in_history()
}

/// True if a number of the line ends with a carriage return.
pub fn is_odd_fraction(exchange: &Exchange<'_>) -> bool {
    exchange.has_command(&["lru", "slabs"])
        && exchange.slabwise.bytes == b"ERROR\r\n"
        && exchange.words().last().is_some_and(|word| word.ends_with(b"\r"))
}
