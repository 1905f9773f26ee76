//! Item requests of the classic text protocol.

use crate::session::testing::{Fixture, check, check_with};
use std::time::Duration;

#[test]
fn gets_return_values_and_gats_also_touch_items() {
    check(
        "> set a 5 0 3
         > foo
         < STORED
         > set b 0 0 0
         >
         < STORED
         > get a
         < VALUE a 5 3
         < foo
         < END
         > gets  b  zz a
         < VALUE b 0 0 2
         <
         < VALUE a 5 3 1
         < foo
         < END
         >  get zz
         < ERROR
         > get a noreply
         < VALUE a 5 3
         < foo
         < END
         > gat 0 a
         < VALUE a 5 3
         < foo
         < END
         > gats 100 b zz
         < VALUE b 0 0 2
         <
         < END
         > gat -1 a
         < VALUE a 5 3
         < foo
         < END
         > get a
         < END
         > gat 0
         < CLIENT_ERROR bad command line format",
    );
}

#[test]
fn a_malformed_get_is_an_error() {
    check(
        "> set a 0 0 1
         > x
         < STORED
         > get
         < CLIENT_ERROR bad command line format
         > gets
         < CLIENT_ERROR bad command line format
         > gat
         < CLIENT_ERROR bad command line format
         > GET a
         < ERROR
         > gat x a
         < CLIENT_ERROR invalid exptime argument
         > get {k*250}
         < END
         > get a {k*251} a
         < CLIENT_ERROR bad command line format
         > gats 0 {k*251}
         < CLIENT_ERROR bad command line format
         > get zz
         < END",
    );
}

#[test]
fn a_store_whose_condition_fails_stores_nothing() {
    check(
        "> set a 1 0 1
         > 1
         < STORED
         > add a 0 0 1
         > 2
         < NOT_STORED
         > add b 0 0 1
         > 2
         < STORED
         > replace a 4294967295 0 1
         > 3
         < STORED
         > replace zz 0 0 1
         > x
         < NOT_STORED
         > append a 7 1 2
         > xy
         < STORED
         > prepend a 7 1 2
         > zz
         < STORED
         > append zz 0 0 1
         > x
         < NOT_STORED
         > prepend zz 0 0 1
         > x
         < NOT_STORED
         > gets a
         < VALUE a 4294967295 5 5
         < zz3xy
         < END
         > cas a 0 0 1 4
         > x
         < EXISTS
         > cas a 0 0 1 5
         > y
         < STORED
         > cas zz 0 0 1 5
         > x
         < NOT_FOUND
         > set a +0 +0 1 foo
         > w
         < STORED
         > get a b zz
         < VALUE a 0 1
         < w
         < VALUE b 0 1
         < 2
         < END",
    );
}

#[test]
fn a_value_can_contain_line_ends() {
    check(
        "> set a 0 0 12
         > get b
         > end
         >
         < STORED
         > get a
         < VALUE a 0 12
         < get b
         < end
         <
         < END",
    );
}

#[test]
fn a_malformed_store_is_an_error() {
    check(
        "> set
         < CLIENT_ERROR bad command line format
         > set a 0 0
         < CLIENT_ERROR bad command line format
         > set a 0 0 1 noreply more
         > x
         < STORED
         > delete a
         < DELETED
         > cas a 0 0 1
         > x
         < CLIENT_ERROR bad command line format
         > set a 0 0 x
         < CLIENT_ERROR bad command line format
         > set a 0 0 x noreply
         < CLIENT_ERROR bad command line format
         > set a 0 0 -1
         < CLIENT_ERROR bad command line format
         > set a 0 0 2147483646
         < CLIENT_ERROR bad command line format
         > set a 0 99999999999999999999 1
         > x
         < CLIENT_ERROR bad command line format
         > get a
         < END",
    );
    check(
        "> set {k*251} 0 0 5
         > stats
         < CLIENT_ERROR bad command line format
         > set a -1 0 5
         > stats
         < CLIENT_ERROR bad command line format
         > cas a 0 0 5 x
         > stats
         < CLIENT_ERROR bad command line format
         > get a
         < END",
    );
}

#[test]
fn a_value_that_is_longer_than_its_length_is_an_error() {
    check(
        "> set a 0 0 1
         > x
         < STORED
         > set a 0 0 3
         > xxxxx
         < CLIENT_ERROR bad data chunk
         < CLIENT_ERROR bad command line format
         > set a 0 0 3 noreply
         > xxxxx
         < CLIENT_ERROR bad command line format
         > get a
         < VALUE a 0 1
         < x
         < END",
    );
}

#[test]
fn a_too_large_value_is_ignored_and_a_set_of_it_removes_the_old_value() {
    check(
        "> set a 0 0 1
         > x
         < STORED
         > add a 0 0 100001
         > {z*100001}
         < SERVER_ERROR object too large for cache
         > append a 0 0 100001
         > {z*100001}
         < SERVER_ERROR object too large for cache
         > get a
         < VALUE a 0 1
         < x
         < END
         > set a 0 0 100001
         > {z*100001}
         < SERVER_ERROR object too large for cache
         > get a
         < END
         > set a 0 0 1
         > x
         < STORED
         > set a 0 0 100001 noreply
         > {z*100001}
         > get a
         < END",
    );
}

#[test]
fn noreply_suppresses_replies_and_errors() {
    check(
        "> set a 0 0 1 noreply
         > 1
         > add a 0 0 1 noreply
         > 2
         > replace zz 0 0 1 noreply
         > x
         > append a 0 0 1 noreply
         > 2
         > prepend a 0 0 1 noreply
         > 3
         > cas a 0 0 1 99 noreply
         > x
         > incr a 1 noreply
         > decr zz 1 noreply
         > incr a x noreply
         > touch a 0 noreply
         > touch a x noreply
         > delete zz noreply
         > delete zz 0 noreply
         > delete zz 1 2 noreply
         > set a x 0 1 noreply
         > x
         > verbosity 1 noreply
         > verbosity noreply
         > get a
         < VALUE a 0 3
         < 313
         < END
         > flush_all noreply
         > flush_all x noreply
         > get a
         < END
         > bogus noreply
         > noreply
         > delete noreply",
    );
}

#[test]
fn deletes_and_touches_are_answered_as_in_memcached() {
    check(
        "> set a 0 0 1
         > x
         < STORED
         > touch a 10
         < TOUCHED
         > touch zz 0
         < NOT_FOUND
         > touch a
         < CLIENT_ERROR bad command line format
         > touch a x
         < CLIENT_ERROR invalid exptime argument
         > touch {k*251} 0
         < CLIENT_ERROR bad command line format
         > delete zz 1
         < CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]
         > delete zz 0 0
         < CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]
         > delete {k*251}
         < CLIENT_ERROR bad command line format
         > delete a 0
         < DELETED
         > delete a
         < NOT_FOUND
         > delete
         < CLIENT_ERROR bad command line format",
    );
}

#[test]
fn arithmetic_wraps_and_refuses_invalid_numbers() {
    check(
        "> set n 0 0 20
         > 18446744073709551615
         < STORED
         > incr n 1
         < 0
         > get n
         < VALUE n 0 20
         < 0                   \n         < END
         > set n 5 0 2
         > 10
         < STORED
         > decr n 1
         < 9
         > get n
         < VALUE n 5 2
         < 9 \n         < END
         > decr n 100
         < 0
         > incr n 100
         < 100
         > incr zz 1
         < NOT_FOUND
         > set t 0 0 3
         > abc
         < STORED
         > incr t 1
         < CLIENT_ERROR cannot increment or decrement non-numeric value
         > incr n x
         < CLIENT_ERROR invalid numeric delta argument
         > decr n -1
         < CLIENT_ERROR invalid numeric delta argument
         > incr n 18446744073709551616
         < CLIENT_ERROR invalid numeric delta argument
         > incr {k*251} 1
         < CLIENT_ERROR bad command line format
         > incr n
         < CLIENT_ERROR bad command line format",
    );
}

#[test]
fn items_expire_at_relative_and_absolute_times() {
    let fixture = Fixture::new();
    let talk = |script: &str| {
        let received = fixture.talk([script.as_bytes()]);
        String::from_utf8(received).expect("the test's values are UTF-8")
    };
    assert_eq!(
        talk("set a 0 10 1\r\nx\r\nset b 0 -1 1\r\nx\r\nget a b\r\n").matches('x').count(),
        1
    );
    let absolute = fixture.clock.zero_unix_seconds() + 100;
    assert_eq!(talk(&format!("set c 0 {absolute} 1\r\nx\r\n")), "STORED\r\n");
    fixture.clock.advance(Duration::from_secs(10));
    assert_eq!(talk("get a\r\n"), "END\r\n");
    assert_eq!(talk("touch c 0\r\n"), "TOUCHED\r\n");
    fixture.clock.advance(Duration::from_secs(1000));
    assert_eq!(talk("get c\r\n"), "VALUE c 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn without_cas_no_cas_value_matches() {
    check_with(
        |settings| settings.cas_enabled = false,
        "> set a 0 0 1
         > x
         < STORED
         > gets a
         < VALUE a 0 1 0
         < x
         < END
         > cas a 0 0 1 0
         > y
         < EXISTS
         > cas a 0 0 1 1
         > y
         < EXISTS
         > cas zz 0 0 1 0
         > y
         < NOT_FOUND",
    );
}
