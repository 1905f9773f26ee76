use super::{Replies, Reply, ReplyError, get, set};

/// Reads everything, giving the parser `step` more bytes at a time, and puts values together.
fn read(input: &[u8], step: usize) -> Vec<String> {
    let mut replies = Replies::new();
    let mut seen: Vec<String> = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < input.len() {
        end = (end + step).min(input.len());
        let mut rest = &input[start..end];
        while let Some(reply) = replies.next(&mut rest).expect("well-formed") {
            match reply {
                Reply::ValuePart(part) => {
                    let text = str::from_utf8(part).expect("the test's values are text");
                    let last = seen.last_mut().expect("a value's line comes first");
                    last.push_str(text);
                }
                other => seen.push(format!("{other:?} ")),
            }
        }
        start = end - rest.len();
    }
    assert!(replies.is_between_replies());
    assert_eq!(start, input.len());
    seen
}

#[test]
fn requests_are_what_the_server_reads() {
    let mut out = Vec::new();
    get(&mut out, [&b"a"[..], b"b"]);
    set(&mut out, b"k", 7, -1, b"value");
    assert_eq!(out, b"get a b\r\nset k 7 -1 5\r\nvalue\r\n");
}

#[test]
fn replies_are_the_same_wherever_they_are_cut() {
    let input =
        b"VALUE a 0 3\r\nx\r\n\r\nVALUE b 9 0 12\r\n\r\nEND\r\nEND\r\nSTORED\r\nNOT_STORED\r\n\
        STAT version 1.6 x\r\nDELETED\r\nSERVER_ERROR out of memory\r\n17\r\n";
    let whole = read(input, input.len());
    assert_eq!(whole.len(), 10);
    assert!(whole[0].ends_with("x\r\n"), "{whole:?}");
    for step in 1..input.len() {
        assert_eq!(read(input, step), whole, "in steps of {step}");
    }
}

#[test]
fn a_server_that_speaks_otherwise_is_an_error() {
    let next = |mut input: &[u8]| Replies::new().next(&mut input).map(|_| ());
    assert_eq!(next(b"VALUE a 0\r\n"), Err(ReplyError::BadValueLine));
    assert_eq!(next(b"VALUE a 0 99999999999\r\n"), Err(ReplyError::BadValueLine));
    assert_eq!(next(&[b'x'; 3000]), Err(ReplyError::LineTooLong));
    let mut replies = Replies::new();
    let mut input = &b"VALUE a 0 1\r\nxyz"[..];
    assert!(matches!(replies.next(&mut input), Ok(Some(Reply::Value { .. }))));
    assert_eq!(replies.next(&mut input), Ok(Some(Reply::ValuePart(b"x"))));
    assert_eq!(replies.next(&mut input), Err(ReplyError::BadValueEnd));
}
