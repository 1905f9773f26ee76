//! Administrative commands.

use crate::session::testing::{Client, Fixture, check, check_with};
use crate::shared::{BackgroundThread, CrawlStep, WakeReason};
use crate::tls::tests::certificates::{Authority, CertificateFiles};
use crate::tls::tests::{load, settings};
use std::time::Duration;

#[test]
fn unknown_commands_are_errors() {
    check(
        ">
         < CLIENT_ERROR bad command line format
         > a
         < CLIENT_ERROR bad command line format
         > ab
         < ERROR
         > bogus words
         < ERROR
         > debugtime 1
         < ERROR
         > mx a v
         < ERROR
         > version
         < VERSION 1.6.45
         > version more
         < VERSION 1.6.45",
    );
}

#[test]
fn flush_all_expires_all_items() {
    check(
        "> set a 0 0 1
         > x
         < STORED
         > flush_all x
         < CLIENT_ERROR invalid exptime argument
         > flush_all 1 2 3
         < OK
         > get a
         < VALUE a 0 1
         < x
         < END
         > flush_all
         < OK
         > get a
         < END
         > flush_all -1
         < OK
         > flush_all 0
         < OK",
    );
    check_with(
        |settings| settings.flush_enabled = false,
        "> set a 0 0 1
         > x
         < STORED
         > flush_all
         < CLIENT_ERROR flush_all not allowed
         > get a
         < VALUE a 0 1
         < x
         < END",
    );
}

#[test]
fn invalid_verbosities_memory_limits_and_lru_settings_are_errors() {
    check(
        "> verbosity
         < CLIENT_ERROR bad command line format
         > verbosity x
         < CLIENT_ERROR bad command line format
         > verbosity 1
         < OK
         > verbosity 0 0 0
         < OK
         > cache_memlimit
         < ERROR
         > cache_memlimit x
         < ERROR
         > cache_memlimit 1
         < MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m
         > cache_memlimit 8
         < OK
         > cache_memlimit 2000000000
         < MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes
         > lru
         < ERROR
         > lru tune 10 25 0.1 2.0
         < OK
         > lru tune 50 50 0.1 2.0
         < ERROR hot and warm pcts must not exceed 80
         > lru tune 10 25 0 2.0
         < ERROR hot/warm age factors must be greater than 0
         > lru tune x 25 0.1 2.0
         < ERROR
         > lru mode flat
         < OK
         > lru mode segmented
         < OK
         > lru mode x
         < ERROR
         > lru temp_ttl 10
         < OK
         > lru temp_ttl -1
         < OK
         > lru temp_ttl
         < ERROR",
    );
}

#[test]
fn invalid_slabs_commands_are_errors() {
    check(
        "> slabs
         < ERROR
         > slabs reassign 1
         < ERROR
         > slabs reassign 1 1
         < SAME src and dst class are identical
         > slabs reassign x 2
         < CLIENT_ERROR bad command line format
         > slabs reassign 99 2
         < BADCLASS invalid src or dst class id
         > slabs reassign 1 -1
         < BADCLASS invalid src or dst class id
         > slabs reassign 0 2
         < NOSPARE source class has no spare pages
         > slabs automove
         < ERROR
         > slabs automove x
         < CLIENT_ERROR bad command line format
         > slabs automove 3
         < ERROR
         > slabs automove 2
         < OK
         > slabs automove ratio 0.8
         < OK
         > slabs automove ratio x
         < ERROR
         > slabs automove freeratio 0.1
         < OK
         > slabs automove window 30
         < OK
         > slabs automove window 1
         < CLIENT_ERROR automove window too low or too high
         > slabs automove 1 noreply
         > slabs foo bar
         < ERROR",
    );
    check_with(
        |settings| settings.reassign_enabled = false,
        "> slabs reassign 1 2
         < CLIENT_ERROR slab reassignment disabled
         > slabs classes 96-200
         < CLIENT_ERROR slab reassignment disabled",
    );
}

#[test]
fn shutdown_stops_the_server_if_enabled() {
    check(
        "> shutdown
         < SERVER_ERROR: shutdown not enabled
         > shutdown x
         < SERVER_ERROR: shutdown not enabled",
    );
    for command in ["shutdown\r\n", "shutdown graceful\r\n"] {
        let mut fixture = Fixture::new();
        fixture.settings.shutdown_enabled = true;
        let shared = fixture.shared();
        let mut client = Client::new(fixture.worker(&shared));
        client.send(b"shutdown x\r\n");
        assert_eq!(client.received, b"CLIENT_ERROR invalid shutdown mode\r\n");
        assert!(!shared.is_stopping());
        client.send(command.as_bytes());
        assert!(client.is_closed && shared.is_stopping());
    }
}

#[test]
fn invalid_lru_crawler_commands_are_errors() {
    check(
        "> lru_crawler
         < ERROR
         > lru_crawler x
         < ERROR
         > lru_crawler enable
         < ERROR failed to start lru crawler thread
         > lru_crawler disable
         < OK
         > lru_crawler crawl all
         < CLIENT_ERROR lru crawler disabled
         > lru_crawler metadump all
         < CLIENT_ERROR lru crawler disabled
         > lru_crawler disable
         < OK
         > lru_crawler enable
         < OK
         > lru_crawler sleep 100
         < OK
         > lru_crawler sleep 1000001
         < CLIENT_ERROR sleep must be one second or less
         > lru_crawler sleep x
         < CLIENT_ERROR bad command line format
         > lru_crawler tocrawl 0
         < OK
         > lru_crawler tocrawl x
         < CLIENT_ERROR bad command line format
         > lru_crawler crawl x
         < BADCLASS invalid class id
         > lru_crawler crawl 1,x
         < BADCLASS invalid class id
         > lru_crawler crawl 99
         < BADCLASS invalid class id
         > lru_crawler crawl all x
         < ERROR",
    );
}

#[test]
fn dumps_list_every_item_once() {
    let fixture = Fixture::new();
    fixture.clock.advance(Duration::from_secs(8));
    fixture.talk([&b"set a%b 3 100 2\r\nxy\r\n"[..]]);
    let text = |script: &str| {
        String::from_utf8(fixture.talk([script.as_bytes()])).expect("the test's keys are UTF-8")
    };
    let now = fixture.clock.zero_unix_seconds() + 10;
    let dump = text("lru_crawler metadump all\r\nget zz\r\n");
    let expected = format!("OK\r\nkey=a%25b exp={} la={now} cas=1 fetch=no cls=", now + 100);
    assert!(dump.starts_with(&expected), "{dump}");
    assert!(dump.ends_with(" flags=3 \nEND\r\nEND\r\n"), "{dump}");
    assert_eq!(text("lru_crawler mgdump hash\r\n"), "OK\r\nmg a%b\r\nEN\r\n");
    let class = dump.split("cls=").nth(1).and_then(|rest| rest.split(' ').next());
    let class = class.expect("a metadump line shows the class of its item");
    let items = text(&format!("stats cachedump {class} 0\r\n"));
    assert_eq!(items, format!("ITEM a%b [2 b; {} s]\r\nEND\r\n", now + 100));
}

/// As in memcached, a dump is refused while replies to earlier requests are not sent yet. Only the replies to dumps and
/// to `watch` depend on how the input is split.
#[test]
fn dumps_are_refused_after_pipelined_requests() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    client.send(b"get a\r\nlru_crawler metadump all\r\nlru_crawler mgdump all\r\n");
    let expected = "END\r\nERROR cannot pipeline other commands before metadump\r\n\
                    ERROR cannot pipeline other commands before mgdump\r\n";
    assert_eq!(String::from_utf8_lossy(&client.received), expected);
    client.received.clear();
    client.send(b"lru_crawler metadump x\r\n");
    assert_eq!(client.received, b"BADCLASS invalid class id\r\n");
}

#[test]
fn only_one_requested_crawl_runs_at_a_time() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let ticket = shared.crawls.begin().expect("no other crawl is running");
    let mut client = Client::new(fixture.worker(&shared));
    client.send(b"lru_crawler crawl all\r\n");
    client.send(b"lru_crawler metadump all\r\n");
    let busy = b"BUSY currently processing crawler request\r\n".repeat(2);
    assert_eq!(client.received, busy);
    drop(ticket);
    client.received.clear();
    client.send(b"lru_crawler crawl all\r\n");
    assert_eq!(
        shared.notifier.wait(BackgroundThread::Crawler, Duration::ZERO),
        WakeReason::Notified
    );
    let now = fixture.clock.now();
    assert_eq!(shared.crawls.step(&fixture.engine, 1024, now), CrawlStep::Done);
    client.send(b"lru_crawler crawl 1\r\nget a\r\n");
    assert_eq!(client.received, b"OK\r\nOK\r\nEND\r\n");
    assert!(shared.crawls.is_running(), "the crawl runs until the crawler's thread completes it");
    assert_eq!(shared.crawls.starts(), 3);
}

#[test]
fn dumps_can_be_disabled() {
    check_with(
        |settings| settings.dump_enabled = false,
        "> lru_crawler metadump all
         < ERROR metadump not allowed
         > lru_crawler mgdump all
         < ERROR key dump not allowed
         > stats cachedump 1 0
         < CLIENT_ERROR stats cachedump not allowed",
    );
}

#[test]
fn debug_commands_are_unknown_unless_an_option_enables_them() {
    check(
        "> debugtime 5
         < ERROR
         > debugitem ref a
         < ERROR
         > debugcheck
         < ERROR
         > misbehave
         < ERROR",
    );
    check_with(
        |settings| settings.debug_commands = true,
        "> set a 0 5 1
         > x
         < STORED
         > debugitem ref b
         < MISS
         > debugitem ref a
         < OK
         > debugcheck
         < OK
         > debugitem unref b
         < MISS
         > debugitem unref reffed
         < OK
         > debugitem unref a
         < MISS
         > debugtime x
         < ERROR
         > debugtime -1
         < ERROR
         > debugtime 4
         < OK
         > get a
         < VALUE a 0 1
         < x
         < END
         > debugtime 1
         < OK
         > get a
         < END",
    );
}

#[test]
fn each_refresh_of_the_certificates_ends_the_round_of_its_connection() {
    let ours = Authority::new("ours");
    let files = CertificateFiles::new(&ours.server(), &ours);
    let fixture = Fixture::new();
    let mut shared = fixture.shared();
    shared.tls = Some(load(&settings(&files)));
    let mut client = Client::new(fixture.worker(&shared));
    client.send(b"refresh_certs\r\n".repeat(3).as_slice());
    assert_eq!(client.received, b"OK\r\n".repeat(3));
    assert_eq!(client.yields, 2);
    assert_eq!(
        client.worker.served.requests, 3,
        "a refresh counts as one request, although it ends the round"
    );
}
