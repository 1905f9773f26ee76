use super::parse;
use crate::binary::{Fault, HEAD_LEN, Head, opcode};
use crate::{
    Answer, Arithmetic, Delete, DetailMode, Direction, Exptime, Get, Initial, Parsed, Refusal,
    Request, Sasl, StatsRequest, Store, StoreVerb,
};

/// Returns a request packet with consistent lengths.
fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body_len = extras.len() + key.len() + value.len();
    let mut bytes = head(opcode, extras.len(), key.len(), body_len);
    for part in [extras, key, value] {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Returns a head with these lengths, the opaque bytes `opaq` and the CAS value [`CAS`].
fn head(opcode: u8, extras_len: usize, key_len: usize, body_len: usize) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode];
    bytes.extend((key_len as u16).to_be_bytes());
    bytes.extend([extras_len as u8, 0, 0, 0]);
    bytes.extend((body_len as u32).to_be_bytes());
    bytes.extend(*b"opaq");
    bytes.extend(7u64.to_be_bytes());
    bytes
}

/// The CAS value in the head of every packet of these tests.
const CAS: Option<u64> = Some(7);

/// Parses a valid request. Returns the request, its head, and the number of bytes consumed.
#[track_caller]
fn parsed(input: &[u8]) -> (Request<'_>, Head, usize) {
    match parse(input) {
        Parsed::Request { request, answer: Answer::Binary(head), consumed } => {
            assert_eq!((head.opcode, head.opaque, head.cas), (input[1], *b"opaq", 7));
            (request, head, consumed)
        }
        other => panic!("the request is valid, but the parser returned {other:?}"),
    }
}

/// Parses a valid request. Returns the request and the number of bytes consumed.
#[track_caller]
fn request(input: &[u8]) -> (Request<'_>, usize) {
    let (request, _, consumed) = parsed(input);
    (request, consumed)
}

/// Parses an invalid request. Returns its error and the number of bytes to skip.
#[track_caller]
fn fault(input: &[u8]) -> (Fault, usize) {
    match parse(input) {
        Parsed::Refused { refusal: Refusal::Packet(_, fault), skip_len, .. } => (fault, skip_len),
        other => panic!("the request is invalid, but the parser returned {other:?}"),
    }
}

#[test]
fn a_get_has_a_key_and_may_have_an_expiry() {
    let input = packet(opcode::GET, b"", b"key", b"");
    assert_eq!(request(&input), (Request::Get(Get { key: b"key", ..Get::default() }), 27));
    assert!(!parsed(&input).1.with_key);
    let input = packet(opcode::GETKQ, b"", b"key", b"");
    assert_eq!(request(&input).0, Request::Get(Get { key: b"key", ..Get::default() }));
    assert!(parsed(&input).1.with_key);
    let input = packet(opcode::GATK, &[0xff, 0, 0, 1], b"k", b"");
    let touch = Some(Exptime::At(0xff00_0001));
    assert_eq!(request(&input), (Request::Get(Get { key: b"k", touch, ..Get::default() }), 29));
    assert!(parsed(&input).1.with_key);
    let input = packet(opcode::TOUCH, &[0, 0, 0, 9], b"k", b"");
    assert_eq!(request(&input).0, Request::Touch(b"k", Exptime::At(9)));
}

#[test]
fn the_value_of_a_store_is_not_consumed() {
    let input = packet(opcode::SET, &[1, 2, 3, 4, 0, 0, 0, 5], b"key", b"value");
    let store = Store {
        client_flags: 0x0102_0304,
        exptime: Exptime::At(5),
        expected_cas: CAS,
        verb: StoreVerb::Set,
        key: b"key",
        value_len: 5,
        ..Store::default()
    };
    assert_eq!(request(&input), (Request::Store(store), HEAD_LEN + 11));
    assert_eq!(request(&input[..HEAD_LEN + 11]).0, Request::Store(store));
    let input = packet(opcode::PREPENDQ, b"", b"key", b"value");
    let verb = StoreVerb::Prepend;
    let store = Store { verb, client_flags: 0, exptime: Exptime::Never, ..store };
    assert_eq!(request(&input).0, Request::Store(store));
}

#[test]
fn arithmetic_creates_numbers_unless_the_expiry_forbids_it() {
    let mut extras = [&[0; 7][..], &[3], &[0; 7], &[9], &[0, 0, 0, 60]].concat();
    let input = packet(opcode::INCREMENT, &extras, b"n", b"");
    let change = |direction, initial| {
        let change = Arithmetic { key: b"n", direction, delta: 3, ..Arithmetic::default() };
        Request::Arithmetic(Arithmetic { expected_cas: CAS, initial, ..change })
    };
    let exptime = Exptime::At(60);
    let initial = Initial { value: 9, exptime, first_exptime: exptime };
    assert_eq!(request(&input).0, change(Direction::Increment, Some(initial)));
    extras[16..].copy_from_slice(&[0xff; 4]);
    let input = packet(opcode::DECREMENTQ, &extras, b"n", b"");
    assert_eq!(request(&input).0, change(Direction::Decrement, None));
    let input = packet(opcode::DELETEQ, b"", b"n", b"");
    let delete = Delete { expected_cas: CAS, key: b"n", ..Delete::default() };
    assert_eq!(request(&input).0, Request::Delete(delete));
}

#[test]
fn a_stat_request_has_a_known_or_unknown_subject() {
    for (name, subject) in [
        (&b""[..], StatsRequest::General),
        (b"items", StatsRequest::Items),
        (b"settings", StatsRequest::Settings),
        (b"detail dump", StatsRequest::Detail(DetailMode::Dump)),
        (b"reset", StatsRequest::Reset),
        (b"itemsx", StatsRequest::Unknown(b"itemsx")),
        (b"detail", StatsRequest::Unknown(b"detail")),
        (b"conns", StatsRequest::Unknown(b"conns")),
    ] {
        assert_eq!(request(&packet(opcode::STAT, b"", name, b"")).0, Request::Stats(subject));
    }
}

#[test]
fn quiet_opcodes_are_those_of_memcached() {
    let quiet = |&opcode: &u8| opcode::is_quiet(opcode);
    let all: Vec<u8> = (0..=255).filter(quiet).collect();
    let expected =
        [0x09, 0x0d, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1e, 0x24];
    assert_eq!(all, expected);
}

#[test]
fn contradictory_and_excessive_lengths_are_refused() {
    let input = [&head(opcode::GET, 0, 5, 4)[..], &[0; 5]].concat();
    assert_eq!(fault(&input), (Fault::BadLengths, 0));
    let input = [&head(0xee, 255, 0, 254)[..], &[0; 255]].concat();
    assert_eq!(fault(&input), (Fault::BadLengths, 0));
    let input = [&head(opcode::GET, 0, 0xffff, 4)[..], &[0; 2024]].concat();
    assert_eq!(fault(&input), (Fault::BadLengths, 0));
    let input = [&head(opcode::SET, 8, 1, (1 << 30) + 1)[..], &[0; 9]].concat();
    assert_eq!(fault(&input), (Fault::BodyTooLarge, 0));
    let input = [&head(opcode::SET, 8, 1, 1 << 30)[..], &[0; 9]].concat();
    assert!(matches!(request(&input).0, Request::Store(store) if store.value_len == (1 << 30) - 9));
    let input = packet(opcode::GET, b"", &[b'k'; 251], b"");
    assert_eq!(fault(&input), (Fault::BadArguments, 0));
    let input = packet(opcode::GET, b"", &[b'k'; 250], b"");
    assert!(matches!(request(&input).0, Request::Get(_)));
}

#[test]
fn a_command_accepts_only_parts_of_its_lengths() {
    const KEY: usize = 1;
    /// Opcodes of a command, valid lengths of the extras, valid lengths of the key, and true if a value is valid.
    type ValidLengths = (&'static [u8], &'static [usize], &'static [usize], bool);
    let valid_lengths: [ValidLengths; 8] = [
        (&[0x00, 0x09, 0x0c, 0x0d, 0x04, 0x14], &[0], &[KEY], false),
        (&[0x1c, 0x1d, 0x1e, 0x23, 0x24], &[4], &[KEY], false),
        (&[0x01, 0x02, 0x03, 0x11, 0x12, 0x13], &[8], &[KEY], true),
        (&[0x0e, 0x0f, 0x19, 0x1a, 0x21, 0x22], &[0], &[KEY], true),
        (&[0x05, 0x06, 0x15, 0x16], &[20], &[KEY], false),
        (&[0x08, 0x18], &[0, 4], &[0], false),
        (&[0x10], &[0], &[0, KEY], false),
        (&[0x07, 0x17, 0x0a, 0x0b, 0x20], &[0], &[0], false),
    ];
    for (opcodes, extras_lens, key_lens, may_have_value) in valid_lengths {
        for &opcode in opcodes {
            for extras_len in [0, 4, 8, 16, 20, 255] {
                for (key_len, value_len) in [(0, 0), (KEY, 0), (0, 1), (KEY, 1)] {
                    let input = packet(
                        opcode,
                        &vec![0; extras_len],
                        &vec![b'k'; key_len],
                        &vec![0; value_len],
                    );
                    let is_good = extras_lens.contains(&extras_len)
                        && key_lens.contains(&key_len)
                        && (value_len == 0 || may_have_value);
                    let parsed = parse(&input);
                    let context =
                        format!("{opcode:#x} {extras_len} {key_len} {value_len}: {parsed:?}");
                    match parsed {
                        Parsed::Request { .. } => assert!(is_good, "{context}"),
                        Parsed::Refused {
                            refusal: Refusal::Packet(_, Fault::BadArguments),
                            ..
                        } => {
                            assert!(!is_good, "{context}");
                        }
                        _ => panic!("{context}"),
                    }
                }
            }
        }
    }
}

#[test]
fn the_body_of_an_unknown_command_is_skipped() {
    for opcode in [0x1b, 0x1f, 0x25, 0x30, 0xff] {
        let input = packet(opcode, b"extras", b"key", b"value");
        assert_eq!(fault(&input), (Fault::UnknownCommand, 5));
        let Parsed::Refused { consumed, .. } = parse(&input) else {
            unreachable!("`fault` accepts only refused requests")
        };
        assert_eq!(consumed, HEAD_LEN + 9);
    }
}

#[test]
fn a_sasl_request_includes_its_response_up_to_a_limit() {
    let input = packet(opcode::SASL_AUTH, b"", b"PLAIN", b"\0user\0pass");
    let expected = Request::Sasl(Sasl::Auth { mechanism: b"PLAIN", response: b"\0user\0pass" });
    assert_eq!(request(&input), (expected, input.len()));
    assert_eq!(parse(&input[..input.len() - 1]), Parsed::Incomplete);
    let input = packet(opcode::SASL_STEP, b"", b"PLAIN", b"x");
    assert_eq!(request(&input).0, Request::Sasl(Sasl::Step(b"x")));
    let input = packet(opcode::SASL_AUTH, b"", &[b'X'; 33], b"value");
    assert_eq!(fault(&input), (Fault::MechanismTooLong, 5));
    let input = packet(opcode::SASL_AUTH, b"", b"PLAIN", &[b'x'; 1025]);
    assert_eq!(fault(&input), (Fault::ResponseTooLong, 1025));
}

#[test]
fn a_first_byte_other_than_the_magic_number_closes_the_connection() {
    assert_eq!(parse(b"get"), Parsed::Hangup);
    assert_eq!(parse(b"\x81"), Parsed::Hangup);
    assert_eq!(parse(b""), Parsed::Incomplete);
    assert_eq!(parse(&packet(opcode::NOOP, b"", b"", b"")[..23]), Parsed::Incomplete);
    assert_eq!(parse(&packet(opcode::GET, b"", b"key", b"")[..26]), Parsed::Incomplete);
}
