//! Dialogues in which slabwise and memcached must send the same replies.

use super::connected_server::{ConnectedServer, Pace};
use super::packet::{
    ADD, ADDQ, APPEND, APPENDQ, DECREMENT, DECREMENTQ, DELETE, DELETEQ, DO_NOT_CREATE, FLUSH,
    FLUSHQ, GAT, GATK, GATKQ, GATQ, GET, GETK, GETKQ, GETQ, INCREMENT, INCREMENTQ, NOOP, PREPEND,
    PREPENDQ, Packet, QUIT, QUITQ, REPLACE, REPLACEQ, SASL_AUTH, SASL_LIST_MECHS, SASL_STEP, SET,
    SETQ, STAT, TOUCH, VERBOSITY, arithmetic, extend, keyed, packet, store, touch,
};
use crate::support::{ServerCommand, stock_memcached, under_test};

/// Sends each step to memcached and to slabwise with one and four workers, and compares the replies.
fn compare(flags: &[&str], steps: &[Packet]) {
    let results = |command: ServerCommand| {
        let mut server = ConnectedServer::start(&command.with(flags));
        steps.iter().map(|step| server.step(step)).collect::<Vec<_>>()
    };
    let expected = results(stock_memcached());
    for workers in ["1", "4"] {
        let actual = results(under_test().with(&["-t", workers]));
        for (index, step) in steps.iter().enumerate() {
            assert_eq!(actual[index], expected[index], "step {index} of {flags:?}: {step:?}");
        }
    }
}

/// Compares the replies in three ways: each step is sent alone, all steps are sent in one write, and all steps are sent
/// byte by byte. No step may refer to the CAS value of another step.
fn compare_at_any_pace(flags: &[&str], steps: &[Packet]) {
    compare(flags, steps);
    for pace in [Pace::Whole, Pace::Bytewise] {
        let mut memcached = ConnectedServer::start(&stock_memcached().with(flags));
        let mut slabwise = ConnectedServer::start(&under_test().with(flags));
        let expected = memcached.pipeline(steps, pace);
        assert_eq!(slabwise.pipeline(steps, pace), expected, "{pace:?} with {flags:?}");
    }
}

#[test]
fn replies_to_gets_match_memcached() {
    compare_at_any_pace(
        &[],
        &[
            keyed(GET, "k"),
            keyed(GETK, "k"),
            keyed(GETQ, "k"),
            keyed(GETKQ, "k"),
            store(SET, "k", b"value"),
            keyed(GET, "k").opaque(0xffff_ffff),
            keyed(GETK, "k").opaque(0),
            keyed(GETQ, "k"),
            keyed(GETKQ, "k"),
            store(SET, "empty", b""),
            keyed(GET, "empty"),
            keyed(GETK, "empty"),
            store(SET, &"k".repeat(250), b"x"),
            keyed(GETK, &"k".repeat(250)),
            packet(SET).extras(&[0; 8]).key(b"a b\r\n\0\xff").value(b"\r\n\0END\r\n"),
            packet(GETK).key(b"a b\r\n\0\xff"),
        ],
    );
}

#[test]
fn replies_to_stores_match_memcached() {
    compare_at_any_pace(
        &[],
        &[
            store(REPLACE, "k", b"0"),
            store(REPLACEQ, "k", b"0"),
            extend(APPEND, "k", b"0"),
            extend(PREPENDQ, "k", b"0"),
            store(ADD, "k", b"1"),
            store(ADD, "k", b"2"),
            store(ADDQ, "k", b"2"),
            store(REPLACE, "k", b"3"),
            extend(APPEND, "k", b"after"),
            extend(PREPEND, "k", b"before"),
            extend(APPENDQ, "k", b"."),
            extend(PREPENDQ, "k", b"."),
            extend(APPEND, "k", b""),
            keyed(GET, "k"),
            store(SETQ, "k", b"4"),
            store(REPLACEQ, "k", b"5"),
            store(ADDQ, "other", b"6"),
            keyed(GET, "k"),
            keyed(GET, "other"),
        ],
    );
}

#[test]
fn stores_and_deletes_with_cas_values_match_memcached() {
    compare(
        &[],
        &[
            store(SET, "none", b"x").cas(1),
            store(ADD, "none", b"x").cas(1),
            store(REPLACE, "none", b"x").cas(1),
            extend(APPEND, "none", b"x").cas(1),
            keyed(DELETE, "none").cas(1),
            store(SET, "k", b"first"),
            store(SET, "k", b"bad").cas_mismatch(5),
            store(SETQ, "k", b"bad").cas_mismatch(5),
            store(SET, "k", b"second").cas_of(5),
            store(SET, "k", b"bad").cas_of(5),
            store(ADD, "k", b"third").cas_of(8),
            store(REPLACE, "k", b"bad").cas_of(8),
            store(REPLACE, "k", b"fourth").cas_of(10),
            extend(APPEND, "k", b"bad").cas_of(10),
            extend(APPEND, "k", b"+").cas_of(12),
            extend(PREPEND, "k", b"bad").cas_of(12),
            extend(PREPEND, "k", b"+").cas_of(14),
            keyed(GET, "k"),
            keyed(DELETE, "k").cas_of(14),
            keyed(DELETEQ, "k").cas_of(14),
            keyed(DELETE, "k").cas_of(17),
            keyed(GET, "k"),
            // A quiet set sends no reply, also if it has a CAS value.
            store(SETQ, "k", b"x").cas_of(17),
            keyed(GET, "k"),
        ],
    );
}

#[test]
fn arithmetic_with_cas_values_matches_memcached() {
    compare(
        &[],
        &[
            arithmetic(INCREMENT, "n", 1, 5, 0).cas(77),
            keyed(GET, "n"),
            arithmetic(INCREMENT, "n", 1, 5, 0).cas_mismatch(1),
            arithmetic(INCREMENTQ, "n", 1, 5, 0).cas_mismatch(1),
            arithmetic(INCREMENT, "n", 1, 5, 0).cas_of(1),
            arithmetic(DECREMENT, "n", 1, 5, 0).cas_of(1),
            arithmetic(DECREMENT, "n", 1, 5, 0).cas_of(4),
            keyed(GET, "n"),
        ],
    );
}

#[test]
fn replies_of_servers_without_cas_match_memcached() {
    compare(
        &["-C"],
        &[
            store(SET, "k", b"1"),
            keyed(GET, "k"),
            store(SET, "k", b"2").cas(9),
            store(ADD, "k", b"3").cas(9),
            store(REPLACE, "k", b"4").cas(9),
            extend(APPEND, "k", b"5").cas(9),
            keyed(GET, "k"),
            keyed(DELETE, "k").cas(9),
            arithmetic(INCREMENT, "k", 1, 0, 0).cas(9),
            arithmetic(INCREMENT, "k", 1, 0, 0),
            keyed(DELETE, "k"),
        ],
    );
}

#[test]
fn replies_to_deletes_match_memcached() {
    compare_at_any_pace(
        &[],
        &[
            keyed(DELETE, "k"),
            keyed(DELETEQ, "k"),
            store(SET, "k", b"1"),
            keyed(DELETE, "k"),
            keyed(DELETE, "k"),
            store(SET, "k", b"1"),
            keyed(DELETEQ, "k"),
            keyed(GET, "k"),
        ],
    );
}

#[test]
fn replies_to_arithmetic_match_memcached() {
    compare_at_any_pace(
        &[],
        &[
            arithmetic(INCREMENT, "n", 1, 10, DO_NOT_CREATE),
            arithmetic(DECREMENTQ, "n", 1, 10, DO_NOT_CREATE),
            arithmetic(INCREMENT, "n", 1, 10, 0),
            keyed(GET, "n"),
            arithmetic(INCREMENT, "n", 5, 10, 0),
            arithmetic(DECREMENT, "n", 14, 10, DO_NOT_CREATE),
            keyed(GET, "n"),
            arithmetic(DECREMENT, "n", 100, 10, 0),
            arithmetic(INCREMENT, "n", u64::MAX, 0, 0),
            arithmetic(INCREMENT, "n", 1, 0, 0),
            arithmetic(INCREMENTQ, "n", 3, 0, 0),
            arithmetic(DECREMENTQ, "n", 1, 0, 0),
            arithmetic(INCREMENT, "n", 0, 0, 0),
            arithmetic(INCREMENTQ, "made", 3, 42, 100),
            keyed(GET, "made"),
            arithmetic(DECREMENT, "max", 1, u64::MAX, 0),
            keyed(GET, "max"),
            store(SET, "text", b"text"),
            arithmetic(INCREMENT, "text", 1, 0, 0),
            arithmetic(DECREMENTQ, "text", 1, 0, 0),
            store(SET, "none", b""),
            arithmetic(INCREMENT, "none", 1, 0, 0),
            store(SET, "spaced", b" 7 "),
            arithmetic(INCREMENT, "spaced", 1, 0, 0),
            store(SET, "flagged", b"99"),
            arithmetic(INCREMENT, "flagged", 1, 0, 0),
            keyed(GET, "flagged"),
        ],
    );
}

#[test]
fn replies_to_touches_match_memcached() {
    compare_at_any_pace(
        &[],
        &[
            touch(TOUCH, "k", 10),
            touch(GAT, "k", 10),
            touch(GATQ, "k", 10),
            touch(GATK, "k", 10),
            touch(GATKQ, "k", 10),
            store(SET, "k", b"value"),
            touch(TOUCH, "k", 0),
            touch(GAT, "k", 100),
            touch(GATQ, "k", 0),
            touch(GATK, "k", 2_592_000),
            touch(GATKQ, "k", 4_000_000_000),
            keyed(GET, "k"),
            // 2,592,001 s is more than 30 days, so it is a Unix time in the past.
            touch(GAT, "k", 2_592_001),
            keyed(GET, "k"),
        ],
    );
}

#[test]
fn expiration_times_are_unsigned_as_in_memcached() {
    let with_exptime = |key: &str, exptime: u32| {
        store(SET, key, b"v").extras(&[[0; 4], exptime.to_be_bytes()].concat())
    };
    compare_at_any_pace(
        &[],
        &[
            with_exptime("a", 100),
            with_exptime("b", 2_592_001),
            with_exptime("c", 0x8000_0000),
            with_exptime("d", 0xffff_ffff),
            keyed(GET, "a"),
            keyed(GET, "b"),
            keyed(GET, "c"),
            keyed(GET, "d"),
            touch(TOUCH, "a", 0xffff_ffff),
            keyed(GET, "a"),
        ],
    );
}

#[test]
fn replies_to_flushes_match_memcached() {
    compare_at_any_pace(
        &[],
        &[
            store(SET, "k", b"1"),
            packet(FLUSH),
            keyed(GET, "k"),
            store(SET, "k", b"1"),
            packet(FLUSHQ).extras(&[0; 4]),
            keyed(GET, "k"),
            store(SET, "k", b"1"),
            packet(FLUSH).extras(&100u32.to_be_bytes()),
            keyed(GET, "k"),
        ],
    );
    compare_at_any_pace(&["-F"], &[packet(FLUSH), packet(FLUSHQ), packet(NOOP)]);
}

#[test]
fn replies_with_large_values_match_memcached() {
    let large = |len: usize| (0..len).map(|at| (at ^ (at >> 8)) as u8).collect::<Vec<_>>();
    compare(
        &["-m", "256"],
        &[
            store(SET, "k", &large(4_096)),
            keyed(GET, "k"),
            store(SETQ, "k", &large(100_000)),
            keyed(GETQ, "k"),
            keyed(GETKQ, "k"),
            store(SET, "k", &large(1_000_000)),
            keyed(GETK, "k"),
            touch(GAT, "k", 0),
            store(SET, "small", b"old"),
            store(SET, "small", &large(1 << 20)),
            keyed(GET, "small"),
            store(REPLACEQ, "k", &large(1 << 20)),
            keyed(GET, "k"),
            store(SET, "k", &large(600_000)),
            extend(APPEND, "k", &large(600_000)),
            extend(PREPENDQ, "k", &large(600_000)),
            extend(APPEND, "k", &large(1 << 21)),
            keyed(GET, "k"),
        ],
    );
}

#[test]
fn replies_to_unknown_commands_match_memcached() {
    compare_at_any_pace(
        &[],
        &[
            packet(VERBOSITY),
            packet(0x30),
            packet(0xff).value(b"a body"),
            packet(SASL_LIST_MECHS),
            packet(SASL_AUTH).key(b"PLAIN").value(b"\0user\0pass"),
            packet(SASL_STEP).key(b"PLAIN").value(b"\0user\0pass"),
            keyed(STAT, "nonsense"),
            keyed(STAT, "conns"),
            keyed(STAT, "detail"),
            keyed(STAT, "detail on"),
            keyed(STAT, "detail off"),
            keyed(STAT, "reset"),
        ],
    );
}

#[test]
fn after_an_unknown_command_the_next_request_is_served() {
    // Only slabwise is tested. memcached consumes the extras and the key, and then skips the length of the whole body.
    // So it also skips bytes of the next request.
    let mut slabwise = ConnectedServer::start(&under_test());
    for value_len in [0, 1, 100, 100_000] {
        let unknown = keyed(0x30, "key").extras(b"extras").value(&vec![0; value_len]);
        let result = slabwise.step(&unknown);
        assert!(!result.closed);
        assert_eq!(result.replies[0].status, 0x81);
        assert_eq!(result.replies[0].value, b"Unknown command");
    }
}

#[test]
fn a_touch_or_stat_with_a_value_closes_the_connection() {
    // Only slabwise is tested. memcached replies, and then parses the rest of the body as the next request.
    let mut slabwise = ConnectedServer::start(&under_test());
    for request in [
        touch(TOUCH, "k", 0).value(b"more"),
        touch(GATKQ, "k", 0).value(b"more"),
        keyed(STAT, "items").value(b"more"),
    ] {
        let result = slabwise.step(&request);
        assert!(result.closed);
        assert_eq!(result.replies[0].status, 0x04, "{request:?}");
    }
}

#[test]
fn invalid_requests_and_quits_close_the_connection_as_in_memcached() {
    let refused = [
        packet(GET),
        keyed(GET, "k").extras(b"four"),
        keyed(GETQ, "k").value(b"x"),
        keyed(GETK, &"k".repeat(251)),
        keyed(SETQ, &"k".repeat(251)).extras(&[0; 8]).value(b"x"),
        keyed(SET, "k").value(b"x"),
        keyed(SET, "k").extras(&[0; 4]).value(b"x"),
        packet(ADD).extras(&[0; 8]).value(b"x"),
        keyed(APPEND, "k").extras(&[0; 8]).value(b"x"),
        keyed(DELETE, "k").value(b"x"),
        packet(DELETEQ),
        keyed(INCREMENT, "k").extras(&[0; 16]),
        keyed(DECREMENTQ, "k"),
        packet(INCREMENT).extras(&[0; 20]),
        keyed(TOUCH, "k"),
        packet(GAT).extras(&[0; 4]),
        keyed(FLUSH, "k"),
        packet(FLUSHQ).extras(&[0; 8]),
        keyed(NOOP, "k"),
        keyed(QUIT, "k"),
        packet(STAT).extras(b"x"),
        keyed(SASL_LIST_MECHS, "k"),
        packet(SASL_AUTH).value(b"\0user\0pass"),
        keyed(GET, "key").body_len(2),
        keyed(SET, "key").extras(&[0; 8]).body_len(10),
        packet(QUIT),
        packet(QUITQ),
    ];
    compare(&[], &refused);
    compare(&["-B", "binary"], &refused);
}

#[test]
fn a_body_above_the_limit_is_refused_before_it_arrives() {
    // Only slabwise is tested. memcached 1.6.18 waits for the whole body. Later releases of memcached refuse the body.
    let mut slabwise = ConnectedServer::start(&under_test());
    for body_len in [(1 << 30) + 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
        let result = slabwise.step(&store(SET, "k", b"").body_len(body_len));
        assert!(result.closed);
        assert_eq!(result.replies[0].status, 0x04);
        assert_eq!(result.replies[0].value, b"Invalid arguments");
    }
}
