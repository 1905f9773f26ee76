//! Costs of items: clients supply them, gets return them, and statistics count them. memcached has no costs.

use crate::config::Settings;
use crate::session::testing::{Client, Fixture, check, check_with};
use slabwise_protocol::text::CostWire;

/// Enables costs in classic store commands (`-o cost_wire`).
fn cost_wire(settings: &mut Settings) {
    settings.cost_wire = CostWire::On;
}

#[test]
fn classic_stores_have_costs_with_cost_wire() {
    check_with(
        cost_wire,
        "> set a 400 5 0 3
         > foo
         < STORED
         > add b 20 0 0 3
         > bar
         < STORED
         > replace b 150 0 0 3 noreply
         > baz
         > mg a f g v
         < VA 3 f5 g400
         < foo
         > mg b g v
         < VA 3 g150
         < baz
         > set c 0 0 3
         > foo
         < STORED
         > set d 0 0 0 3
         > foo
         < STORED
         > mg c g
         < HD g-1
         > mg d g
         < HD g0
         > set a 1 0 3 noreply
         > new
         > mg a f g v
         < VA 3 f1 g-1
         < new",
    );
}

#[test]
fn a_store_with_an_invalid_cost_is_refused_and_its_value_is_ignored() {
    check_with(
        cost_wire,
        "> set a 4294967296 0 0 3
         > foo
         < CLIENT_ERROR bad command line format
         > set a -1 0 0 3
         > foo
         < CLIENT_ERROR bad command line format
         > set a x 0 0 3 noreply
         > foo
         > set a 4294967295 0 0 3
         > foo
         < STORED
         > mg a g
         < HD g4293918720",
    );
}

#[test]
fn without_cost_wire_the_error_names_the_option() {
    check(
        "> set a 400 5 0 3
         > foo
         < CLIENT_ERROR costs are not taken here: start the server with -o cost_wire
         > add a 400 5 0 3
         > get
         < CLIENT_ERROR costs are not taken here: start the server with -o cost_wire
         > replace a 400 5 0 3 noreply
         > foo
         > get a
         < END
         > set a 5 0 3 x
         > foo
         < STORED
         > cas a 5 0 3 1
         > bar
         < STORED
         > append a 5 0 1 400
         > z
         < STORED
         > mg a f g v
         < VA 4 f5 g-1
         < barz",
    );
}

#[test]
fn the_meta_protocol_accepts_and_returns_costs_without_an_option() {
    check(
        "> ms a 3 G450 c
         > foo
         < HD c1
         > mg a g s
         < HD g450 s3
         > ms a 3 G0
         > bar
         < HD
         > mg a g v
         < VA 3 g0
         < bar
         > ms a 3
         > baz
         < HD
         > mg a g
         < HD g-1
         > mg none g
         < EN
         > ms a 3 G
         > foo
         < CLIENT_ERROR bad token in command line format
         > ms a 3 G-1
         > foo
         < CLIENT_ERROR bad token in command line format
         > ms a 3 G1 G2
         > foo
         < CLIENT_ERROR duplicate flag
         > mg a v
         < VA 3
         < baz",
    );
}

#[test]
fn an_item_keeps_its_cost_until_another_store_replaces_it() {
    check_with(
        cost_wire,
        "> set n 70 0 0 1
         > 9
         < STORED
         > touch n 100
         < TOUCHED
         > gat 200 n
         < VALUE n 0 1
         < 9
         < END
         > incr n 991
         < 1000
         > decr n 1
         < 999
         > append n 0 0 1
         > x
         < STORED
         > prepend n 0 0 1
         > y
         < STORED
         > ms n 1 MA G5
         > z
         < HD
         > mg n T300 g v
         < VA 7 g70
         < y999 xz
         > md n I
         < HD
         > mg n g
         < HD g70 X W
         > mg n g c
         < HD g70 c7 Z X
         > cas n 0 0 1 7
         > 1
         < STORED
         > mg n g
         < HD g-1",
    );
}

#[test]
fn an_append_that_creates_an_item_sets_its_cost() {
    check(
        "> ms a 3 MA N0 G33
         > foo
         < HD
         > mg a g v
         < VA 3 g33
         < foo",
    );
}

#[test]
fn a_value_that_arrives_in_parts_keeps_the_cost_of_its_line() {
    let mut fixture = Fixture::new();
    cost_wire(&mut fixture.settings);
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    let value = "v".repeat(60_000);
    client.send(b"set a 170 0 0 60000\r\n");
    client.send(value.as_bytes());
    client.send(b"\r\nms b 60000 G390\r\n");
    client.send(value.as_bytes());
    client.send(b"\r\n");
    assert!(
        client.uploaded > 100_000,
        "most of the 120,000 bytes are received directly into the cache's memory, not {}",
        client.uploaded
    );
    client.send(b"mg a g s\r\nmg b g s\r\n");
    let received = String::from_utf8(client.received).expect("replies are UTF-8");
    assert_eq!(received, "STORED\r\nHD\r\nHD g170 s60000\r\nHD g390 s60000\r\n");
}

/// Returns the statistics of `stats cost` after a script, without the statistics of single classes.
fn rows_after(script: &str) -> Vec<String> {
    let mut fixture = Fixture::new();
    cost_wire(&mut fixture.settings);
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    client.send(script.replace('\n', "\r\n").as_bytes());
    client.received.clear();
    client.send(b"stats cost\r\n");
    let received = String::from_utf8(client.received).expect("replies are UTF-8");
    let rows = received.lines().filter_map(|line| line.strip_prefix("STAT "));
    let rows = rows.filter(|row| !row.starts_with(|first: char| first.is_ascii_digit()));
    rows.map(str::to_owned).collect()
}

#[test]
fn stats_cost_counts_the_costs_saved_paid_and_held() {
    let rows = rows_after(
        "set a 400 0 0 1\nx\nset b 100 0 0 1\nx\nset c 0 0 1\nx\nget a\nget a b c\nmg a v\n\
         set a 300 0 0 1\nx\nget a\ndelete b\nget b\nset b 100 0 0 1\nx\n",
    );
    // Four items were inserted: a, b, c, and b again. The hits saved 3 * 400 + 100 + 300.
    let expected = [
        "cost_wire on",
        "cost client",
        "inserted 4",
        "costs_known 3",
        "cost_saved 1600",
        "cost_paid 600",
        "mean_cost_paid 200.00",
        "cost_held 400",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn costs_are_counted_by_class() {
    let mut fixture = Fixture::new();
    cost_wire(&mut fixture.settings);
    let script = b"set a 40 0 0 1\r\nx\r\nset b 60 0 0 1000\r\n";
    let value = [b'v'; 1000];
    let reply = fixture.talk([&script[..], &value, b"\r\nget a\r\nstats cost\r\n"]);
    let reply = String::from_utf8(reply).expect("replies are UTF-8");
    let class_values = |name: &str| -> Vec<u64> {
        let rows = reply.lines().filter_map(|line| line.strip_prefix("STAT "));
        let rows =
            rows.filter_map(|row| row.split_once(':')?.1.strip_prefix(name)?.trim().parse().ok());
        rows.collect()
    };
    assert_eq!(class_values("cost_paid "), [40, 60], "{reply}");
    assert_eq!(class_values("cost_held "), [40, 60], "{reply}");
    assert_eq!(class_values("cost_saved "), [40, 0], "{reply}");
    assert_eq!(class_values("inserted "), [1, 1], "{reply}");
}

#[test]
fn costs_are_counted_by_prefix_while_stats_detail_is_on() {
    let before = "set user:1 400 0 0 1\nx\nget user:1\n";
    let rows = rows_after(before);
    assert!(!rows.iter().any(|row| row.starts_with("prefix:")), "{rows:?}");
    let rows = rows_after(&format!(
        "{before}stats detail on\nget user:1\nset user:1 300 0 0 1\nx\nset user:2 50 0 0 1\nx\n\
         ms page:1 1 G70\nx\nmg page:1 v\nmg page:1 v\nadd page:1 9 0 0 1\nx\nadd page:2 9 0 0 1\nx\n\
         replace page:3 9 0 0 1\nx\nget free:1\nset free:1 0 0 1\nx\nget free:1\n"
    ));
    let prefixes: Vec<_> = rows.iter().filter(|row| row.starts_with("prefix:")).collect();
    // Prefix user: a hit saved 400, and the new item user:2 cost 50. Prefix page: two hits saved 70 each, and the new
    // items page:1 and page:2 cost 70 and 9.
    let expected = [
        "prefix:user:cost_saved 400",
        "prefix:user:cost_paid 50",
        "prefix:page:cost_saved 140",
        "prefix:page:cost_paid 79",
    ];
    assert_eq!(prefixes, expected);
}

#[test]
fn a_reset_clears_the_counters_but_not_the_cost_held() {
    let rows = rows_after("stats detail on\nset a:1 400 0 0 1\nx\nget a:1\nstats reset\n");
    let expected = [
        "cost_wire on",
        "cost client",
        "inserted 0",
        "costs_known 0",
        "cost_saved 0",
        "cost_paid 0",
        "mean_cost_paid 0.00",
        "cost_held 400",
    ];
    assert_eq!(rows, expected);
}
