//! The lines that memcached writes to a connection after `watch fetchers mutations deletions`.
//!
//! ```text
//!   ts=1764267000.71 gid=5 type=item_get key=k%20 status=found clsid=3 cfd=27 size=100
//!   ts=1764267000.72 gid=6 type=item_store key=b status=stored cmd=set ttl=0 clsid=3 cfd=27 size=100
//!   ts=1764267000.73 gid=7 type=deleted key=b cmd=delete clsid=3 size=100
//!   skipped=12
//! ```
//!
//! The parser accepts any bytes. It looks up words by their names, so additional words do not matter. A key is
//! percent-encoded and has no space.

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'l> {
    /// An access to a key.
    Access(Access<'l>),
    /// A hit or a store without the size of its value, as memcached before 1.6.11 writes it.
    WithoutSize,
    /// The server did not send this number of lines, because the connection was too slow.
    Skipped(u64),
    /// A line of another kind, with its number if it has one.
    Other(Option<u64>),
}

/// An access to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'l> {
    /// The number of the line. Numbers ascend in the order in which the workers wrote the lines.
    pub number: u64,
    /// The kind of access, and its result.
    pub kind: AccessKind,
    /// The key, percent-encoded.
    pub key: &'l [u8],
    /// The number of the class; 0 if it is unknown.
    pub class_number: u8,
    /// The file descriptor of the client's connection in the server; 0 for a delete.
    pub connection: u32,
    /// The length of the value in bytes.
    pub value_len: u32,
}

/// The kind of an access, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A lookup found the item.
    Hit,
    /// A lookup found no item.
    Miss,
    /// A lookup found an item that had expired or was flushed.
    Expired,
    /// A store succeeded.
    Store,
    /// A store failed and left the item as it was.
    Refused,
    /// A store failed and the item was deleted, because the new one was too large or had no memory.
    Lost,
    /// A delete found the item.
    Delete,
}

/// Parses a line without its line end. Returns `None` if the line is none that memcached sends to a watcher.
pub fn parse(line: &[u8]) -> Option<Line<'_>> {
    if let Some(count) = line.strip_prefix(b"skipped=") {
        return number(count).map(Line::Skipped);
    }
    let words = Words::of(line)?;
    let Some(number) = words.gid.and_then(number) else { return Some(Line::Other(None)) };
    let kind = match (words.kind, words.status) {
        (b"item_get", b"found") => AccessKind::Hit,
        (b"item_get", b"not_found") => AccessKind::Miss,
        (b"item_get", b"expired" | b"flushed") => AccessKind::Expired,
        (b"item_store", b"stored") => AccessKind::Store,
        (b"item_store", b"too_large" | b"no_memory") => AccessKind::Lost,
        (b"item_store", _) => AccessKind::Refused,
        (b"deleted", _) => AccessKind::Delete,
        _ => return Some(Line::Other(Some(number))),
    };
    let Some(key) = words.key else { return Some(Line::Other(Some(number))) };
    let class_number = u8::try_from(words.class).unwrap_or(0);
    let connection = u32::try_from(words.connection).unwrap_or(0);
    if words.size.is_none() && matches!(kind, AccessKind::Hit | AccessKind::Store) {
        return Some(Line::WithoutSize);
    }
    let value_len = u32::try_from(words.size.unwrap_or(0)).unwrap_or(u32::MAX);
    Some(Line::Access(Access { number, kind, key, class_number, connection, value_len }))
}

/// Returns the length of a percent-encoded key before its encoding, in bytes.
pub fn key_len(encoded: &[u8]) -> usize {
    let escapes = encoded.iter().filter(|&&byte| byte == b'%').count();
    encoded.len().saturating_sub(2 * escapes)
}

/// The values of the words of a line that the parser uses.
#[derive(Default)]
struct Words<'l> {
    gid: Option<&'l [u8]>,
    kind: &'l [u8],
    key: Option<&'l [u8]>,
    status: &'l [u8],
    class: u64,
    connection: u64,
    size: Option<u64>,
}

impl<'l> Words<'l> {
    /// Returns `None` if the line does not start with a time.
    fn of(line: &'l [u8]) -> Option<Words<'l>> {
        let mut words = Words::default();
        for word in line.strip_prefix(b"ts=")?.split(|&byte| byte == b' ').skip(1) {
            let Some(at) = word.iter().position(|&byte| byte == b'=') else { continue };
            let (name, value) = (&word[..at], &word[at + 1..]);
            match name {
                b"gid" => words.gid = Some(value),
                b"type" => words.kind = value,
                b"key" => words.key = Some(value),
                b"status" => words.status = value,
                b"clsid" => words.class = number(value).unwrap_or(0),
                b"cfd" => words.connection = number(value).unwrap_or(0),
                b"size" => words.size = number(value),
                _ => {}
            }
        }
        Some(words)
    }
}

/// Parses a decimal number. Returns `None` for other bytes, and for a number above 2^64 - 1.
fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, add)).flatten()
}

#[cfg(test)]
mod tests {
    use super::{Access, AccessKind, Line, key_len, parse};

    #[test]
    fn lines_of_memcached_are_accesses() {
        let get = "ts=1764.5 gid=5 type=item_get key=k%20 status=found clsid=3 cfd=27 size=100";
        let expected = Access {
            number: 5,
            kind: AccessKind::Hit,
            key: b"k%20",
            class_number: 3,
            connection: 27,
            value_len: 100,
        };
        assert_eq!(parse(get.as_bytes()), Some(Line::Access(expected)));
        let without = "ts=1764.5 gid=5 type=item_get key=k status=found clsid=3 cfd=27";
        assert_eq!(parse(without.as_bytes()), Some(Line::WithoutSize));
        let store =
            "ts=1.5 gid=6 type=item_store key=b status=stored cmd=set ttl=0 clsid=3 cfd=27 size=9";
        let expected =
            Access { number: 6, kind: AccessKind::Store, key: b"b", value_len: 9, ..expected };
        assert_eq!(parse(store.as_bytes()), Some(Line::Access(expected)));
        let delete = "ts=1.7 gid=7 type=deleted key=b cmd=delete clsid=3 size=9";
        let expected = Access { number: 7, kind: AccessKind::Delete, connection: 0, ..expected };
        assert_eq!(parse(delete.as_bytes()), Some(Line::Access(expected)));
        assert_eq!(parse(b"skipped=12"), Some(Line::Skipped(12)));
    }

    #[test]
    fn the_status_distinguishes_results() {
        let kind = |words: &str| match parse(format!("ts=1.1 gid=1 {words} key=k").as_bytes()) {
            Some(Line::Access(access)) => Some(access.kind),
            _ => None,
        };
        assert_eq!(kind("type=item_get status=not_found"), Some(AccessKind::Miss));
        assert_eq!(kind("type=item_get status=expired"), Some(AccessKind::Expired));
        assert_eq!(kind("type=item_get status=flushed"), Some(AccessKind::Expired));
        assert_eq!(kind("type=item_store status=exists"), Some(AccessKind::Refused));
        assert_eq!(kind("type=item_store status=too_large"), Some(AccessKind::Lost));
        assert_eq!(kind("type=item_get status=new"), None);
    }

    #[test]
    fn other_lines_are_distinguished_from_garbage() {
        let eviction = b"ts=1.1 gid=8 type=eviction key=a fetch=yes ttl=-1 la=4 clsid=1 size=3";
        assert_eq!(parse(eviction), Some(Line::Other(Some(8))));
        assert_eq!(parse(b"ts=1.1 gid=x type=item_get"), Some(Line::Other(None)));
        for garbage in ["", "END", "skipped=", "skipped=-1", "HTTP/1.1 400 Bad Request", "t"] {
            assert_eq!(parse(garbage.as_bytes()), None, "{garbage:?}");
        }
        let too_large = b"ts=1 gid=99999999999999999999 type=item_get key=a status=found";
        assert_eq!(parse(too_large), Some(Line::Other(None)));
    }

    #[test]
    fn an_escaped_byte_counts_once() {
        assert_eq!(key_len(b"a%20b"), 3);
        assert_eq!(key_len(b"%%%"), 0);
    }
}
