//! Replays against real servers: Debian's memcached where it is installed, and servers of the test's
//! own that answer wrongly.

use crate::client::{Client, CostForm, LengthCheck};
use crate::drive::{replay, unwatched};
use crate::error::ReplayError;
use crate::report::{Report, Tally};
use crate::workload::tests::{opened, options};
use crate::workload::{CostMix, Op, Options, Request};
use slabwise_base::Clock;
use slabwise_client::process::{Server, ServerCommand, StartError};
use slabwise_client::{ClientError, Connection, ServerAddress, Timeouts};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpListener;
use std::time::Duration;

/// A memcached of the test's own; `None` where it is not installed.
fn memcached(arguments: &[&str]) -> Option<Server> {
    let command = ServerCommand::on_free_port("memcached").with(arguments);
    match Server::start(&command) {
        Ok(server) => Some(server),
        Err(StartError::Spawn(_, error)) if error.kind() == ErrorKind::NotFound => {
            eprintln!("memcached is not installed: this test checks nothing");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn connect(server: &Server, connections: usize) -> Client {
    Client::connect(&server.address(), connections, LengthCheck::Exact, CostForm::None)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn replayed(
    name: &str,
    options: &Options,
    client: Client,
    round_size: usize,
) -> Result<Report, ReplayError> {
    let (workload, clock) = (opened(name, options), Clock::real());
    let tally = Tally::new(Some(10_000));
    let (tally, nanos) = replay(workload, client, round_size, None, &clock, tally, unwatched)?;
    Ok(tally.report(nanos as f64 / 1e9))
}

#[test]
fn with_enough_memory_every_key_misses_exactly_once() {
    let Some(server) = memcached(&["-m", "512"]) else { return };
    let options = Options { requests: Some(100_000), ..options() };
    // Each workload's keys and lengths must be new to the server, or old ones would be hits.
    let runs = [("kvcache_reg", 1, 32), ("cache2k-orm-busy", 3, 96), ("etc", 2, 2)];
    for (name, connections, round_size) in runs {
        flush_all(&server);
        let keys: HashSet<u64> =
            opened(name, &options).filter_map(|request| request.ok().map(|r| r.key)).collect();
        let report = replayed(name, &options, connect(&server, connections), round_size)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((report.requests, report.gets), (100_000, 100_000), "{name}");
        assert_eq!(report.misses, keys.len() as u64, "{name}");
        assert_eq!(report.sets_refused, 0, "{name}");
        let windows = report.windows.unwrap_or_default();
        assert_eq!(windows.iter().map(|w| w.misses).sum::<u64>(), report.misses, "{name}");
        assert!(report.p50_us > 0.0 && report.p50_us <= report.p999_us, "{name}");
    }
}

/// Makes the server forget everything.
fn flush_all(server: &Server) {
    let long = Duration::from_secs(20);
    let timeouts = Timeouts { connect: long, read: long, reply: long };
    let reply = Connection::open(&server.address(), timeouts)
        .and_then(|mut connection| connection.ask_line("flush_all"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reply, "OK");
}

#[test]
fn sets_that_the_server_refuses_are_counted_and_stay_misses() {
    let Some(server) = memcached(&["-m", "64", "-I", "512k"]) else { return };
    // One value longer than the server takes, asked for over and over in every round.
    let options =
        Options { requests: Some(200), keys: Some(1), value_len: Some(600_000), ..options() };
    let report =
        replayed("zipf", &options, connect(&server, 1), 8).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((report.misses, report.sets_refused), (200, 200));
}

#[test]
fn values_larger_than_every_buffer_go_both_ways() {
    let Some(server) = memcached(&["-m", "512", "-I", "8m"]) else { return };
    let options =
        Options { requests: Some(200), keys: Some(10), value_len: Some(3_000_000), ..options() };
    let report =
        replayed("zipf", &options, connect(&server, 2), 32).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((report.misses, report.sets_refused), (10, 0));
}

/// A server that reads lines and answers each with what `answer` gives, then waits for the client to
/// leave.
fn wrong_server(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> ServerAddress {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("{error}"));
    let address = listener.local_addr().unwrap_or_else(|error| panic!("{error}"));
    std::thread::spawn(move || {
        let Ok((stream, _)) = listener.accept() else { return };
        let Ok(mut replies) = stream.try_clone() else { return };
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            let answer = answer(&line);
            if answer.is_empty() || replies.write_all(&answer).is_err() {
                return;
            }
        }
    });
    ServerAddress::Tcp(address.to_string())
}

/// The error that a replay of a few requests ends with.
fn stopped_by(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> ReplayError {
    let address = wrong_server(answer);
    let options = Options { requests: Some(10), value_len: Some(100), ..options() };
    let client = Client::connect(&address, 1, LengthCheck::Exact, CostForm::None)
        .unwrap_or_else(|error| panic!("{error}"));
    match replayed("zipf", &options, client, 1) {
        Ok(report) => panic!("the replay went on: {report:?}"),
        Err(error) => error,
    }
}

#[test]
fn a_hit_with_other_bytes_another_key_or_another_length_stops_the_replay() {
    let hit = |key: &str, value: &[u8]| {
        let head = format!("VALUE {key} 0 {}\r\n", value.len());
        [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
    };
    let asked = |line: &str| line.strip_prefix("get ").unwrap_or("").to_owned();
    let bytes = stopped_by(move |line| hit(&asked(line), &[b'x'; 100]));
    assert!(matches!(&bytes, ReplayError::WrongData { what, .. } if what.contains("not those")));
    let length = stopped_by(move |line| hit(&asked(line), &[b'x'; 99]));
    assert!(matches!(&length, ReplayError::WrongData { what, .. } if what.contains("the 99 B")));
    let key = stopped_by(move |_| hit("k00000000000000ff", &[b'x'; 100]));
    assert!(matches!(&key, ReplayError::WrongData { what, .. } if what.contains("is for key")));
}

#[test]
fn values_that_another_replay_left_are_told_from_wrong_ones() {
    let Some(server) = memcached(&["-m", "64"]) else { return };
    let run = |value_len| {
        let options = Options { requests: Some(10), value_len: Some(value_len), ..options() };
        replayed("zipf", &options, connect(&server, 1), 4)
    };
    assert!(run(100).is_ok());
    match run(101) {
        Err(error @ ReplayError::OtherReplay { found: 100, value_len: 101, .. }) => {
            assert!(error.to_string().contains("flush_all"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_speaks_something_else_or_leaves_stops_the_replay() {
    let error = stopped_by(|_| b"HTTP/1.1 400 Bad Request\r\n".to_vec());
    assert!(error.to_string().contains("HTTP/1.1 400"), "{error}");
    let error = stopped_by(|_| b"STORED\r\n".to_vec());
    assert!(error.to_string().contains("Stored"), "{error}");
    let error = stopped_by(|_| b"SERVER_ERROR busy\r\n".to_vec());
    assert!(error.to_string().contains("SERVER_ERROR busy"), "{error}");
    let error = stopped_by(|_| Vec::new());
    assert!(matches!(error, ReplayError::Dialogue(ClientError::Closed)), "{error}");
}

#[test]
fn what_a_server_says_to_costs_it_does_not_take_is_shown() {
    let said = |form, reply: &'static str| {
        let address = wrong_server(move |line| match line.starts_with("get ") {
            true => b"END\r\n".to_vec(),
            false => reply.as_bytes().to_vec(),
        });
        let options = Options { requests: Some(10), value_len: Some(100), ..options() };
        let client = Client::connect(&address, 1, LengthCheck::Exact, form);
        let client = client.unwrap_or_else(|error| panic!("{error}"));
        let workload = opened("zipf", &options).with_costs(CostMix::Tpcw, 1);
        let tally = Tally::new(None);
        let result = replay(workload, client, 1, None, &Clock::real(), tally, unwatched);
        result.map_or_else(|error| error.to_string(), |_| panic!("the replay went on"))
    };
    let error = said(CostForm::Wire, "CLIENT_ERROR costs are not taken here\r\n");
    assert!(error.contains("costs are not taken here"), "{error}");
    let error = said(CostForm::Meta, "CLIENT_ERROR invalid flag\r\n");
    assert!(error.contains("invalid flag"), "{error}");
}

#[test]
fn costs_weigh_misses_whether_they_are_told_or_not() {
    let Some(server) = memcached(&["-m", "64"]) else { return };
    let options = Options { requests: Some(2_000), keys: Some(300), ..options() };
    let workload = || opened("zipf", &options).with_costs(CostMix::Baseline, 1);
    let (mut seen, mut asked, mut missed) = (HashSet::new(), 0, 0);
    for request in workload() {
        let Ok(Request { key, cost: Some(cost), .. }) = request else { panic!("no cost") };
        asked += u64::from(cost.units());
        missed += if seen.insert(key) { u64::from(cost.units()) } else { 0 };
    }
    let (clock, tally) = (Clock::real(), Tally::new(None));
    let (tally, nanos) = replay(workload(), connect(&server, 1), 8, None, &clock, tally, unwatched)
        .unwrap_or_else(|error| panic!("{error}"));
    let report = tally.report(nanos as f64 / 1e9);
    assert_eq!(report.misses, seen.len() as u64, "seed 1");
    assert_eq!(report.cost_ratio, missed as f64 / asked as f64, "seed 1");
    assert_ne!(report.cost_ratio, report.miss_ratio, "seed 1");
}

#[test]
fn no_server_is_told_with_its_address() {
    let address = ServerAddress::Unix("/no/such/socket".to_owned());
    let error = match Client::connect(&address, 1, LengthCheck::Exact, CostForm::None) {
        Ok(_) => panic!("connected to nothing"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("unix:/no/such/socket") && error.contains("--server"), "{error}");
}

#[test]
fn a_trace_with_sets_deletes_and_changing_lengths_replays() {
    let Some(server) = memcached(&["-m", "64"]) else { return };
    let mut random = slabwise_base::Random::new(11);
    let mut requests = Vec::new();
    for _ in 0..20_000 {
        requests.push(Request {
            key: random.below(50),
            value_len: 1 + random.below(2_000) as u32,
            op: [Op::Get, Op::Get, Op::Set, Op::Delete][random.below(4) as usize],
            cost: None,
        });
    }
    // One request at a time, with enough memory: what must come out.
    let (mut stored, mut misses) = (HashSet::new(), 0);
    for request in &requests {
        match request.op {
            Op::Get => misses += u64::from(stored.insert(request.key)),
            Op::Set => drop(stored.insert(request.key)),
            Op::Delete => drop(stored.remove(&request.key)),
        }
    }
    let mut bytes = Vec::new();
    for Request { key, value_len, op, .. } in requests {
        bytes.extend(key.to_le_bytes());
        bytes.extend(value_len.to_le_bytes());
        bytes.extend([op as u8, 0, 0, 0]);
    }
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let path = directory.path().join("mixed.zst");
    let file = zstd::encode_all(bytes.as_slice(), 1).unwrap_or_else(|error| panic!("{error}"));
    std::fs::write(&path, file).unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(&server.address(), 2, LengthCheck::Any, CostForm::None)
        .unwrap_or_else(|error| panic!("{error}"));
    let report = replayed(&format!("trace:{}", path.display()), &options(), client, 64);
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((report.requests, report.misses), (20_000, misses), "seed 11");
}

#[test]
fn wrong_arguments_end_in_one_line_that_says_what_to_do() {
    use crate::command::{Args, run};
    use clap::Parser;
    use slabwise_text::command::first_paragraph;
    let parse = |line: &str| Args::try_parse_from(line.split(' '));
    let refusal = |line: &str| match parse(line) {
        Ok(args) => run(&args, &Clock::manual()).map_or_else(|e| e.to_string(), |_| String::new()),
        Err(error) => first_paragraph("slabwise replay", &error.to_string()),
    };
    let cases = [
        ("replay --workload zipf", "--server <ADDRESS>"),
        ("replay --server x --workload zipf", "give HOST:PORT or unix:PATH"),
        ("replay --server x:1 --workload zpif", "choose one of zipf"),
        ("replay --server x:1 --workload zipf --batch 0", "1..=4096"),
        ("replay --server x:1 --workload zipf --cost dear", "[possible values: wire, meta, none]"),
        (
            "replay --server x:1 --workload zipf --cost-mix ycsb",
            "[possible values: baseline, rubis, tpcw]",
        ),
        ("replay --server x:1 --workload zipf --rate 0", "--rate"),
        ("replay --server unix:/no/such --workload zipf", "start the server"),
        ("replay --server x:1 --workload zipf --sead 4", "--sead"),
    ];
    for (line, expected) in cases {
        let text = refusal(line);
        assert!(text.contains(expected) && !text.contains('\n'), "{line}: {text}");
    }
}

#[test]
fn a_rate_spreads_requests_over_time() {
    let Some(server) = memcached(&["-m", "64"]) else { return };
    let options = Options { requests: Some(200), ..options() };
    let (workload, clock) = (opened("zipf", &options), Clock::real());
    let client = connect(&server, 1);
    let (tally, nanos) =
        replay(workload, client, 10, Some(1_000.0), &clock, Tally::new(None), unwatched)
            .unwrap_or_else(|error| panic!("{error}"));
    // The last round of 10 is due 190 requests, so 0.19 s, after the start.
    assert!(nanos >= 190_000_000, "{nanos}");
    assert_eq!(tally.all.requests, 200);
}
