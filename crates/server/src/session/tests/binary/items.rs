//! The replies to each command of the binary protocol.

use super::super::super::testing::{Fixture, ITEM_SIZE_BYTES_MAX};
use super::packet::{Talk, arithmetic, packet, store};
use slabwise_protocol::binary::opcode::{
    ADD, ADDQ, APPEND, APPENDQ, DECREMENT, DELETE, DELETEQ, FLUSH, FLUSHQ, GAT, GATK, GATKQ, GATQ,
    GET, GETK, GETKQ, GETQ, INCREMENT, INCREMENTQ, NOOP, PREPEND, PREPENDQ, QUIT, QUITQ, REPLACE,
    REPLACEQ, SASL_AUTH, SASL_LIST_MECHS, SET, SETQ, STAT, TOUCH, VERSION,
};
use std::time::Duration;

// The statuses of replies.
const NOT_FOUND: u16 = 0x01;
const EXISTS: u16 = 0x02;
const TOO_LARGE: u16 = 0x03;
const INVALID: u16 = 0x04;
const NOT_STORED: u16 = 0x05;
const NOT_NUMERIC: u16 = 0x06;
const AUTH_ERROR: u16 = 0x20;
const UNKNOWN: u16 = 0x81;

/// Runs a test with a client of a new server.
fn talk(test: impl FnOnce(&mut Talk<'_>, &Fixture)) {
    talk_with(Fixture::new(), test);
}

/// Runs a test with a client of this server.
fn talk_with(fixture: Fixture, test: impl FnOnce(&mut Talk<'_>, &Fixture)) {
    let shared = fixture.shared();
    test(&mut Talk::new(&fixture, &shared), &fixture);
}

/// Returns the value of a key, or the text of the error "not found".
fn value_or_error(talk: &mut Talk<'_>, key: &str) -> String {
    let answer = talk.ask(&packet(GET).key(key));
    assert!([0, NOT_FOUND].contains(&answer.status), "{answer:?}");
    answer.text()
}

#[test]
fn a_get_returns_flags_and_value_and_some_gets_also_the_key() {
    talk(|talk, _| {
        let stored = talk.ask(&store(SET, "k", b"value"));
        assert_eq!((stored.status, stored.text()), (0, String::new()));
        for (opcode, key) in [(GET, ""), (GETQ, ""), (GETK, "k"), (GETKQ, "k")] {
            let hit = talk.ask(&packet(opcode).key("k"));
            assert_eq!((hit.status, hit.cas, hit.text()), (0, stored.cas, "value".to_owned()));
            assert_eq!((hit.extras, hit.key), (vec![0, 0, 0, 7], key.to_owned()));
        }
        let miss = talk.ask(&packet(GET).key("none"));
        assert_eq!((miss.status, miss.text()), (NOT_FOUND, "Not found".to_owned()));
        let miss = talk.ask(&packet(GETK).key("none"));
        assert_eq!((miss.status, miss.key.as_str(), miss.text().as_str()), (NOT_FOUND, "none", ""));
        talk.expect_no_reply(&packet(GETQ).key("none"));
        talk.expect_no_reply(&packet(GETKQ).key("none"));
    });
}

#[test]
fn a_get_with_a_touch_sets_the_expiry() {
    talk(|talk, fixture| {
        for (index, (opcode, has_value)) in
            [(TOUCH, false), (GAT, true), (GATQ, true), (GATK, true), (GATKQ, true)]
                .into_iter()
                .enumerate()
        {
            let key = &format!("k{index}");
            talk.ask(&store(SET, key, b"v").extras(&[0, 0, 0, 7, 0, 0, 0, 10]));
            let answer = talk.ask(&packet(opcode).extras(&[0, 0, 0, 100]).key(key));
            assert_eq!((answer.status, answer.extras.as_slice()), (0, &[0, 0, 0, 7][..]));
            assert_eq!(answer.value, if has_value { &b"v"[..] } else { b"" });
            assert_eq!(answer.key.is_empty(), ![GATK, GATKQ].contains(&opcode));
        }
        fixture.clock.advance(Duration::from_secs(50));
        talk.client.worker.now = fixture.clock.now();
        for index in 0..5 {
            assert_eq!(value_or_error(talk, &format!("k{index}")), "v");
        }
        fixture.clock.advance(Duration::from_secs(51));
        talk.client.worker.now = fixture.clock.now();
        let lifetime = [0, 0, 0, 1];
        assert_eq!(talk.ask(&packet(TOUCH).extras(&lifetime).key("k0")).status, NOT_FOUND);
        assert_eq!(talk.ask(&packet(GAT).extras(&lifetime).key("k1")).status, NOT_FOUND);
        assert_eq!(talk.ask(&packet(GATK).extras(&lifetime).key("k2")).key, "k2");
        talk.expect_no_reply(&packet(GATQ).extras(&lifetime).key("k3"));
        talk.expect_no_reply(&packet(GATKQ).extras(&lifetime).key("k4"));
    });
}

#[test]
fn a_store_whose_condition_fails_reports_the_condition() {
    talk(|talk, _| {
        assert_eq!(talk.outcome(&store(REPLACE, "k", b"0")), (NOT_FOUND, "Not found".into()));
        let extend = |opcode| packet(opcode).key("k").value(b"+");
        assert_eq!(talk.outcome(&extend(APPEND)), (NOT_STORED, "Not stored.".into()));
        assert_eq!(talk.outcome(&store(ADD, "k", b"1")).0, 0);
        assert_eq!(talk.outcome(&store(ADD, "k", b"2")), (EXISTS, "Data exists for key.".into()));
        assert_eq!(talk.outcome(&store(REPLACE, "k", b"3")).0, 0);
        assert_eq!(talk.outcome(&extend(APPEND)).0, 0);
        assert_eq!(talk.outcome(&extend(PREPEND)).0, 0);
        assert_eq!(value_or_error(talk, "k"), "+3+");
        assert_eq!(talk.ask(&packet(GET).key("k")).extras, [0, 0, 0, 7]);
        assert_eq!(talk.outcome(&store(SET, "empty", b"")).0, 0);
        assert_eq!(value_or_error(talk, "empty"), "");
    });
}

#[test]
fn a_quiet_store_gets_a_reply_only_for_an_error() {
    talk(|talk, _| {
        talk.expect_no_reply(&store(SETQ, "k", b"1"));
        talk.expect_no_reply(&store(REPLACEQ, "k", b"2"));
        talk.expect_no_reply(&store(ADDQ, "k2", b"3"));
        talk.expect_no_reply(&packet(APPENDQ).key("k").value(b"+"));
        talk.expect_no_reply(&packet(PREPENDQ).key("k").value(b"-"));
        assert_eq!(value_or_error(talk, "k"), "-2+");
        assert_eq!(talk.ask(&store(ADDQ, "k", b"4")).status, EXISTS);
        assert_eq!(talk.ask(&store(REPLACEQ, "none", b"4")).status, NOT_FOUND);
        assert_eq!(talk.ask(&packet(APPENDQ).key("none").value(b"+")).status, NOT_STORED);
        assert_eq!(talk.ask(&store(SETQ, "k", b"5").cas(u64::MAX)).status, EXISTS);
    });
}

#[test]
fn every_store_and_delete_fails_if_the_cas_value_differs() {
    talk(|talk, _| {
        for opcode in [SET, ADD, REPLACE] {
            assert_eq!(talk.ask(&store(opcode, "none", b"x").cas(9)).status, NOT_FOUND);
        }
        assert_eq!(talk.ask(&packet(APPEND).key("none").value(b"x").cas(9)).status, NOT_STORED);
        let mut cas = talk.ask(&store(SET, "k", b"0")).cas;
        for (opcode, value) in [(SET, "1"), (ADD, "2"), (REPLACE, "3")] {
            let request = store(opcode, "k", value.as_bytes());
            assert_eq!(talk.ask(&request.clone().cas(cas + 1)).status, EXISTS);
            let stored = talk.ask(&request.clone().cas(cas));
            assert_eq!(stored.status, 0);
            assert_ne!(stored.cas, cas);
            assert_eq!(talk.ask(&request.cas(cas)).status, EXISTS, "the CAS value has changed");
            cas = stored.cas;
            assert_eq!(value_or_error(talk, "k"), value);
        }
        for opcode in [APPEND, PREPEND] {
            let request = packet(opcode).key("k").value(b"+");
            assert_eq!(talk.ask(&request.clone().cas(cas + 1)).status, EXISTS);
            cas = talk.ask(&request.cas(cas)).cas;
        }
        assert_eq!(value_or_error(talk, "k"), "+3+");
        assert_eq!(talk.ask(&packet(GET).key("k")).cas, cas);
        assert_eq!(talk.ask(&packet(DELETE).key("k").cas(cas + 1)).status, EXISTS);
        assert_eq!(talk.ask(&packet(DELETE).key("k").cas(cas)).status, 0);
        assert_eq!(value_or_error(talk, "k"), "Not found");
    });
}

#[test]
fn a_delete_reports_whether_there_was_an_item() {
    talk(|talk, _| {
        talk.expect_no_reply(&store(SETQ, "k", b"1"));
        let deleted = talk.ask(&packet(DELETE).key("k"));
        assert_eq!((deleted.status, deleted.cas, deleted.text().as_str()), (0, 0, ""));
        assert_eq!(talk.outcome(&packet(DELETE).key("k")), (NOT_FOUND, "Not found".into()));
        talk.expect_no_reply(&store(SETQ, "k", b"1"));
        talk.expect_no_reply(&packet(DELETEQ).key("k"));
        assert_eq!(talk.ask(&packet(DELETEQ).key("k")).status, NOT_FOUND);
    });
}

#[test]
fn arithmetic_creates_numbers_changes_them_and_wraps() {
    const DO_NOT_CREATE: u32 = u32::MAX;
    talk(|talk, _| {
        let missing = arithmetic(INCREMENT, "n", 1, 10, DO_NOT_CREATE);
        assert_eq!(talk.outcome(&missing), (NOT_FOUND, "Not found".into()));
        let mut number = |packet| {
            let answer = talk.ask(&packet);
            assert_eq!(answer.status, 0, "{answer:?}");
            assert_eq!(talk.ask(&super::packet::packet(GET).key("n")).cas, answer.cas);
            u64::from_be_bytes(
                *answer.value.first_chunk().expect("a number in a reply has eight bytes"),
            )
        };
        assert_eq!(number(arithmetic(INCREMENT, "n", 1, 10, 0)), 10);
        assert_eq!(number(arithmetic(INCREMENT, "n", 5, 10, 0)), 15);
        assert_eq!(number(arithmetic(DECREMENT, "n", 6, 0, DO_NOT_CREATE)), 9);
        assert_eq!(number(arithmetic(DECREMENT, "n", 100, 0, 0)), 0);
        assert_eq!(number(arithmetic(INCREMENT, "n", u64::MAX, 0, 0)), u64::MAX);
        assert_eq!(number(arithmetic(INCREMENT, "n", 2, 0, 0)), 1);
        let cas = talk.ask(&packet(GET).key("n")).cas;
        let increment = arithmetic(INCREMENT, "n", 1, 0, 0);
        assert_eq!(talk.ask(&increment.clone().cas(cas + 1)).status, EXISTS);
        assert_eq!(talk.ask(&increment.cas(cas)).status, 0);
        talk.expect_no_reply(&arithmetic(INCREMENTQ, "n", 1, 0, 0));
        assert_eq!(value_or_error(talk, "n").trim_end(), "3");
        talk.expect_no_reply(&store(SETQ, "text", b"text"));
        assert_eq!(
            talk.outcome(&arithmetic(DECREMENT, "text", 1, 0, 0)),
            (NOT_NUMERIC, "Non-numeric server-side value for incr or decr".into())
        );
        assert_eq!(talk.ask(&arithmetic(INCREMENTQ, "text", 1, 0, 0)).status, NOT_NUMERIC);
    });
}

#[test]
fn a_number_that_an_increment_created_expires() {
    talk(|talk, fixture| {
        talk.ask(&arithmetic(INCREMENT, "n", 1, 10, 5));
        fixture.clock.advance(Duration::from_secs(6));
        talk.client.worker.now = fixture.clock.now();
        assert_eq!(value_or_error(talk, "n"), "Not found");
    });
}

#[test]
fn a_set_of_a_too_large_value_removes_the_old_value_and_a_replace_keeps_it() {
    talk(|talk, _| {
        let large = vec![b'x'; ITEM_SIZE_BYTES_MAX as usize];
        talk.expect_no_reply(&store(SETQ, "k", b"old"));
        talk.expect_no_reply(&store(SETQ, "other", b"old"));
        assert_eq!(
            talk.outcome(&store(REPLACE, "other", &large)),
            (TOO_LARGE, "Too large.".into())
        );
        assert_eq!(talk.ask(&store(SETQ, "k", &large)).status, TOO_LARGE);
        assert_eq!(value_or_error(talk, "k"), "Not found");
        assert_eq!(value_or_error(talk, "other"), "old");
        let half = vec![b'x'; large.len() * 2 / 3];
        assert_eq!(talk.ask(&store(SET, "k", &half)).status, 0);
        // Each value fits, but the two values together do not fit into one item.
        let rest = packet(APPEND).key("k").value(&half);
        assert_eq!(talk.outcome(&rest), (NOT_STORED, "Not stored.".into()));
        assert_eq!(talk.ask(&packet(GET).key("k")).value, half);
    });
}

#[test]
fn flushes_are_immediate_or_delayed_and_can_be_disabled() {
    talk(|talk, fixture| {
        talk.expect_no_reply(&store(SETQ, "k", b"1"));
        assert_eq!(talk.outcome(&packet(FLUSH)), (0, String::new()));
        assert_eq!(value_or_error(talk, "k"), "Not found");
        talk.expect_no_reply(&store(SETQ, "k", b"1"));
        talk.expect_no_reply(&packet(FLUSHQ).extras(&[0, 0, 0, 10]));
        assert_eq!(value_or_error(talk, "k"), "1");
        fixture.clock.advance(Duration::from_secs(11));
        talk.client.worker.now = fixture.clock.now();
        assert_eq!(value_or_error(talk, "k"), "Not found");
    });
    let mut fixture = Fixture::new();
    fixture.settings.flush_enabled = false;
    talk_with(fixture, |talk, _| {
        assert_eq!(talk.outcome(&packet(FLUSH)), (AUTH_ERROR, "Auth failure.".into()));
        assert_eq!(talk.ask(&packet(FLUSHQ)).status, AUTH_ERROR);
    });
}

#[test]
fn no_op_version_quit_and_unknown_commands_are_answered() {
    talk(|talk, _| {
        assert_eq!(talk.outcome(&packet(NOOP)), (0, String::new()));
        assert_eq!(talk.outcome(&packet(VERSION)), (0, crate::wire::VERSION.to_owned()));
        for opcode in [0x1b, 0x30, 0xff] {
            let unknown = packet(opcode).extras(b"four").key("key").value(b"value");
            assert_eq!(talk.outcome(&unknown), (UNKNOWN, "Unknown command".into()));
        }
        assert_eq!(talk.ask(&packet(SASL_LIST_MECHS)).status, UNKNOWN);
        let auth = packet(SASL_AUTH).key("PLAIN").value(b"\0user\0pass");
        assert_eq!(talk.ask(&auth).status, UNKNOWN);
        assert!(!talk.is_closed());
        assert_eq!(talk.outcome(&packet(QUIT)), (0, String::new()));
        assert!(talk.is_closed());
    });
    talk(|talk, _| {
        talk.expect_no_reply(&packet(QUITQ));
        assert!(talk.is_closed());
    });
}

#[test]
fn an_invalid_request_is_answered_and_closes_the_connection() {
    let long = "k".repeat(251);
    for (request, status) in [
        (packet(GET), INVALID),
        (packet(GETQ).key(&long), INVALID),
        (packet(GET).key("k").value(b"x"), INVALID),
        (packet(SET).key("k").value(b"x"), INVALID),
        (packet(TOUCH).key("k"), INVALID),
        (packet(NOOP).key("k"), INVALID),
        (packet(STAT).extras(b"x"), INVALID),
        (packet(QUITQ).key("k"), INVALID),
    ] {
        talk(|talk, _| {
            assert_eq!(talk.outcome(&request), (status, "Invalid arguments".into()));
            assert!(talk.is_closed());
        });
    }
    talk(|talk, _| {
        let mut bytes = packet(GET).key("key").bytes();
        bytes[11] = 1;
        talk.client.send(&bytes);
        let answer = &super::packet::answers(&talk.client.received)[0];
        assert_eq!((answer.status, answer.text().as_str()), (UNKNOWN, "Unknown command"));
        assert!(talk.is_closed());
    });
    talk(|talk, _| {
        talk.client.send(&[&packet(NOOP).bytes()[..], b"\x81"].concat());
        assert_eq!(super::packet::answers(&talk.client.received).len(), 1);
        assert!(talk.is_closed());
    });
}

#[test]
fn without_cas_every_cas_value_is_zero_and_no_cas_value_matches() {
    let mut fixture = Fixture::new();
    fixture.settings.cas_enabled = false;
    talk_with(fixture, |talk, _| {
        assert_eq!(talk.ask(&store(SET, "k", b"1")).cas, 0);
        assert_eq!(talk.ask(&packet(GET).key("k")).cas, 0);
        // As in memcached, a store ignores its CAS value. A delete or an increment with a CAS value fails.
        assert_eq!(talk.ask(&store(SET, "k", b"2").cas(9)).status, 0);
        assert_eq!(talk.ask(&packet(DELETE).key("k").cas(9)).status, EXISTS);
        assert_eq!(talk.ask(&arithmetic(INCREMENT, "k", 1, 0, 0).cas(9)).status, EXISTS);
        assert_eq!(talk.ask(&arithmetic(INCREMENT, "k", 1, 0, 0)).cas, 0);
    });
}

#[test]
fn each_statistic_is_a_packet_whose_key_is_its_name() {
    talk(|talk, _| {
        talk.expect_no_reply(&store(SETQ, "a:k", b"1"));
        for subject in ["", "settings", "items", "slabs", "sizes"] {
            let rows = talk.send(&[packet(STAT).key(subject), packet(NOOP)]);
            let (end, rows) = rows.split_last_chunk::<2>().map(|(rows, end)| (end, rows)).unwrap();
            assert!(!rows.is_empty(), "{subject}");
            assert!(rows.iter().all(|row| row.opcode == STAT && !row.key.is_empty()), "{subject}");
            assert_eq!(
                (end[0].opcode, end[0].key.as_str(), end[0].text().as_str()),
                (STAT, "", "")
            );
            assert_eq!(end[1].opcode, NOOP);
        }
        let rows = talk.send(&[packet(STAT)]);
        let row =
            rows.iter().find(|row| row.key == "cmd_set").expect("the statistics contain cmd_set");
        assert_eq!(row.text(), "1");
        for subject in ["conns", "cachedump 1 1", "detail", "nonsense", "sizes_enable"] {
            let unknown = packet(STAT).key(subject);
            assert_eq!(talk.outcome(&unknown), (NOT_FOUND, "Not found".into()), "{subject}");
        }
        for command in ["detail on", "reset"] {
            assert_eq!(talk.outcome(&packet(STAT).key(command)), (0, String::new()));
        }
        talk.expect_no_reply(&store(SETQ, "a:k", b"1"));
        talk.expect_no_reply(&packet(GETQ).key("a:none"));
        talk.expect_no_reply(&packet(DELETEQ).key("a:k"));
        let rows = talk.send(&[packet(STAT).key("detail dump")]);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].key, "detailed");
        let expected = r"PREFIX a get 1 hit 0 set 1 del 1\r\nEND\r\n";
        assert_eq!(rows[0].text(), expected);
    });
    let mut fixture = Fixture::new();
    fixture.settings.dump_enabled = false;
    talk_with(fixture, |talk, _| {
        assert_eq!(talk.ask(&packet(STAT).key("detail dump")).status, NOT_FOUND);
    });
}
