//! Watchers: the command `watch`, the log lines, and the bounded buffer of each watcher.

use crate::session::testing::{Client, Fixture, check_with};
use crate::shared::{Shared, WatchEvent, Watcher};
use slabwise_base::{ClassId, Random};
use slabwise_engine::EvictionObserver;
use slabwise_protocol::WatchKinds;
use std::sync::Arc;
use std::time::Duration;

/// Makes a client that watches these kinds of events.
fn watcher<'e>(fixture: &'e Fixture, shared: &'e Shared<'e>, kinds: &str) -> Client<'e> {
    let mut client = Client::new(fixture.worker(shared));
    client.send(format!("watch {kinds}\r\n").as_bytes());
    assert_eq!(client.received, b"OK\r\n");
    client.received.clear();
    client
}

/// Removes the first field of each line, the line's number.
fn unnumbered(lines: Vec<String>) -> Vec<String> {
    let strip = |line: String| {
        line.split_once(' ').map_or_else(|| line.clone(), |(_, rest)| rest.to_owned())
    };
    lines.into_iter().map(strip).collect()
}

/// Sends a script while a client watches fetchers, mutations and deletions, and compares the log lines. In the expected
/// lines `clsid=C` matches any class.
pub(super) fn check_lines(script: impl AsRef<[u8]>, expected: &str) {
    let script = script.as_ref();
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut watcher = watcher(&fixture, &shared, "fetchers mutations deletions");
    let mut client = Client::new(fixture.worker(&shared));
    client.worker.descriptor = 30;
    client.send(script);
    let lines = unnumbered(watcher.watched_lines()).into_iter().map(|line| {
        let fields = line.split(' ').map(|field| match field.strip_prefix("clsid=") {
            Some("0") | None => field,
            Some(_) => "clsid=C",
        });
        fields.collect::<Vec<_>>().join(" ")
    });
    let expected: Vec<_> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.collect::<Vec<_>>(), expected, "{}", script.escape_ascii());
}

#[test]
fn an_item_that_arithmetic_or_a_delete_creates_is_reported_as_a_store() {
    check_lines(
        "ma n N0 J25\r\nma n N0\r\nme n\r\nmd n x\r\nmd nothing x\r\nmd n x C9999\r\n",
        "type=item_get key=n status=not_found clsid=0 cfd=30 size=0
         type=item_get key=n status=not_found clsid=0 cfd=30 size=0
         type=item_store key=n status=stored cmd=add ttl=0 clsid=C cfd=30 size=2
         type=item_get key=n status=found clsid=C cfd=30 size=2
         type=item_get key=n status=found clsid=C cfd=30 size=2
         type=item_get key=n status=found clsid=C cfd=30 size=2
         type=item_get key=n status=found clsid=C cfd=30 size=2
         type=item_store key=n status=stored cmd=set ttl=0 clsid=C cfd=30 size=0
         type=deleted key=n cmd=md clsid=C size=0
         type=item_get key=nothing status=not_found clsid=0 cfd=30 size=0
         type=item_get key=n status=found clsid=C cfd=30 size=0",
    );
}

#[test]
fn watch_refuses_unknown_kinds_and_earlier_unsent_replies() {
    let fixture = Fixture::new();
    for (script, reply) in [
        ("watch garbage\r\n", "ERROR\r\n"),
        ("watch fetchers garbage\r\n", "ERROR\r\n"),
        ("watch noreply\r\n", "ERROR\r\n"),
        ("watch\r\n", "OK\r\n"),
        ("watch rawcmds proxyreqs proxyevents proxyuser\r\n", "OK\r\n"),
        ("version\r\nwatch\r\n", "ERROR cannot pipeline other commands before watch\r\n"),
        ("version\r\nwatch x\r\n", "ERROR cannot pipeline other commands before watch\r\n"),
        // The server ignores input from a watcher.
        ("watch\r\nversion\r\nget a\r\n", "OK\r\n"),
    ] {
        let received = fixture.talk([script.as_bytes()]);
        let received = String::from_utf8_lossy(&received);
        assert_eq!(received.strip_prefix("VERSION 1.6.45\r\n").unwrap_or(&received), reply);
    }
    check_with(
        |settings| settings.watch_enabled = false,
        "> watch
         < CLIENT_ERROR watch commands not allowed
         > watch garbage
         < CLIENT_ERROR watch commands not allowed
         > get a
         < END",
    );
}

#[test]
fn at_most_twenty_clients_can_watch_at_a_time() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut watchers: Vec<_> = (0..20).map(|_| watcher(&fixture, &shared, "evictions")).collect();
    assert_eq!(shared.watch.watcher_count(), 20);
    let mut another = Client::new(fixture.worker(&shared));
    another.send(b"watch\r\n");
    assert_eq!(another.received, b"WATCHER_TOO_MANY log watcher limit reached\r\n");
    assert!(!shared.is_watched(WatchKinds::FETCHERS));
    watchers.remove(7);
    another.send(b"watch\r\n");
    assert!(another.received.ends_with(b"OK\r\n"));
    assert!(shared.is_watched(WatchKinds::FETCHERS));
    drop(another);
    assert!(!shared.is_watched(WatchKinds::FETCHERS));
    assert!(shared.is_watched(WatchKinds::EVICTIONS));
    drop(watchers);
    assert!(!shared.is_watched(WatchKinds::EVICTIONS));
    assert_eq!(shared.watch.watcher_count(), 0);
}

#[test]
fn lookups_of_every_command_are_reported() {
    check_lines(
        "get a\r\nset a 0 0 3\r\nfoo\r\nget a b\r\ntouch a 5\r\ngat 0 a\r\nincr a 1\r\n",
        "type=item_get key=a status=not_found clsid=0 cfd=30 size=0
         type=item_get key=a status=not_found clsid=0 cfd=30 size=0
         type=item_store key=a status=stored cmd=set ttl=0 clsid=C cfd=30 size=3
         type=item_get key=a status=found clsid=C cfd=30 size=3
         type=item_get key=b status=not_found clsid=0 cfd=30 size=0
         type=item_get key=a status=found clsid=C cfd=30 size=3
         type=item_get key=a status=found clsid=C cfd=30 size=3
         type=item_get key=a status=found clsid=C cfd=30 size=3",
    );
}

#[test]
fn stores_are_reported_with_their_outcome() {
    check_lines(
        "add a 0 5 1\r\nx\r\nadd a 0 0 1\r\nx\r\nreplace b 0 0 1\r\nx\r\n\
         append a 0 0 4\r\nabcd\r\nprepend b 0 0 2\r\nab\r\ncas a 0 0 1 99\r\nx\r\n\
         cas b 0 0 1 99\r\nx\r\nset a 0 0 1\r\nbad\r\n",
        "type=item_get key=a status=not_found clsid=0 cfd=30 size=0
         type=item_store key=a status=stored cmd=add ttl=5 clsid=C cfd=30 size=1
         type=item_get key=a status=found clsid=C cfd=30 size=1
         type=item_store key=a status=not_stored cmd=add ttl=0 clsid=C cfd=30 size=1
         type=item_get key=b status=not_found clsid=0 cfd=30 size=0
         type=item_store key=b status=not_stored cmd=replace ttl=0 clsid=C cfd=30 size=1
         type=item_get key=a status=found clsid=C cfd=30 size=1
         type=item_store key=a status=stored cmd=append ttl=5 clsid=C cfd=30 size=5
         type=item_get key=b status=not_found clsid=0 cfd=30 size=0
         type=item_store key=b status=not_stored cmd=prepend ttl=0 clsid=C cfd=30 size=2
         type=item_get key=a status=found clsid=C cfd=30 size=5
         type=item_store key=a status=exists cmd=cas ttl=0 clsid=C cfd=30 size=1
         type=item_get key=b status=not_found clsid=0 cfd=30 size=0
         type=item_store key=b status=not_found cmd=cas ttl=0 clsid=C cfd=30 size=1",
    );
    // A value that is too large is refused before it arrives. Then the set looks up the old value to remove it.
    check_lines(
        format!("set a 0 0 1\r\nx\r\nset a 0 5 200000\r\n{}\r\n", "x".repeat(200_000)),
        "type=item_get key=a status=not_found clsid=0 cfd=30 size=0
         type=item_store key=a status=stored cmd=set ttl=0 clsid=C cfd=30 size=1
         type=item_store key=a status=too_large cmd=set ttl=0 clsid=0 cfd=30 size=0
         type=item_get key=a status=found clsid=C cfd=30 size=1",
    );
}

#[test]
fn a_value_that_arrives_in_parts_is_reported_when_it_is_stored() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut watcher = watcher(&fixture, &shared, "mutations");
    let mut client = Client::new(fixture.worker(&shared));
    client.send(b"set a 0 0 20000\r\n");
    client.send(&[b'x'; 15_000]);
    assert_eq!(watcher.watched_lines(), [""; 0]);
    client.send(&[b'x'; 5_000]);
    client.send(b"\r\n");
    assert_eq!(client.received, b"STORED\r\n");
    let lines = watcher.watched_lines();
    assert!(lines[0].contains("key=a status=stored cmd=set") && lines[0].ends_with("size=20000"));
    assert_eq!(lines.len(), 1);
}

#[test]
fn only_successful_deletes_are_reported() {
    check_lines(
        "delete a%\r\nset a% 0 0 3\r\nfoo\r\ndelete a%\r\n",
        "type=item_get key=a%25 status=not_found clsid=0 cfd=30 size=0
         type=item_get key=a%25 status=not_found clsid=0 cfd=30 size=0
         type=item_store key=a%25 status=stored cmd=set ttl=0 clsid=C cfd=30 size=3
         type=item_get key=a%25 status=found clsid=C cfd=30 size=3
         type=deleted key=a%25 cmd=delete clsid=C size=3",
    );
}

#[test]
fn log_lines_distinguish_expired_and_flushed_items() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut client = Client::new(fixture.worker(&shared));
    client.send(b"set old 0 5 1\r\nx\r\nset new 0 0 1\r\nx\r\n");
    fixture.clock.advance(Duration::from_secs(10));
    client.worker.now = fixture.clock.now();
    let mut watcher = watcher(&fixture, &shared, "");
    client.send(b"get old old\r\nflush_all\r\nget new\r\n");
    let lines = unnumbered(watcher.watched_lines());
    let statuses: Vec<_> = lines.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(statuses, ["status=expired", "status=not_found", "status=flushed"]);
    // The lookups for the log lines do not count as gets.
    let stats = fixture.engine.stats(fixture.clock.now());
    assert_eq!((stats.get_expired, stats.get_flushed, stats.get_misses), (1, 1, 3));
}

#[test]
fn every_eviction_is_reported() {
    let fixture = Fixture::with(|config| config.memory_limit_bytes = 1 << 20);
    let shared = fixture.shared();
    let observer = Arc::clone(&shared.watch) as Arc<dyn EvictionObserver>;
    fixture.engine.observers().set_eviction_observer(observer);
    let mut client = Client::new(fixture.worker(&shared));
    let mut fill = |first: usize| {
        for number in first..first + 200 {
            let set = format!("set key{number} 0 100 10000 noreply\r\n{}\r\n", "x".repeat(10_000));
            client.send(set.as_bytes());
        }
    };
    fill(0);
    let mut watcher = watcher(&fixture, &shared, "evictions");
    fixture.clock.advance(Duration::from_secs(10));
    let before = fixture.engine.stats(fixture.clock.now()).total.counters.evicted;
    fill(1_000);
    let evicted = fixture.engine.stats(fixture.clock.now()).total.counters.evicted - before;
    let lines = unnumbered(watcher.watched_lines());
    assert!(
        evicted > 0 && lines.len() as u64 == evicted,
        "{} log lines for {evicted} evictions",
        lines.len()
    );
    for line in &lines {
        assert!(line.starts_with("type=eviction key=key"), "{line}");
        assert!(
            line.contains(" fetch=no ttl=100 la=0 ") && line.ends_with(" size=10000"),
            "{line}"
        );
    }
}

#[test]
fn lines_are_numbered_and_a_slow_watcher_receives_the_number_of_skipped_lines() {
    let mut fixture = Fixture::new();
    fixture.settings.watcher_log_bytes = 1_000;
    let shared = fixture.shared();
    let mut slow = watcher(&fixture, &shared, "fetchers");
    let mut quick = watcher(&fixture, &shared, "fetchers");
    let mut client = Client::new(fixture.worker(&shared));
    let mut last = 0;
    for _ in 0..1_000 {
        client.send(b"get a\r\n");
        for line in quick.watched_lines() {
            let number = number_of(&line).expect("a watcher that reads every line misses none");
            assert_eq!(number, last + 1);
            last = number;
        }
    }
    assert_eq!(last, 1_000);
    let lines = slow.watched_lines();
    let (last_line, kept) = lines.split_last().expect("the watcher's buffer holds the first lines");
    let skipped: usize = last_line
        .strip_prefix("skipped=")
        .expect("the last line counts the skipped lines")
        .parse()
        .expect("a number follows skipped=");
    assert_eq!(kept.len() + skipped, 1_000);
    assert!(
        kept.iter().map(String::len).sum::<usize>() <= 1_000,
        "the watcher's buffer has 1,000 bytes"
    );
    client.send(b"get a\r\n");
    let lines = slow.watched_lines();
    assert_eq!(number_of(&lines[0]), Some(1_001), "{lines:?}");
    let counts = shared.watch.counts();
    assert_eq!((counts.written, counts.skipped), (1_001, skipped as u64));
    assert_eq!(counts.sent, 2 * 1_001 - skipped as u64);
}

/// Returns the number of a log line; `None` if the line counts skipped lines.
fn number_of(line: &str) -> Option<u64> {
    line.strip_prefix("gid=")?.split(' ').next()?.parse().ok()
}

#[test]
fn lines_of_concurrent_writers_arrive_exactly_once_and_in_order() {
    const WRITERS: u64 = 3;
    const EVENTS: u64 = 2_000;
    for seed in 0..8 {
        let mut fixture = Fixture::new();
        fixture.settings.watcher_log_bytes = 4_000;
        let shared = fixture.shared();
        let watch = &shared.watch;
        let mut watcher = Watcher::new(&shared.watch, shared.engine, 5, WatchKinds::SYSEVENTS)
            .expect("a first watcher is always accepted");
        let mut taken = Vec::new();
        std::thread::scope(|scope| {
            let write = |_| {
                for _ in 0..EVENTS {
                    let victim = ClassId::from_wire(1).expect("1 is a valid class number");
                    watch.write(&WatchEvent::PageMove { victim, receiver: None, is_begun: true });
                    watch.deliver(|worker| assert_eq!(worker, 5));
                }
            };
            let writers: Vec<_> = (0..WRITERS).map(|n| scope.spawn(move || write(n))).collect();
            let mut random = Random::new(seed);
            while !writers.iter().all(|writer| writer.is_finished()) {
                if random.below(3) == 0 {
                    watcher.take_lines(&mut taken);
                }
                std::thread::yield_now();
            }
        });
        watcher.take_lines(&mut taken);
        // The number of the last line, and the count of received and skipped lines.
        let (mut last, mut seen) = (0, 0);
        for line in String::from_utf8(taken).expect("log lines are UTF-8").lines() {
            if let Some(skipped) = line.strip_prefix("skipped=") {
                let skipped: u64 = skipped.parse().expect("a number follows skipped=");
                (last, seen) = (last + skipped, seen + skipped);
            } else {
                let number = line.split(' ').nth(1).and_then(number_of).expect("gid is a number");
                assert_eq!(number, last + 1, "seed {seed}");
                (last, seen) = (number, seen + 1);
            }
        }
        assert_eq!(seen, WRITERS * EVENTS, "seed {seed}");
    }
}

#[test]
fn a_worker_is_woken_once_until_it_takes_the_lines() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut watcher = watcher(&fixture, &shared, "fetchers");
    let mut client = Client::new(fixture.worker(&shared));
    let woken_workers = || {
        let mut workers = Vec::new();
        shared.watch.deliver(|worker| workers.push(worker));
        workers
    };
    assert!(woken_workers().is_empty());
    client.send(b"get a b c\r\n");
    assert_eq!(woken_workers(), [0]);
    client.send(b"get d\r\n");
    assert!(woken_workers().is_empty(), "a woken worker is not woken again before it reads");
    assert_eq!(watcher.watched_lines().len(), 4);
    client.send(b"get e\r\n");
    assert_eq!(woken_workers(), [0]);
}
