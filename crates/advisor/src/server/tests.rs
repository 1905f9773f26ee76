//! A server of our own that answers as memcached does, but for what a case has it answer or do.

use super::{ServerAddress, ServerState, Source, Timeouts, observe};
use crate::error::AdvisorError;
use slabwise_base::Random;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const ITEMS_MAX: u64 = 1000;

/// What a command is answered with.
#[derive(Clone, Copy)]
enum Reply {
    /// These bytes.
    Bytes(&'static str),
    /// These bytes, and then nothing.
    Hang(&'static str),
    /// These bytes, and then the end of the connection.
    Close(&'static str),
    /// These bytes again and again.
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
    key=d exp=-1 la=1 cas=4 fetch=no cls=2 size=100\nEND\r\n";
const SIZES_OFF: &str = "STAT sizes_status disabled\r\nEND\r\n";

/// A memcached of four items, of 63, 63, 90 and 100 bytes.
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

/// Looks at a memcached with other replies to some commands.
fn look(
    others: &[(&'static str, Reply)],
    limits: Timeouts,
) -> Result<(Source, ServerState), AdvisorError> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a port");
    let address = listener.local_addr().expect("it is bound");
    let mut replies = BTreeMap::from(MEMCACHED);
    replies.extend(others.iter().copied());
    std::thread::scope(|scope| {
        scope.spawn(move || serve(&listener, &replies));
        let server = ServerAddress::Tcp(address.to_string());
        observe(&server, limits, ITEMS_MAX)
    })
}

/// Serves one connection until the client leaves it.
fn serve(listener: &TcpListener, replies: &BTreeMap<&str, Reply>) {
    let (stream, _) = listener.accept().expect("a client comes");
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
        // The client may have left.
        let _ = out.write_all(bytes.as_bytes());
        match end {
            None => line.clear(),
            Some(Reply::Endless(bytes)) => return repeat(&stream, bytes),
            Some(Reply::Close(_)) => return,
            Some(_) => {
                // Until the client gives up.
                let _ = input.read_line(&mut line);
                return;
            }
        }
    }
}

/// The same until the client leaves.
fn repeat(mut stream: &TcpStream, bytes: &str) {
    let many = bytes.repeat(1 + 65_536 / bytes.len());
    while stream.write_all(many.as_bytes()).is_ok() {}
}

fn patient() -> Timeouts {
    let long = Duration::from_secs(20);
    Timeouts { connect: long, read: long, reply: long }
}

/// Looks at a server that is waited for in vain: longer and longer, until it is for that and not for a slow
/// machine that the look ends as it should.
fn look_until<T>(
    others: &[(&'static str, Reply)],
    limits: impl Fn(Duration) -> Timeouts,
    as_it_should: impl Fn(&Result<(Source, ServerState), AdvisorError>) -> Option<T>,
) -> T {
    const WAITS_MS: [u64; 3] = [40, 400, 4000];
    let mut last = None;
    for wait in WAITS_MS.map(Duration::from_millis) {
        let looked = look(others, limits(wait));
        match as_it_should(&looked) {
            Some(found) => return found,
            None => last = Some(looked),
        }
    }
    panic!("it ended so: {last:?}")
}

/// The server falls silent where it is expected to.
fn expect_silence(others: &[(&'static str, Reply)], after: &str) {
    let limits = |wait| Timeouts { read: wait, ..patient() };
    let is_told = |looked: &Result<(Source, ServerState), AdvisorError>| {
        let text = looked.as_ref().err()?.to_string();
        (text.contains("was silent for") && text.contains(after)).then_some(())
    };
    look_until(others, limits, is_told);
}

fn sizes(observed: Result<(Source, ServerState), AdvisorError>) -> Vec<(usize, u64)> {
    match observed {
        Ok((source, _)) => source.seen.bars().collect(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn sizes_are_counted_where_the_server_counts() {
    let observed = look(&[("stats sizes", Reply::Bytes(SIZES))], patient());
    let how = observed.as_ref().map(|(source, _)| source.text.clone()).unwrap_or_default();
    assert!(how.starts_with("`stats sizes`"), "{how}");
    // The class of 120 holds one item, so that it is not above 120.
    let within: Vec<(usize, u64)> = sizes(observed);
    assert_eq!(within.iter().map(|bar| bar.1).sum::<u64>(), 4);
    assert!(within.iter().all(|bar| bar.0 < 120), "{within:?}");
}

#[test]
fn items_are_looked_at_where_it_does_not() {
    let exact = [(63, 2), (90, 1), (100, 1)];
    for off in [SIZES_OFF, "END\r\n", "STAT 96 1\r\nEND\r\n", "ERROR\r\n"] {
        let observed = look(&[("stats sizes", Reply::Bytes(off))], patient());
        assert_eq!(sizes(observed), exact, "{off:?}");
    }
    // An older server dumps by classes only; a newer one begins with OK.
    let by_class = [
        ("lru_crawler metadump hash", Reply::Bytes("CLIENT_ERROR invalid slab class\r\n")),
        ("lru_crawler metadump all", Reply::Bytes(DUMP)),
    ];
    assert_eq!(sizes(look(&by_class, patient())), exact);
    let line = "OK\r\nkey=a cls=1 size=63\nEND\r\n";
    let begins = [("lru_crawler metadump hash", Reply::Bytes(line))];
    assert_eq!(sizes(look(&begins, patient())), [(63, 1)]);
}

#[test]
fn limits_and_the_present_table_are_the_servers() {
    let (_, state) = look(&[], patient()).expect("a good server");
    assert_eq!(state.table, [96, 120, 524_288]);
    assert_eq!(state.cache.page_size_bytes(), 1 << 20);
    assert_eq!(state.version, "1.6.18");
    assert_eq!(state.item_count, 4);
}

#[test]
fn an_endless_dump_is_cut_by_items_and_by_time() {
    let line = "key=a exp=-1 la=1 cas=1 fetch=no cls=1 size=63\n";
    let endless = [("lru_crawler metadump hash", Reply::Endless(line))];
    let (source, _) = look(&endless, patient()).expect("a sample is enough");
    assert!(source.text.contains("a sample of 1000 items"), "{}", source.text);
    // The one item of the other class was not seen, and may be as large as its chunk.
    assert_eq!(source.seen.bars().collect::<Vec<_>>(), [(63, ITEMS_MAX), (120, 1)]);
    let hanging = [("lru_crawler metadump hash", Reply::Hang(line))];
    let short = |wait| Timeouts { reply: wait, ..patient() };
    let how = look_until(&hanging, short, |looked| Some(looked.as_ref().ok()?.0.text.clone()));
    assert!(how.contains("a sample of 1 items"), "{how}");
}

#[test]
fn servers_that_hang_or_close_are_named() {
    for (command, _) in MEMCACHED {
        let after = format!("after 0 lines of its reply to `{command}`");
        expect_silence(&[(command, Reply::Hang(""))], &after);
        let error = look(&[(command, Reply::Close(""))], patient()).expect_err(command);
        let expected = format!("closed the connection after 0 lines of its reply to `{command}`");
        assert!(error.to_string().contains(&expected), "{error}");
        let half = look(&[(command, Reply::Close("STAT a 1\r\nSTA"))], patient());
        assert!(half.is_err(), "{command}");
    }
    let half = [("stats slabs", Reply::Hang("STAT 1:chunk_size 96\r\nSTA"))];
    expect_silence(&half, "after 1 lines of its reply to `stats slabs`");
}

#[test]
fn servers_that_lie_are_named() {
    const CHUNK_0: &str = "STAT 1:chunk_size 0\r\nSTAT 1:chunks_per_page 5\r\nEND\r\n";
    const NO_PAGE: &str = "STAT 1:chunk_size 99999999\r\nSTAT 1:chunks_per_page 500\r\nEND\r\n";
    const HUGE: &str = "STAT 1:chunk_size 18446744073709551616\r\nEND\r\n";
    const LIMITS: &str = "STAT item_size_max 64\r\nSTAT slab_chunk_max 524288\r\nEND\r\n";
    const MOST: &str = "STAT 96 18446744073709551615\r\nEND\r\n";
    let cases: [(&str, Reply, &str); 22] = [
        ("version", Reply::Bytes("HTTP/1.1 400 Bad Request\r\n"), "'HTTP/1.1 400 Bad Request'"),
        ("version", Reply::Bytes("ERROR\r\n"), "refused `version`: 'ERROR'"),
        ("version", Reply::Endless("x"), "with a line of more than 4096 bytes"),
        ("version", Reply::Bytes("VERSION \u{1b}[2J\r\n\r\n"), "with '', which is no line"),
        ("stats", Reply::Bytes("CLIENT_ERROR unauthenticated\r\n"), "unauthenticated"),
        ("stats", Reply::Bytes("END\r\n"), "does not tell curr_items"),
        ("stats", Reply::Bytes("STAT curr_items many\r\nEND\r\n"), "'STAT curr_items many'"),
        ("stats", Reply::Bytes("STAT curr_items 4\r\nENDE\r\n"), "'ENDE', which is no line"),
        ("stats", Reply::Endless("STAT curr_items 4\r\n"), "with more than 1048576 rows"),
        ("stats settings", Reply::Bytes("END\r\n"), "does not tell item_size_max"),
        ("stats settings", Reply::Bytes(LIMITS), "which do not go together"),
        ("stats slabs", Reply::Bytes(CHUNK_0), "which no page is"),
        ("stats slabs", Reply::Bytes(NO_PAGE), "which no page is"),
        ("stats slabs", Reply::Bytes(HUGE), "1:chunk_size 18446744073709551616"),
        ("stats items", Reply::Bytes("STAT items:1:number -1\r\nEND\r\n"), "items:1:number -1"),
        ("stats sizes", Reply::Bytes("STAT 97 4\r\nEND\r\n"), "'STAT 97 4'"),
        ("stats sizes", Reply::Bytes("STAT 96 -4\r\nEND\r\n"), "'STAT 96 -4'"),
        ("stats sizes", Reply::Bytes("STAT 2097152 4\r\nEND\r\n"), "'STAT 2097152 4'"),
        ("stats sizes", Reply::Bytes(MOST), "more items than any server holds"),
        ("lru_crawler metadump hash", Reply::Bytes("END\r\n"), "holds no item"),
        ("lru_crawler metadump hash", Reply::Bytes("key=a cls=1 size=0\n"), "size=0', which is no"),
        ("lru_crawler metadump hash", Reply::Bytes("key=a cls=1\n"), "'key=a cls=1', which is no"),
    ];
    for (command, reply, reason) in cases {
        let error = look(&[(command, reply)], patient()).expect_err(reason).to_string();
        assert!(error.starts_with("127.0.0.1:") && error.contains(reason), "{reason}: {error}");
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
    let forbidden = [
        ("lru_crawler metadump hash", Reply::Bytes("ERROR metadump not allowed\r\n")),
        ("lru_crawler metadump all", Reply::Bytes("ERROR metadump not allowed\r\n")),
    ];
    let error = look(&forbidden, patient()).expect_err("no sizes").to_string();
    assert!(error.contains("'ERROR metadump not allowed'; try again"), "{error}");
}

#[test]
fn nobody_at_the_address_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let tcp = ServerAddress::Tcp(address.to_string());
    let unix = ServerAddress::Unix("/nowhere/socket".to_owned());
    for server in [tcp, unix] {
        let error = observe(&server, patient(), ITEMS_MAX).expect_err("nobody");
        let text = error.to_string();
        assert!(text.starts_with(&format!("{server} cannot be connected to")), "{text}");
    }
}

#[test]
fn no_reply_breaks_it() {
    const CHARS: &[char] = &['0', '9', '-', ' ', ':', 'E', '\n', '\r', '\0', 'é', '='];
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (command, reply) = MEMCACHED[random.below(MEMCACHED.len() as u64) as usize];
        let Reply::Bytes(text) = reply else { unreachable!("a good server answers") };
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + random.below(4) {
            let at = random.below(chars.len() as u64) as usize;
            chars[at] = CHARS[random.below(CHARS.len() as u64) as usize];
        }
        let text: &'static str = String::leak(chars.into_iter().collect());
        match look(&[(command, Reply::Close(text))], patient()) {
            Ok((source, _)) => assert!(source.seen.item_count() > 0, "seed {seed}"),
            Err(error) => {
                assert!(error.to_string().starts_with("127.0.0.1:"), "seed {seed}: {error}")
            }
        }
    }
}
