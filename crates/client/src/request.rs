//! Functions that append requests to a buffer.
//!
//! A store has three parts, so its value need not be contiguous in memory: the line by [`set_line`] or
//! [`meta_set_line`], the value by the caller, and its end by [`end_value`].

/// Appends `get KEY`.
pub fn get(out: &mut Vec<u8>, key: &[u8]) {
    command(out, b"get ", key);
    out.extend_from_slice(b"\r\n");
}

/// Appends `mg KEY v`, which returns only the value.
pub fn meta_get(out: &mut Vec<u8>, key: &[u8]) {
    command(out, b"mg ", key);
    out.extend_from_slice(b" v\r\n");
}

/// Appends `delete KEY`.
pub fn delete(out: &mut Vec<u8>, key: &[u8]) {
    command(out, b"delete ", key);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line of a `set` without flags or expiry. slabwise accepts a `cost` with `-o cost_wire`.
pub fn set_line(out: &mut Vec<u8>, key: &[u8], cost: Option<u32>, value_len: u32) {
    command(out, b"set ", key);
    if let Some(cost) = cost {
        out.push(b' ');
        number(out, cost);
    }
    out.extend_from_slice(b" 0 0 ");
    number(out, value_len);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line of an `ms` with the cost in slabwise's flag `G`.
pub fn meta_set_line(out: &mut Vec<u8>, key: &[u8], cost: u32, value_len: u32) {
    command(out, b"ms ", key);
    out.push(b' ');
    number(out, value_len);
    out.extend_from_slice(b" G");
    number(out, cost);
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a value.
pub fn end_value(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

fn command(out: &mut Vec<u8>, name: &[u8], key: &[u8]) {
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
    fn composes_requests() {
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
