use super::{NextKey, next_key, sole_key, write_number_line, write_stat_line, write_value_line};
use crate::text::{CostWire, reply};
use crate::{
    Admin, Answer, Arithmetic, Automove, Delete, Direction, Exptime, LruRequest, Parsed, Refusal,
    Request, ShutdownMode, Store, StoreVerb, TextAnswer, WatchKinds,
};
use slabwise_base::Cost;

/// Parses a line with costs disabled, as in memcached.
fn parse(input: &[u8]) -> Parsed<'_> {
    super::parse(input, CostWire::Off)
}

/// Returns the reply to an invalid line, and the number of bytes to skip.
#[track_caller]
fn refused(input: &[u8]) -> (&'static [u8], usize) {
    match parse(input) {
        Parsed::Refused { refusal: Refusal::Line(reply), consumed, skip_len } => {
            assert_eq!(consumed, input.len(), "a refused line is consumed to its end");
            (reply, skip_len)
        }
        other => panic!("{:?} gave {other:?}", String::from_utf8_lossy(input)),
    }
}

/// Returns the request of a valid line, and true if the line has `noreply`.
#[track_caller]
fn request(input: &[u8]) -> (Request<'_>, bool) {
    match parse(input) {
        Parsed::Request { request, answer, .. } => (request, noreply(answer)),
        other => panic!("{:?} gave {other:?}", String::from_utf8_lossy(input)),
    }
}

/// Returns true if the line has `noreply`.
fn noreply(answer: Answer) -> bool {
    match answer {
        Answer::Text(TextAnswer { noreply, with_cas: false }) => noreply,
        other => panic!("the reply to a line is a line without CAS values, not {other:?}"),
    }
}

#[test]
fn a_retrieval_does_not_consume_its_keys() {
    let get = |with_cas, touch: Option<i32>, consumed| Parsed::Request {
        request: Request::Retrieve(touch.map(Exptime::of_signed)),
        answer: Answer::Text(TextAnswer { noreply: false, with_cas }),
        consumed,
    };
    assert_eq!(parse(b"get a b\r\n"), get(false, None, 3));
    assert_eq!(parse(b"gets  a\n"), get(true, None, 4));
    assert_eq!(parse(b"gat 10 a\r\n"), get(false, Some(10), 6));
    assert_eq!(parse(b"gats -1 a\r\n"), get(true, Some(-1), 7));
    assert_eq!(parse(b"get noreply\r\n"), get(false, None, 3));
}

#[test]
fn a_retrieval_with_an_invalid_key_is_refused() {
    let long = [&b"get a "[..], &[b'k'; 251], b"\r\n"].concat();
    assert_eq!(refused(b"get\r\n"), (reply::BAD_FORMAT, 0));
    assert_eq!(refused(b"gets  \r\n"), (reply::BAD_FORMAT, 0));
    assert_eq!(refused(b"gat 10\r\n"), (reply::BAD_FORMAT, 0));
    assert_eq!(refused(b"gat x a\r\n"), (reply::BAD_EXPTIME, 0));
    assert_eq!(refused(b"  gets a\n"), (reply::ERROR, 0));
    assert_eq!(refused(&long), (reply::BAD_FORMAT, 0));
}

#[test]
fn a_storage_command_includes_the_length_of_its_value() {
    let header = Store {
        client_flags: 5,
        exptime: Exptime::Past,
        verb: StoreVerb::Cas(9),
        key: b"k",
        value_len: 10,
        ..Store::default()
    };
    assert_eq!(request(b"cas k 5 -1 10 9 noreply\r\n"), (Request::Store(header), true));
    let header = Store { verb: StoreVerb::Set, ..header };
    assert_eq!(request(b"set k 5 -1 10\r\n"), (Request::Store(header), false));
    assert_eq!(request(b"set k 5 -1 10 x\r\n"), (Request::Store(header), false));
    assert_eq!(request(b"set k 5 -1 10 x y noreply\r\n"), (Request::Store(header), true));
    assert_eq!(request(b"set k 5 -1 10 noreply x\r\n"), (Request::Store(header), false));
}

#[test]
fn a_store_with_a_cost_is_recognized_by_its_number_of_words() {
    let store_of = |line: &'static str| match super::parse(line.as_bytes(), CostWire::On) {
        Parsed::Request { request: Request::Store(header), answer, .. } => {
            (header, noreply(answer))
        }
        other => panic!("{line:?} gave {other:?}"),
    };
    let standard = Store {
        client_flags: 5,
        exptime: Exptime::Past,
        verb: StoreVerb::Set,
        key: b"k",
        value_len: 10,
        ..Store::default()
    };
    let with_cost = |units| Store { cost: Some(Cost::from_units(units)), ..standard };
    assert_eq!(store_of("set k 5 -1 10\r\n"), (standard, false));
    assert_eq!(store_of("set k 5 -1 10 noreply\r\n"), (standard, true));
    assert_eq!(store_of("set k 400 5 -1 10\r\n"), (with_cost(400), false));
    assert_eq!(store_of("set k 400 5 -1 10 noreply\r\n"), (with_cost(400), true));
    assert_eq!(store_of("set k 4294967295 5 -1 10\n"), (with_cost(u32::MAX), false));
    assert_eq!(store_of("set k 0 5 -1 10\n"), (with_cost(0), false));
    for (name, verb) in [("add", StoreVerb::Add), ("replace", StoreVerb::Replace)] {
        let line: &'static str = format!("{name} k 7 5 -1 10\r\n").leak();
        assert_eq!(store_of(line).0, Store { verb, ..with_cost(7) });
    }
    // Other commands, and lines with another number of words, have no cost.
    assert_eq!(store_of("cas k 5 -1 10 9\r\n").0, Store { verb: StoreVerb::Cas(9), ..standard });
    assert_eq!(store_of("append k 5 -1 10 9\r\n").0.cost, None);
    assert_eq!(store_of("prepend k 5 -1 10 9 noreply\r\n").0.value_len, 10);
    assert_eq!(store_of("set k 5 -1 10 1 2\r\n"), (standard, false));
    assert_eq!(store_of("set k 5 -1 10 1 2 noreply\r\n"), (standard, true));
}

#[test]
fn a_line_with_an_invalid_cost_is_refused() {
    let refused = |line: &str| match super::parse(line.as_bytes(), CostWire::On) {
        Parsed::Refused { refusal: Refusal::Line(reply), skip_len, .. } => (reply, skip_len),
        other => panic!("{line:?} gave {other:?}"),
    };
    for cost in ["4294967296", "-1", "+1", "x", "1.5"] {
        let line = format!("set k {cost} 5 -1 10\r\n");
        assert_eq!(refused(&line), (reply::BAD_FORMAT, 12), "{cost}");
        let line = format!("set k {cost} 5 -1 10 noreply\r\n");
        assert_eq!(refused(&line), (b"".as_slice(), 12), "{cost}");
    }
    assert_eq!(refused("set k 1 x 0 10\r\n"), (reply::BAD_FORMAT, 12));
    assert_eq!(refused("set k 1 0 x 10\r\n"), (reply::BAD_FORMAT, 12));
    assert_eq!(refused("set k 1 0 0 x\r\n"), (reply::BAD_FORMAT, 0));
    assert_eq!(refused("set k 1 0 0 -1 noreply\r\n"), (reply::BAD_FORMAT, 0));
}

#[test]
fn a_store_with_a_cost_is_refused_if_costs_are_off() {
    for name in ["set", "add", "replace"] {
        let line = format!("{name} k 400 5 -1 10\r\n");
        assert_eq!(refused(line.as_bytes()), (reply::COST_WIRE_OFF, 12));
        let line = format!("{name} k 400 5 -1 10 noreply\r\n");
        assert_eq!(refused(line.as_bytes()), (b"".as_slice(), 12));
    }
    // A line whose words are not valid with a cost has a word more than needed, which is ignored.
    for words in ["5 -1 10 -1", "5 0 10 x", "0 0 10 2147483647", "0 0 10 1 2"] {
        let line: &'static str = format!("add k {words}\r\n").leak();
        let (Request::Store(header), _) = request(line.as_bytes()) else {
            panic!("{line:?} must be a storage command");
        };
        assert_eq!((header.value_len, header.cost), (10, None), "{line}");
    }
}

#[test]
fn the_value_of_a_refused_line_is_skipped_if_its_length_is_known() {
    let long = [&b"set "[..], &[b'k'; 251], b" 0 0 10\r\n"].concat();
    assert_eq!(refused(&long), (reply::BAD_FORMAT, 12));
    assert_eq!(refused(b"set k x 0 10\r\n"), (reply::BAD_FORMAT, 12));
    assert_eq!(refused(b"set k 0 x 10 noreply\r\n"), (b"".as_slice(), 12));
    assert_eq!(refused(b"cas k 0 0 10 x\r\n"), (reply::BAD_FORMAT, 12));
    assert_eq!(refused(b"set k 0 0 x\r\n"), (reply::BAD_FORMAT, 0));
    assert_eq!(refused(b"set k 0 0 -1\r\n"), (reply::BAD_FORMAT, 0));
    assert_eq!(refused(b"set k 0 0 2147483646\r\n"), (reply::BAD_FORMAT, 0));
    assert_eq!(refused(b"set k 0 0 4294967297\r\n"), (reply::BAD_FORMAT, 0));
    assert_eq!(refused(b"cas k 0 0 10\r\n"), (reply::BAD_FORMAT, 12));
    assert_eq!(refused(b"cas k 0 0 10 noreply\r\n"), (b"".as_slice(), 12));
}

#[test]
fn noreply_does_not_suppress_missing_words_and_invalid_lengths() {
    for line in [
        &b"set k 0 0\r\n"[..],
        b"set k 0 noreply\r\n",
        b"set k 0 0 +1 noreply\r\n",
        b"set k 0 0 -1 noreply\r\n",
        b"cas k 0 0 x 1 noreply\r\n",
        b"incr noreply\r\n",
        b"touch k\r\n",
        b"delete\r\n",
        b"get\r\n",
    ] {
        assert_eq!(refused(line), (reply::BAD_FORMAT, 0), "{:?}", line.escape_ascii().to_string());
    }
}

#[test]
fn words_after_the_23rd_are_ignored() {
    let line =
        |fill, last: &str| ["touch k 0", &" x".repeat(fill), last, "\r\n"].concat().into_bytes();
    let touch = Request::Touch(b"k", Exptime::Never);
    assert_eq!(request(&line(19, " noreply")), (touch, true));
    assert_eq!(request(&line(20, " noreply")), (touch, false));
    assert_eq!(request(&line(19, " noreply x")), (touch, true));
}

#[test]
fn extra_words_are_ignored() {
    let delete = Request::Delete(Delete { key: b"k", ..Delete::default() });
    assert_eq!(request(b"delete k\r\n"), (delete, false));
    assert_eq!(request(b"delete k 0\r\n"), (delete, false));
    assert_eq!(request(b"delete k noreply\r\n"), (delete, true));
    assert_eq!(request(b"delete k 0 noreply\r\n"), (delete, true));
    assert_eq!(
        request(b"delete noreply\r\n"),
        (Request::Delete(Delete { key: b"noreply", ..Delete::default() }), true)
    );
    // As in memcached, a delay other than 0 is refused.
    assert_eq!(refused(b"delete k 1\r\n"), (reply::BAD_DELETE, 0));
    assert_eq!(refused(b"delete k 0 0\r\n"), (reply::BAD_DELETE, 0));
    assert_eq!(refused(b"delete k a b c\r\n"), (reply::BAD_DELETE, 0));
    assert_eq!(refused(b"delete k 1 noreply\r\n"), (b"".as_slice(), 0));
    let touch = Request::Touch(b"k", Exptime::Never);
    assert_eq!(request(b"touch k 0 0 0\r\n"), (touch, false));
    let flush = |exptime| Request::Admin(Admin::FlushAll(Exptime::of_signed(exptime)));
    assert_eq!(request(b"flush_all noreply\r\n"), (flush(0), true));
    assert_eq!(request(b"  flush_all 3 x noreply\r\n"), (flush(3), true));
    assert_eq!(refused(b"flush_all noreply x\r\n"), (reply::BAD_EXPTIME, 0));
}

#[test]
fn a_prefix_of_an_argument_name_is_enough() {
    let level = Request::Admin(Admin::Automove(Automove::Level(1)));
    assert_eq!(request(b"slabs a 1\r\n"), (level, false));
    let temporary_ttl = Request::Admin(Admin::Lru(LruRequest::TemporaryTtl(5)));
    assert_eq!(request(b"lru t 5\r\n"), (temporary_ttl, false));
    let graceful = Request::Admin(Admin::Shutdown(ShutdownMode::Graceful));
    assert_eq!(request(b"shutdown g\r\n"), (graceful, false));
    assert_eq!(refused(b"slabs\r\n"), (reply::ERROR, 0));
    assert_eq!(refused(b"lru_crawler\r\n"), (reply::ERROR, 0));
    assert_eq!(refused(b"lru_crawler enablex\r\n"), (reply::ERROR, 0));
    assert_eq!(refused(b"lru_crawler enable noreply\r\n"), (b"".as_slice(), 0));
}

#[test]
fn an_invalid_number_has_the_reply_of_memcached() {
    let up = Request::Arithmetic(Arithmetic {
        key: b"k",
        direction: Direction::Increment,
        delta: u64::MAX,
        ..Arithmetic::default()
    });
    assert_eq!(request(b"incr k 18446744073709551615\r\n"), (up, false));
    assert_eq!(refused(b"incr k 18446744073709551616\r\n"), (reply::BAD_DELTA, 0));
    assert_eq!(refused(b"decr k -1\r\n"), (reply::BAD_DELTA, 0));
    assert_eq!(refused(b"incr k +1\r\n"), (reply::BAD_DELTA, 0));
    assert_eq!(refused(b"decr k x noreply\r\n"), (b"".as_slice(), 0));
    assert_eq!(refused(b"touch k x\r\n"), (reply::BAD_EXPTIME, 0));
    assert_eq!(refused(b"touch k 2147483648\r\n"), (reply::BAD_EXPTIME, 0));
    assert_eq!(refused(b"flush_all x\r\n"), (reply::BAD_EXPTIME, 0));
    assert_eq!(refused(b"verbosity noreply\r\n"), (b"".as_slice(), 0));
    assert_eq!(refused(b"verbosity -1\r\n"), (reply::BAD_FORMAT, 0));
    assert_eq!(refused(b"slabs automove 3\r\n"), (reply::ERROR, 0));
    assert_eq!(refused(b"slabs automove window 2\r\n"), (reply::BAD_WINDOW, 0));
    assert_eq!(refused(b"slabs automove window 4294967295\r\n"), (reply::BAD_WINDOW, 0));
    assert_eq!(refused(b"slabs automove window 4294967306\r\n"), (reply::BAD_FORMAT, 0));
    let many = [&b"watch"[..], &b" evictions".repeat(100), b"\r\n"].concat();
    let watch = |kinds| (Request::Admin(Admin::Watch(kinds)), false);
    assert_eq!(request(&many), watch(Some(WatchKinds::EVICTIONS)));
    assert_eq!(request(b"watch foo\r\n"), watch(None));
    assert_eq!(request(b"watch noreply\r\n"), watch(None));
    let ratio = Request::Admin(Admin::Automove(Automove::Ratio(0.5)));
    assert_eq!(request(b"slabs automove ratio 0.5\r\n"), (ratio, false));
}

#[test]
fn an_unknown_command_is_an_error_and_an_http_request_closes_the_connection() {
    for short in [&b"\n"[..], b"\r\n", b"a\r\n", b"mn\n"] {
        assert_eq!(refused(short), (reply::BAD_FORMAT, 0));
    }
    assert_eq!(refused(b"ab\r\n"), (reply::ERROR, 0));
    assert_eq!(refused(b"abc\n"), (reply::ERROR, 0));
    assert_eq!(refused(b"bget k\r\n"), (reply::ERROR, 0));
    assert_eq!(refused(b" version\r\n"), (reply::ERROR, 0));
    assert_eq!(refused(b"GET k\r\n"), (reply::ERROR, 0));
    assert_eq!(refused(b"bogus noreply\r\n"), (b"".as_slice(), 0));
    assert_eq!(refused(b"noreply\r\n"), (b"".as_slice(), 0));
    assert_eq!(refused(b"HTTP/1.1\r\n"), (reply::ERROR, 0));
    assert_eq!(parse(b"GET / HTTP/1.1\r\n"), Parsed::Hangup);
}

#[test]
fn only_a_retrieval_may_exceed_the_line_limit() {
    assert_eq!(parse(&[b'x'; 2048]), Parsed::Incomplete);
    assert_eq!(parse(&[b'x'; 2049]), Parsed::Hangup);
    assert_eq!(parse(&[b' '; 2049]), Parsed::Hangup);
    assert_eq!(parse(&[&b" get k"[..], &[b' '; 2049]].concat()), Parsed::Hangup);
    let keys = [b' '; 3000];
    let consumed = |input: &[u8]| match parse(input) {
        Parsed::Request { request: Request::Retrieve(_), consumed, .. } => consumed,
        other => panic!("{other:?}"),
    };
    assert_eq!(consumed(&[&b"gets"[..], &keys].concat()), 4);
    assert_eq!(consumed(&[&b"gat 5"[..], &keys].concat()), 5);
    assert_eq!(parse(&[&b"gat x"[..], &keys].concat()), Parsed::Hangup);
    assert_eq!(parse(&[&b"set k"[..], &keys].concat()), Parsed::Hangup);
}

#[test]
fn a_sole_key_is_followed_by_the_line_end() {
    assert_eq!(sole_key(b" a\r\nget b"), Some((&b"a"[..], 4)));
    assert_eq!(sole_key(b" a\n"), Some((&b"a"[..], 3)));
    for several in [&b" a b\r\n"[..], b" a \r\n", b" a", b" a\r", b"\r\n", b""] {
        assert_eq!(sole_key(several), None, "{}", several.escape_ascii());
    }
}

#[test]
fn a_key_ends_at_a_space_or_at_the_line_end() {
    assert_eq!(next_key(b"  a b\r\n"), NextKey::Key(b"a", 3));
    assert_eq!(next_key(b" b\r\nget"), NextKey::Key(b"b", 2));
    assert_eq!(next_key(b"\r\nget"), NextKey::End(2));
    assert_eq!(next_key(b" \nget"), NextKey::End(2));
    assert_eq!(next_key(b"a\rb \n"), NextKey::Key(b"a\rb", 3));
}

#[test]
fn a_key_without_its_end_is_incomplete() {
    assert_eq!(next_key(b""), NextKey::Incomplete(0));
    assert_eq!(next_key(b"   ab"), NextKey::Incomplete(3));
    assert_eq!(next_key(b"ab\r"), NextKey::Incomplete(0));
}

#[test]
fn a_key_of_251_bytes_is_too_long() {
    let longest = [b'k'; 250];
    let line = [&longest[..], b"\r\n"].concat();
    assert_eq!(next_key(&line), NextKey::Key(&longest, 250));
    assert_eq!(next_key(&[b'k'; 251]), NextKey::Incomplete(0));
    assert_eq!(next_key(&[b'k'; 252]), NextKey::TooLong);
    assert_eq!(next_key(&[&[b'k'; 251][..], b" "].concat()), NextKey::TooLong);
}

#[test]
fn a_value_line_may_have_a_cas_value() {
    let mut out = Vec::new();
    write_value_line(&mut out, b"k", 0, 5, None);
    write_value_line(&mut out, b"k", u32::MAX, 0, Some(u64::MAX));
    let expected = "VALUE k 0 5\r\nVALUE k 4294967295 0 18446744073709551615\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn a_number_and_a_statistic_end_with_a_line_end() {
    let mut out = Vec::new();
    write_number_line(&mut out, 10);
    write_stat_line(&mut out, "pid", 7);
    assert_eq!(out, b"10\r\nSTAT pid 7\r\n");
}
