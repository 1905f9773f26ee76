use super::parse;
use crate::meta::{Echo, KEY_BUFFER_LEN, compose, decode_key, reply};
use crate::words::begins;
use crate::{
    Answer, Arithmetic, Direction, Exptime, Get, Initial, Parsed, Refusal, Request, Store,
    StoreVerb, Vivify,
};
use slabwise_base::Cost;

/// Parses a line, and returns the request and its flags.
#[track_caller]
fn parsed(line: &'static str) -> (Request<'static>, Echo) {
    match parse(line.as_bytes()) {
        Parsed::Request { request, answer: Answer::Meta(echo), consumed } => {
            assert_eq!(consumed, line.find('\n').expect("the line has a line end") + 1, "{line}");
            (request, echo)
        }
        other => panic!("{line:?} gave {other:?}"),
    }
}

fn request(line: &'static str) -> Request<'static> {
    parsed(line).0
}

fn store(line: &'static str) -> Store<'static> {
    match request(line) {
        Request::Store(store) => store,
        other => panic!("{line:?} gave {other:?}"),
    }
}

/// Returns the reply to an invalid line, and the number of bytes to skip.
#[track_caller]
fn refused(line: &str) -> (&'static [u8], usize) {
    match parse(line.as_bytes()) {
        Parsed::Refused { refusal: Refusal::Line(reply), skip_len, .. } => (reply, skip_len),
        other => panic!("{line:?} gave {other:?}"),
    }
}

#[test]
fn a_meta_command_begins_with_two_letters_and_a_space_or_line_end() {
    for line in ["mg k\r\n", "ms", "mn\r\n", "me \r\n", "md k", "ma k"] {
        assert_eq!(begins(line.as_bytes()), line.len() > 2, "{line}");
    }
    for line in [
        "",
        "m",
        "mg",
        "mn\r",
        "mn\n",
        "mgg k\r\n",
        "mx k\r\n",
        "get k\r\n",
        " mg k\r\n",
        "mg\rk\r\n",
    ] {
        assert!(!begins(line.as_bytes()), "{line}");
    }
}

#[test]
fn the_letters_of_the_flags_are_in_the_order_of_the_request() {
    let (get, echo) = parsed("mg  key  v t Oab  T30 N-1 R7 C5 E18446744073709551615 k\r\nrest");
    assert_eq!(echo.letters(), b"vtOTNRCEk");
    assert_eq!(echo.opaque(), b"Oab");
    assert!(echo.has_before(b't', b'T') && !echo.has_before(b'T', b't'));
    assert!(echo.has(b'v') && echo.has(b'k') && !echo.has(b'q'));
    assert_eq!((echo.key_is_base64, echo.unless_cas), (false, Some(5)));
    let expected = Get {
        key: b"key",
        touch: Some(Exptime::At(30)),
        vivify: Some(Vivify {
            exptime: Exptime::Past,
            first_exptime: Exptime::Past,
            cas: Some(u64::MAX),
        }),
        recache: Some(Exptime::At(7)),
        keeps_access_time: false,
    };
    assert_eq!(get, Request::Get(expected));
    let change = Arithmetic {
        key: b"k",
        direction: Direction::Decrement,
        delta: 9,
        ..Arithmetic::default()
    };
    assert_eq!(request("ma k MD D9\n"), Request::Arithmetic(change));
    let exptime = Exptime::Never;
    let initial = Some(Initial { value: 8, exptime, first_exptime: exptime });
    let expected = Request::Arithmetic(Arithmetic { initial, ..change });
    assert_eq!(request("ma k MD D9 J8 N0\n"), expected);
    let expected = Request::Arithmetic(Arithmetic {
        key: b"k",
        direction: Direction::Increment,
        delta: 1,
        ..Arithmetic::default()
    });
    assert_eq!(request("ma k P1 L2\n"), expected);
}

#[test]
fn the_later_of_n_and_t_gives_the_expiry_of_a_created_item() {
    for (line, exptime) in [
        ("mg k N5\r\n", Exptime::At(5)),
        ("mg k N5 T9\r\n", Exptime::At(9)),
        ("mg k T9 N5\r\n", Exptime::At(5)),
    ] {
        let Request::Get(get) = request(line) else { panic!("{line:?} must be a get") };
        let first_exptime = Exptime::At(5);
        assert_eq!(get.vivify, Some(Vivify { exptime, first_exptime, cas: None }), "{line}");
    }
}

#[test]
fn flag_capital_g_supplies_a_cost_and_flag_g_requests_it() {
    let cost = |line| store(line).cost;
    assert_eq!(cost("ms k 3 G0\r\n"), Some(Cost::from_units(0)));
    assert_eq!(cost("ms k 3 T30 G4294967295 MA\r\n"), Some(Cost::from_units(u32::MAX)));
    assert_eq!(cost("ms k 3 g\r\n"), None);
    assert!(parsed("mg k v g\r\n").1.has(b'g'));
    for line in ["ms k 3 G\r\n", "ms k 3 G-1\r\n", "ms k 3 G4294967296\r\n", "ms k 3 G1.5\r\n"] {
        assert_eq!(refused(line), (reply::BAD_TOKEN, 5), "{line}");
    }
    assert_eq!(refused("ms k 3 G1 G2\r\n"), (reply::DUPLICATE_FLAG, 5));
    let mut out = Vec::new();
    compose::write_flag_optional(&mut out, b'g', Some(450));
    compose::write_flag_optional(&mut out, b'g', Some(Cost::default().units()));
    compose::write_flag_optional(&mut out, b'g', None);
    assert_eq!(out, b" g450 g0 g-1");
}

#[test]
fn a_set_has_a_length_and_may_have_a_mode() {
    let modes = [
        ("", StoreVerb::Set),
        ("MS", StoreVerb::Set),
        ("ME", StoreVerb::Add),
        ("MA", StoreVerb::Append),
        ("MPlenty", StoreVerb::Prepend),
        ("MR", StoreVerb::Replace),
    ];
    for (flag, mode) in modes {
        let line: &'static str = format!("ms k 3 {flag}\r\n").leak();
        assert_eq!(store(line), Store { verb: mode, key: b"k", value_len: 3, ..Store::default() });
    }
    assert_eq!(store("ms k 3 F7\r\n").client_flags, 7);
    for line in ["ms k\r\n", "ms k x\r\n", "ms k -1\r\n", "ms k 2147483646\r\n", "ms\r\n"] {
        assert_eq!(refused(line), (reply::BAD_FORMAT, 0), "{line}");
    }
    assert_eq!(refused("ms k 3 Mx\r\n"), (reply::BAD_SET_MODE, 5));
    assert_eq!(refused("ms k 3 M\r\n"), (reply::BAD_SET_MODE, 5));
    assert_eq!(refused("ms k 3 S100\r\n"), (reply::INVALID_FLAG, 5));
    assert_eq!(refused("ms k 3 !\r\n"), (reply::BAD_FORMAT, 5));
}

#[test]
fn an_invalid_line_has_the_reply_of_memcached() {
    let long_key: &'static str = format!("mg {} v\r\n", "k".repeat(251)).leak();
    let many: &'static str = format!("mg k {}\r\n", "v ".repeat(19)).leak();
    let cases: [(&str, &[u8]); 19] = [
        ("mg\r\n", reply::BAD_FORMAT),
        ("mg  \r\n", reply::BAD_FORMAT),
        (long_key, reply::BAD_FORMAT),
        (many, reply::TOO_MANY_FLAGS),
        ("mg k !\r\n", reply::BAD_FORMAT),
        ("mg k v v !\r\n", reply::BAD_FORMAT),
        ("mg k 1\r\n", reply::INVALID_FLAG),
        ("mg k S\r\n", reply::INVALID_FLAG),
        ("mg k v v\r\n", reply::DUPLICATE_FLAG),
        ("mg k Tx v v\r\n", reply::DUPLICATE_FLAG),
        ("mg k T\r\n", reply::BAD_TOKEN),
        ("mg k Fx\r\n", reply::BAD_FORMAT),
        ("mg k Tx Fx\r\n", reply::BAD_TOKEN),
        ("mg YWJ b\r\n", reply::BAD_KEY),
        ("mg YWJ b Tx\r\n", reply::BAD_TOKEN),
        ("ma k Dx\r\n", reply::BAD_ARITHMETIC_FLAG),
        ("ma k Mx\r\n", reply::BAD_ARITHMETIC_MODE),
        ("me YWJ b\r\n", reply::BAD_FORMAT),
        ("md k O12345678901234567890123456789012\r\n", reply::OPAQUE_TOO_LONG),
    ];
    for (line, expected) in cases {
        assert_eq!(refused(line).0, expected, "{line}");
    }
    assert_eq!(parsed("mg k O1234567890123456789012345678901\r\n").1.opaque().len(), 32);
}

#[test]
fn keys_in_base64_are_decoded() {
    for (line, expected) in [
        ("mg Zm9vIGJhcg== b\r\n", &b"foo bar"[..]),
        ("mg QR== b\r\n", b"A"),
        ("me YWJj b\r\n", b"abc"),
    ] {
        let (request, echo) = parsed(line);
        assert!(echo.key_is_base64);
        assert_eq!(decode_key(request.key(), &mut [0; KEY_BUFFER_LEN]), expected, "{line}");
    }
    let longest: &'static str = format!("mg {}== b\r\n", "A".repeat(246)).leak();
    assert_eq!(decode_key(request(longest).key(), &mut [0; KEY_BUFFER_LEN]).len(), 184);
    let mut out = Vec::new();
    compose::write_flag_key(&mut out, true, b"A");
    assert_eq!(out, b" kQQ== b");
}

#[test]
fn a_line_above_the_limit_closes_the_connection() {
    assert_eq!(parse(b"mg key"), Parsed::Incomplete);
    let long = format!("mg {}", "k".repeat(2046));
    assert_eq!(parse(long.as_bytes()), Parsed::Hangup);
    assert_eq!(request("mn anything ! at all\r\n"), Request::NoOp);
}

#[test]
fn the_error_of_an_invalid_base64_key_replaces_the_errors_of_earlier_flags() {
    for (line, error) in [
        ("mg !! b\r\n", reply::BAD_KEY),
        ("mg !! Nx b\r\n", reply::BAD_KEY),
        ("mg !! b Nx\r\n", reply::BAD_TOKEN),
        ("mg !! Nx b Jx\r\n", reply::BAD_INITIAL),
        ("mg !! b Fx\r\n", reply::BAD_KEY),
        ("mg !! Nx b Fx\r\n", reply::BAD_KEY),
        ("mg !! b b\r\n", reply::DUPLICATE_FLAG),
        ("mg !! S b\r\n", reply::INVALID_FLAG),
        ("mg k Nx Fx\r\n", reply::BAD_TOKEN),
        ("ma !! b\r\n", reply::BAD_ARITHMETIC_FLAG),
    ] {
        assert_eq!(refused(line).0, error, "{line}");
    }
}

#[test]
fn a_word_that_is_not_a_flag_replaces_the_errors_of_the_key_length_and_of_the_number_of_flags() {
    let long_key = "k".repeat(251);
    let flags = |count: usize| " P1".repeat(count);
    for (line, error) in [
        (format!("mg {long_key}"), reply::BAD_FORMAT),
        (format!("ma {long_key}"), reply::BAD_ARITHMETIC_FLAG),
        (format!("ma {long_key} v !"), reply::BAD_FORMAT),
        (format!("mg k{}", flags(19)), reply::TOO_MANY_FLAGS),
        (format!("ma k{}", flags(19)), reply::BAD_ARITHMETIC_FLAG),
        (format!("ma k{} !", flags(20)), reply::BAD_FORMAT),
        // Further words are not checked.
        (format!("mg k{} !", flags(21)), reply::TOO_MANY_FLAGS),
    ] {
        assert_eq!(refused(&format!("{line}\r\n")).0, error, "{line}");
    }
}

#[test]
fn a_mode_that_is_a_zero_byte_has_no_effect() {
    assert_eq!(store("ms k 3 M\0\r\n").verb, StoreVerb::Set);
    let direction = Direction::Increment;
    let expected = Arithmetic { key: b"k", direction, delta: 1, ..Arithmetic::default() };
    assert_eq!(request("ma k M\0\r\n"), Request::Arithmetic(expected));
}
