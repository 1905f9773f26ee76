//! Tests with a fake server. It has the replies of a memcached, but each test replaces the replies to some commands.

use super::{Connector, ServerState, Source, observe};
use crate::chunk_sizes::error::AdvisorError;
use slabwise_base::Random;
use slabwise_client::{ServerAddress, Timeouts};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const ITEMS_MAX: u64 = 1000;

/// The reply to a command.
#[derive(Clone, Copy)]
enum Reply {
    Bytes(&'static str),
    /// Sends the bytes, and then nothing more.
    Hang(&'static str),
    /// Sends the bytes and then closes the connection.
    Close(&'static str),
    /// Sends the bytes again and again.
    Endless(&'static str),
}

const SETTINGS: &str = "STAT growth_factor 1.25\r\nSTAT chunk_size 48\r\n\
    STAT item_size_max 1048576\r\nSTAT slab_chunk_max 524288\r\nEND\r\n";
const SLABS: &str = "STAT 1:chunk_size 96\r\nSTAT 1:chunks_per_page 10922\r\n\
    STAT 1:total_pages 1\r\nSTAT 2:chunk_size 120\r\nSTAT 2:chunks_per_page 8738\r\n\
    STAT active_slabs 2\r\nEND\r\n";
const ITEMS: &str = "STAT items:1:number 3\r\nSTAT items:2:number 1\r\nEND\r\n";
const SIZES: &str = "STAT 96 3\r\nSTAT 128 1\r\nEND\r\n";
const DUMP: &str = "key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=63\n\
    key=b exp=-1 la=1 cas=2 fetch=no cls=1 size=90\nkey=c exp=-1 la=1 cas=3 fetch=no cls=1 size=63\n\
    key=d exp=-1 la=1 cas=4 fetch=no cls=2 size=100 flags=7 \nEND\r\n";
const SIZES_OFF: &str = "STAT sizes_status disabled\r\nEND\r\n";

/// A memcached with four items of 63, 63, 90 and 100 bytes.
const MEMCACHED: [(&str, Reply); 8] = [
    ("version", Reply::Bytes("VERSION 1.6.18\r\n")),
    ("stats", Reply::Bytes("STAT pid 1\r\nSTAT curr_items 4\r\nEND\r\n")),
    ("stats settings", Reply::Bytes(SETTINGS)),
    ("stats slabs", Reply::Bytes(SLABS)),
    ("stats items", Reply::Bytes(ITEMS)),
    ("slabs classes", Reply::Bytes("ERROR\r\n")),
    ("stats sizes", Reply::Bytes(SIZES_OFF)),
    ("lru_crawler metadump hash", Reply::Bytes(DUMP)),
];

/// Observes a fake memcached whose replies to some commands are replaced by `others`.
fn observe_with(
    others: &[(&'static str, Reply)],
    limits: Timeouts,
) -> Result<(Source, ServerState), AdvisorError> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a free port");
    let address = listener.local_addr().expect("the listener has an address");
    let mut replies = BTreeMap::from(MEMCACHED);
    replies.extend(others.iter().copied());
    std::thread::scope(|scope| {
        scope.spawn(move || serve(&listener, &replies));
        let server = ServerAddress::Tcp(address.to_string());
        observe(&Connector::new(server, limits), ITEMS_MAX)
    })
}

/// Serves one connection until the client closes it.
fn serve(listener: &TcpListener, replies: &BTreeMap<&str, Reply>) {
    let (stream, _) = listener.accept().expect("a client connects");
    let mut out = &stream;
    let mut input = BufReader::new(&stream);
    let mut line = String::new();
    while matches!(input.read_line(&mut line), Ok(1..)) {
        let (bytes, end) = match replies.get(line.trim_end()) {
            Some(Reply::Bytes(bytes)) => (*bytes, None),
            Some(Reply::Hang(bytes)) => (*bytes, Some(Reply::Hang(""))),
            Some(Reply::Close(bytes)) => (*bytes, Some(Reply::Close(""))),
            Some(Reply::Endless(bytes)) => (*bytes, Some(Reply::Endless(bytes))),
            None => ("ERROR\r\n", None),
        };
        // Sending fails if the client has already closed the connection.
        let _ = out.write_all(bytes.as_bytes());
        match end {
            None => line.clear(),
            Some(Reply::Endless(bytes)) => return repeat(&stream, bytes),
            Some(Reply::Close(_)) => return,
            Some(_) => {
                // Waits until the client closes the connection.
                let _ = input.read_line(&mut line);
                return;
            }
        }
    }
}

/// Sends the bytes again and again, until the client closes the connection.
fn repeat(mut stream: &TcpStream, bytes: &str) {
    let many = bytes.repeat(1 + 65_536 / bytes.len());
    while stream.write_all(many.as_bytes()).is_ok() {}
}

fn long_timeouts() -> Timeouts {
    let long = Duration::from_secs(20);
    Timeouts { connect: long, read: long, reply: long }
}

/// Observes a server that hangs. Repeats this with longer timeouts until `expected` returns a value, because on a slow
/// machine another step can time out first.
fn observe_until<T>(
    others: &[(&'static str, Reply)],
    limits: impl Fn(Duration) -> Timeouts,
    expected: impl Fn(&Result<(Source, ServerState), AdvisorError>) -> Option<T>,
) -> T {
    const WAITS_MS: [u64; 3] = [40, 400, 4000];
    let mut last = None;
    for wait in WAITS_MS.map(Duration::from_millis) {
        let observed = observe_with(others, limits(wait));
        match expected(&observed) {
            Some(found) => return found,
            None => last = Some(observed),
        }
    }
    panic!("no timeout has the expected result; the last result is {last:?}")
}

/// Checks that the error reports the read timeout. `after` is the part of the error text that names the lines and the
/// command.
fn expect_read_timeout(others: &[(&'static str, Reply)], after: &str) {
    let limits = |wait| Timeouts { read: wait, ..long_timeouts() };
    let is_reported = |observed: &Result<(Source, ServerState), AdvisorError>| {
        let text = observed.as_ref().err()?.to_string();
        (text.contains("sent no byte for") && text.contains(after)).then_some(())
    };
    observe_until(others, limits, is_reported);
}

fn sizes(observed: Result<(Source, ServerState), AdvisorError>) -> Vec<(usize, u64)> {
    match observed {
        Ok((source, _)) => source.seen.bins().collect(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn sizes_are_those_of_stats_sizes_if_it_is_enabled() {
    let observed = observe_with(&[("stats sizes", Reply::Bytes(SIZES))], long_timeouts());
    let how = observed.as_ref().map(|(source, _)| source.text.clone()).unwrap_or_default();
    assert!(how.starts_with("`stats sizes`"), "{how}");
    // The chunks of the second class have 120 bytes, so its item has at most 120 bytes.
    let within: Vec<(usize, u64)> = sizes(observed);
    assert_eq!(within.iter().map(|bin| bin.1).sum::<u64>(), 4);
    assert!(within.iter().all(|bin| bin.0 < 120), "{within:?}");
}

#[test]
fn sizes_are_those_of_a_metadump_if_stats_sizes_is_disabled() {
    let exact = [(63, 2), (90, 1), (100, 1)];
    for off in [SIZES_OFF, "END\r\n", "STAT 96 1\r\nEND\r\n", "ERROR\r\n"] {
        let observed = observe_with(&[("stats sizes", Reply::Bytes(off))], long_timeouts());
        assert_eq!(sizes(observed), exact, "{off:?}");
    }
    // An older server has only the argument `all`. The reply of a newer server starts with OK.
    let by_class = [
        ("lru_crawler metadump hash", Reply::Bytes("CLIENT_ERROR invalid slab class\r\n")),
        ("lru_crawler metadump all", Reply::Bytes(DUMP)),
    ];
    assert_eq!(sizes(observe_with(&by_class, long_timeouts())), exact);
    let line = "OK\r\nkey=a cls=1 size=63\nEND\r\n";
    let starts_with_ok = [("lru_crawler metadump hash", Reply::Bytes(line))];
    assert_eq!(sizes(observe_with(&starts_with_ok, long_timeouts())), [(63, 1)]);
}

#[test]
fn the_state_has_the_limits_and_the_current_table() {
    let (_, state) = observe_with(&[], long_timeouts()).expect("the replies are valid");
    assert_eq!(state.table, [96, 120, 524_288]);
    assert_eq!(state.cache.page_size_bytes(), 1 << 20);
    assert_eq!(state.version, "1.6.18");
    assert_eq!(state.item_count, 4);
}

#[test]
fn an_infinite_dump_is_truncated_at_the_limits_of_items_and_time() {
    let line = "key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=63\n";
    let endless = [("lru_crawler metadump hash", Reply::Endless(line))];
    let (source, _) = observe_with(&endless, long_timeouts()).expect("a truncated dump is valid");
    assert!(source.text.contains("a sample of 1000 items"), "{}", source.text);
    // The truncated dump does not have the item of class 2. The advisor assumes that this item fills its chunk.
    assert_eq!(source.seen.bins().collect::<Vec<_>>(), [(63, ITEMS_MAX), (120, 1)]);
    let hanging = [("lru_crawler metadump hash", Reply::Hang(line))];
    let short = |wait| Timeouts { reply: wait, ..long_timeouts() };
    let how = observe_until(&hanging, short, |it| Some(it.as_ref().ok()?.0.text.clone()));
    assert!(how.contains("a sample of 1 items"), "{how}");
}

#[test]
fn the_error_of_a_server_that_hangs_or_closes_names_the_command() {
    for (command, _) in MEMCACHED {
        let after = format!("after 0 lines of its reply to `{command}`");
        expect_read_timeout(&[(command, Reply::Hang(""))], &after);
        let closes = [(command, Reply::Close(""))];
        let error = observe_with(&closes, long_timeouts()).expect_err(command);
        let expected = format!("closed the connection after 0 lines of its reply to `{command}`");
        assert!(error.to_string().contains(&expected), "{error}");
        let half = [(command, Reply::Close("STAT a 1\r\nSTA"))];
        assert!(observe_with(&half, long_timeouts()).is_err(), "{command}");
    }
    let half = [("stats slabs", Reply::Hang("STAT 1:chunk_size 96\r\nSTA"))];
    expect_read_timeout(&half, "after 1 lines of its reply to `stats slabs`");
}

#[test]
fn the_error_of_an_implausible_reply_shows_the_reply() {
    const CHUNK_0: &str = "STAT 1:chunk_size 0\r\nSTAT 1:chunks_per_page 5\r\nEND\r\n";
    const NO_PAGE: &str = "STAT 1:chunk_size 99999999\r\nSTAT 1:chunks_per_page 500\r\nEND\r\n";
    const HUGE: &str = "STAT 1:chunk_size 18446744073709551616\r\nEND\r\n";
    const LIMITS: &str = "STAT item_size_max 64\r\nSTAT slab_chunk_max 524288\r\nEND\r\n";
    const MOST: &str = "STAT 96 18446744073709551615\r\nEND\r\n";
    let cases: [(&str, Reply, &str); 22] = [
        ("version", Reply::Bytes("HTTP/1.1 400 Bad Request\r\n"), "'HTTP/1.1 400 Bad Request'"),
        ("version", Reply::Bytes("ERROR\r\n"), "refused `version`: 'ERROR'"),
        ("version", Reply::Endless("x"), "with a line of more than 4096 bytes"),
        ("version", Reply::Bytes("VERSION \u{1b}[2J\r\n\r\n"), "with the invalid line ''"),
        ("stats", Reply::Bytes("CLIENT_ERROR unauthenticated\r\n"), "unauthenticated"),
        ("stats", Reply::Bytes("END\r\n"), "does not report curr_items"),
        ("stats", Reply::Bytes("STAT curr_items many\r\nEND\r\n"), "'STAT curr_items many'"),
        ("stats", Reply::Bytes("STAT curr_items 4\r\nENDE\r\n"), "the invalid line 'ENDE'"),
        ("stats", Reply::Endless("STAT curr_items 4\r\n"), "with more than 1048576 rows"),
        ("stats settings", Reply::Bytes("END\r\n"), "does not report item_size_max"),
        ("stats settings", Reply::Bytes(LIMITS), "which are inconsistent"),
        ("stats slabs", Reply::Bytes(CHUNK_0), "an invalid page size"),
        ("stats slabs", Reply::Bytes(NO_PAGE), "an invalid page size"),
        ("stats slabs", Reply::Bytes(HUGE), "1:chunk_size 18446744073709551616"),
        ("stats items", Reply::Bytes("STAT items:1:number -1\r\nEND\r\n"), "items:1:number -1"),
        ("stats sizes", Reply::Bytes("STAT 97 4\r\nEND\r\n"), "'STAT 97 4'"),
        ("stats sizes", Reply::Bytes("STAT 96 -4\r\nEND\r\n"), "'STAT 96 -4'"),
        ("stats sizes", Reply::Bytes("STAT 2097152 4\r\nEND\r\n"), "'STAT 2097152 4'"),
        ("stats sizes", Reply::Bytes(MOST), "an implausible number of items"),
        ("lru_crawler metadump hash", Reply::Bytes("END\r\n"), "has no items"),
        ("lru_crawler metadump hash", Reply::Bytes("key=a cls=1 size=0\n"), "size=0': check"),
        ("lru_crawler metadump hash", Reply::Bytes("key=a cls=1\n"), "line 'key=a cls=1'"),
    ];
    for (command, reply, reason) in cases {
        let observed = observe_with(&[(command, reply)], long_timeouts());
        let error = observed.expect_err(reason).to_string();
        assert!(error.starts_with("127.0.0.1:") && error.contains(reason), "{reason}: {error}");
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
    let forbidden = [
        ("lru_crawler metadump hash", Reply::Bytes("ERROR metadump not allowed\r\n")),
        ("lru_crawler metadump all", Reply::Bytes("ERROR metadump not allowed\r\n")),
    ];
    let error = observe_with(&forbidden, long_timeouts())
        .expect_err("the server returns no sizes")
        .to_string();
    assert!(error.contains("'ERROR metadump not allowed'; try again"), "{error}");
}

#[test]
fn the_error_of_an_unreachable_server_names_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a free port");
    let address = listener.local_addr().expect("the listener has an address");
    drop(listener);
    let tcp = ServerAddress::Tcp(address.to_string());
    let unix = ServerAddress::Unix("/nowhere/socket".to_owned());
    for server in [tcp, unix] {
        let error = observe(&Connector::new(server.clone(), long_timeouts()), ITEMS_MAX)
            .expect_err("no server listens");
        let text = error.to_string();
        assert!(text.starts_with(&format!("{server} cannot be reached")), "{text}");
    }
}

#[test]
fn random_replies_do_not_panic() {
    const CHARS: &[char] = &['0', '9', '-', ' ', ':', 'E', '\n', '\r', '\0', 'é', '='];
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (command, reply) = MEMCACHED[random.below(MEMCACHED.len() as u64) as usize];
        let Reply::Bytes(text) = reply else {
            unreachable!("all replies of `MEMCACHED` are bytes")
        };
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + random.below(4) {
            let at = random.below(chars.len() as u64) as usize;
            chars[at] = CHARS[random.below(CHARS.len() as u64) as usize];
        }
        let text: &'static str = String::leak(chars.into_iter().collect());
        match observe_with(&[(command, Reply::Close(text))], long_timeouts()) {
            Ok((source, _)) => assert!(source.seen.item_count() > 0, "seed {seed}"),
            Err(error) => {
                assert!(error.to_string().starts_with("127.0.0.1:"), "seed {seed}: {error}")
            }
        }
    }
}
