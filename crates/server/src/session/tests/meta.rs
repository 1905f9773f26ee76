//! The meta protocol: cases that depend on time, memory or size. The transcripts in `tests/transcripts` cover the other
//! cases.

use crate::session::testing::{Client, Fixture, ITEM_SIZE_BYTES_MAX, check, check_with};
use std::time::Duration;

#[test]
fn replies_have_their_flags_in_the_requested_order() {
    check(
        "> ms a 3 T100 F5 k Oxy c
         > foo
         < HD ka Oxy c1
         > mg a v s t f Oq k c
         < VA 3 s3 t100 f5 Oq ka c1
         < foo
         > mg a c k f t s
         < HD c1 ka f5 t100 s3
         > mg a q
         < HD
         > mg none v k Oq
         < EN knone Oq",
    );
}

/// Sends scripts on one connection, and returns the replies. After each script the clock advances by the number of
/// seconds beside it.
fn talk_over_time(scripts: &[(&str, u64)]) -> String {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    for &(script, seconds) in scripts {
        client.worker.now = fixture.clock.now();
        client.send(script.as_bytes());
        fixture.clock.advance(Duration::from_secs(seconds));
    }
    String::from_utf8(client.received).expect("the test's values are UTF-8")
}

#[test]
fn the_flags_l_and_h_show_the_access_before_the_request() {
    let replies = talk_over_time(&[
        ("ms a 1 T100\r\nx\r\n", 7),
        ("mg a l h t u\r\n", 5),
        ("mg a l h t\r\n", 3),
        ("mg a l h t\r\nme a\r\n", 85),
        ("mg a t\r\n", 0),
    ]);
    let expected = "HD\r\nHD l7 h0 t93\r\nHD l12 h0 t88\r\nHD l3 h1 t85\r\n";
    let (lines, debug) = replies.split_at(expected.len());
    assert_eq!(lines, expected);
    assert!(debug.starts_with("ME a exp=85 la=0 cas=1 fetch=yes cls="), "{debug}");
    assert!(debug.ends_with("\r\nEN\r\n"), "{debug}");
}

#[test]
fn one_client_is_asked_to_recache_an_item_that_expires_soon() {
    let replies = talk_over_time(&[
        ("ms a 1 T100\r\nx\r\nmg a R30 v\r\n", 75),
        ("mg a R30 t\r\nmg a R30 t\r\nmg a t\r\nms a 1 T100\r\ny\r\nmg a R30 t\r\n", 0),
    ]);
    assert_eq!(replies, "HD\r\nVA 1\r\nx\r\nHD t25 W\r\nHD t25 Z\r\nHD t25 Z\r\nHD\r\nHD t100\r\n");
}

#[test]
fn a_large_value_is_received_into_the_arena_and_sent_from_it() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    let value = "v".repeat(60_000);
    client.send(b"ms big 60000 T0 k Oabc s\r\n");
    client.send(value.as_bytes());
    client.send(b"\r\n");
    assert!(
        client.uploaded > 50_000,
        "most of the 60,000 bytes are received directly into the cache's memory, not {}",
        client.uploaded
    );
    client.send(b"mg big s k v Ox\r\nmn\r\n");
    let received = String::from_utf8(client.received).expect("replies are UTF-8");
    assert!(
        received == format!("HD kbig Oabc s60000\r\nVA 60000 s60000 kbig Ox\r\n{value}\r\nMN\r\n")
    );
}

#[test]
fn a_too_large_value_gets_an_error_in_quiet_mode_and_removes_the_old_one() {
    let len = ITEM_SIZE_BYTES_MAX;
    check(&format!(
        "> ms a 1
         > x
         < HD
         > ms a {len} q k Oabc
         > {{v*{len}}}
         < SERVER_ERROR object too large for cache
         > mg a v
         < EN
         > ms a 1
         > x
         < HD
         > ms a {len} MA q
         > {{v*{len}}}
         < SERVER_ERROR object too large for cache
         > mg a v
         < VA 1
         < x"
    ));
}

#[test]
fn an_append_beyond_the_item_size_limit_changes_nothing() {
    check(
        "> ms a 60000 q
         > {v*60000}
         > ms a 60000 MA c s q
         > {w*60000}
         < NS c0 s60000
         > mg a s
         < HD s60000",
    );
}

#[test]
fn out_of_memory_is_reported_in_quiet_mode() {
    let fixture = Fixture::with(|config| {
        config.eviction_enabled = false;
        config.memory_limit_bytes = 1 << 20;
    });
    let mut script = Vec::new();
    for item in 0..200 {
        script
            .extend_from_slice(format!("ms k{item} 9000 q\r\n{}\r\n", "v".repeat(9000)).as_bytes());
    }
    let replies = String::from_utf8(fixture.talk([&script[..]])).expect("replies are UTF-8");
    assert!(!replies.is_empty());
    for line in replies.lines() {
        assert_eq!(line, "SERVER_ERROR out of memory storing object");
    }
}

#[test]
fn without_cas_every_cas_value_is_zero() {
    check_with(
        |settings| settings.cas_enabled = false,
        "> ms a 1 c E5
         > x
         < HD c0
         > mg a c
         < HD c0
         > ms a 1 C5 I
         > y
         < EX
         > md a C5
         < EX
         > ma a C5
         < EX
         > md a C0
         < HD",
    );
}

#[test]
fn stats_detail_does_not_count_meta_requests() {
    check(
        "> stats detail on
         < OK
         > ms a:b 1
         > x
         < HD
         > mg a:b
         < HD
         > md a:b
         < HD
         > stats detail dump
         < END",
    );
}
