//! Functions that append requests to a buffer.
//!
//! A storage command has three parts: [`set_line`] or [`meta_set_line`] appends the line, the caller appends the value,
//! and [`end_value`] appends the end of the value. The caller can therefore build the value from several pieces.

/// Appends a `get` of one key.
pub fn get(out: &mut Vec<u8>, key: &[u8]) {
    name_and_key(out, b"get ", key);
    out.extend_from_slice(b"\r\n");
}

/// Appends `mg KEY v`. The reply to this request contains the value, but no key and no flags.
pub fn meta_get(out: &mut Vec<u8>, key: &[u8]) {
    name_and_key(out, b"mg ", key);
    out.extend_from_slice(b" v\r\n");
}

/// Appends a `delete`.
pub fn delete(out: &mut Vec<u8>, key: &[u8]) {
    name_and_key(out, b"delete ", key);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line of a `set` whose client flags and expiry are 0. A server accepts a `cost` only if it is slabwise
/// with `-o cost_wire`.
pub fn set_line(out: &mut Vec<u8>, key: &[u8], cost: Option<u32>, value_len: u32) {
    name_and_key(out, b"set ", key);
    if let Some(cost) = cost {
        out.push(b' ');
        number(out, cost);
    }
    out.extend_from_slice(b" 0 0 ");
    number(out, value_len);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line of an `ms` that supplies the item's cost in the flag `G`, which only slabwise has.
pub fn meta_set_line(out: &mut Vec<u8>, key: &[u8], cost: u32, value_len: u32) {
    name_and_key(out, b"ms ", key);
    out.push(b' ');
    number(out, value_len);
    out.extend_from_slice(b" G");
    number(out, cost);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line end after a value.
pub fn end_value(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

fn name_and_key(out: &mut Vec<u8>, name: &[u8], key: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(key);
}

fn number(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{delete, end_value, get, meta_get, meta_set_line, set_line};

    #[test]
    fn requests_have_the_lines_of_memcached() {
        let mut out = Vec::new();
        get(&mut out, b"a");
        meta_get(&mut out, b"b");
        set_line(&mut out, b"c", None, 0);
        end_value(&mut out);
        set_line(&mut out, b"d", Some(450), u32::MAX);
        meta_set_line(&mut out, b"e", 450, 7);
        delete(&mut out, b"f");
        let lines = "get a\r\nmg b v\r\nset c 0 0 0\r\n\r\nset d 450 0 0 4294967295\r\n\
                     ms e 7 G450\r\ndelete f\r\n";
        assert_eq!(String::from_utf8_lossy(&out), lines);
    }
}
