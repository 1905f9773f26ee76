use super::{KEY_BUFFER_LEN, Parsed, Request, SetMode, Verb, begins, parse, reply};
use crate::Direction;
use slabwise_base::Cost;

fn request(line: &'static str) -> Request<'static> {
    match parse(line.as_bytes()) {
        Parsed::Request { request, consumed } => {
            assert_eq!(consumed, line.find('\n').expect("a whole line") + 1, "{line}");
            request
        }
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str) -> (&'static [u8], usize) {
    match parse(line.as_bytes()) {
        Parsed::Refused { reply, skip_len, .. } => (reply, skip_len),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn only_its_own_commands_begin_it() {
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
fn flags_are_values_and_letters_in_order() {
    let get = request("mg  key  v t Oab  T30 N-1 R7 C5 E18446744073709551615 k\r\nrest");
    assert_eq!(get.verb, Verb::Get);
    assert_eq!((get.key.wire(), get.key.is_base64()), (&b"key"[..], false));
    assert_eq!(get.echo.letters(), b"vtOTNRCEk");
    assert_eq!(get.echo.opaque(), b"Oab");
    assert!(get.echo.has_before(b't', b'T') && !get.echo.has_before(b'T', b't'));
    let options = get.options;
    assert!(options.has(b'v') && options.has(b'k') && !options.has(b'q'));
    assert_eq!((options.exptime, options.vivify, options.recache), (Some(30), Some(-1), Some(7)));
    assert_eq!((options.expected_cas, options.new_cas), (Some(5), Some(u64::MAX)));
    let arithmetic = request("ma k MD D9 J8\n");
    assert_eq!(arithmetic.verb, Verb::Arithmetic(Direction::Decrement));
    assert_eq!((arithmetic.options.delta, arithmetic.options.initial), (9, 8));
    assert_eq!(request("ma k P1 L2\n").options.delta, 1);
}

#[test]
fn a_cost_is_told_and_asked_for() {
    let cost = |line| request(line).options.cost;
    assert_eq!(cost("ms k 3 G0\r\n"), Some(Cost::from_units(0)));
    assert_eq!(cost("ms k 3 T30 G4294967295 MA\r\n"), Some(Cost::from_units(u32::MAX)));
    assert_eq!(cost("ms k 3 g\r\n"), None);
    assert!(request("mg k v g\r\n").options.has(b'g'));
    for line in ["ms k 3 G\r\n", "ms k 3 G-1\r\n", "ms k 3 G4294967296\r\n", "ms k 3 G1.5\r\n"] {
        assert_eq!(refused(line), (reply::BAD_TOKEN, 5), "{line}");
    }
    assert_eq!(refused("ms k 3 G1 G2\r\n"), (reply::DUPLICATE_FLAG, 5));
    let mut out = Vec::new();
    super::compose::flag_cost(&mut out, Some(Cost::from_units(450)));
    super::compose::flag_cost(&mut out, Some(Cost::default()));
    super::compose::flag_cost(&mut out, None);
    assert_eq!(out, b" g450 g0 g-1");
}

#[test]
fn sets_have_a_length_and_a_mode() {
    let modes = [
        ("", SetMode::Set),
        ("MS", SetMode::Set),
        ("ME", SetMode::Add),
        ("MA", SetMode::Append),
        ("MPlenty", SetMode::Prepend),
        ("MR", SetMode::Replace),
    ];
    for (flag, mode) in modes {
        let line: &'static str = format!("ms k 3 {flag}\r\n").leak();
        assert_eq!(request(line).verb, Verb::Set { value_len: 3, mode });
    }
    assert_eq!(request("ms k 3 F7\r\n").options.client_flags, 7);
    for line in ["ms k\r\n", "ms k x\r\n", "ms k -1\r\n", "ms k 2147483646\r\n", "ms\r\n"] {
        assert_eq!(refused(line), (reply::BAD_FORMAT, 0), "{line}");
    }
    assert_eq!(refused("ms k 3 Mx\r\n"), (reply::BAD_SET_MODE, 5));
    assert_eq!(refused("ms k 3 M\r\n"), (reply::BAD_SET_MODE, 5));
    assert_eq!(refused("ms k 3 S100\r\n"), (reply::INVALID_FLAG, 5));
    assert_eq!(refused("ms k 3 !\r\n"), (reply::BAD_FORMAT, 5));
}

#[test]
fn faults_are_told_as_memcached_tells_them() {
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
    assert_eq!(request("mg k O1234567890123456789012345678901\r\n").echo.opaque().len(), 32);
}

#[test]
fn keys_in_base64_are_decoded() {
    for (line, expected) in [
        ("mg Zm9vIGJhcg== b\r\n", &b"foo bar"[..]),
        ("mg QR== b\r\n", b"A"),
        ("me YWJj b\r\n", b"abc"),
    ] {
        let key = request(line).key;
        assert!(key.is_base64());
        assert_eq!(key.decode(&mut [0; KEY_BUFFER_LEN]), expected, "{line}");
    }
    let longest: &'static str = format!("mg {}== b\r\n", "A".repeat(246)).leak();
    assert_eq!(request(longest).key.decode(&mut [0; KEY_BUFFER_LEN]).len(), 184);
    let mut out = Vec::new();
    super::compose::flag_key(&mut out, true, b"A");
    assert_eq!(out, b" kQQ== b");
}

#[test]
fn a_line_is_waited_for_up_to_the_limit() {
    assert_eq!(parse(b"mg key"), Parsed::Incomplete);
    let long = format!("mg {}", "k".repeat(2046));
    assert_eq!(parse(long.as_bytes()), Parsed::Hangup);
    assert_eq!(request("mn anything ! at all\r\n").verb, Verb::NoOp);
}
