//! Replays workloads against memcached, if it is installed, and against fake servers with invalid replies.

use crate::client::{Client, CostForm, LengthCheck};
use crate::drive::{ignore_round, replay};
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

/// Starts a memcached. Returns `None`, and prints that the test is skipped, if memcached is not installed.
fn memcached(arguments: &[&str]) -> Option<Server> {
    let command = ServerCommand::on_free_port("memcached").with(arguments);
    match Server::start(&command) {
        Ok(server) => Some(server),
        Err(StartError::Spawn(_, error)) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: memcached is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn connect(server: &Server, connections: usize) -> Client {
    Client::connect(&server.address(), connections, LengthCheck::Exact, CostForm::None)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Replays a workload in rounds of `round_size` requests, with a report of windows of 10,000 requests.
fn run_replay(
    name: &str,
    options: &Options,
    client: Client,
    round_size: usize,
) -> Result<Report, ReplayError> {
    let (workload, clock) = (opened(name, options), Clock::real());
    let tally = Tally::new(Some(10_000));
    let (tally, nanos) = replay(workload, client, round_size, None, &clock, tally, ignore_round)?;
    Ok(tally.report(nanos as f64 / 1e9))
}

#[test]
fn with_enough_memory_every_key_misses_exactly_once() {
    let Some(server) = memcached(&["-m", "512"]) else { return };
    let options = Options { requests: Some(100_000), ..options() };
    // Each workload starts with an empty server, because the items of an earlier workload would be hits.
    let runs = [("kvcache_reg", 1, 32), ("cache2k-orm-busy", 3, 96), ("etc", 2, 2)];
    for (name, connections, round_size) in runs {
        flush_all(&server);
        let keys: HashSet<u64> =
            opened(name, &options).filter_map(|request| request.ok().map(|r| r.key)).collect();
        let report = run_replay(name, &options, connect(&server, connections), round_size)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((report.requests, report.gets), (100_000, 100_000), "{name}");
        assert_eq!(report.misses, keys.len() as u64, "{name}");
        assert_eq!(report.sets_refused, 0, "{name}");
        let windows = report.windows.unwrap_or_default();
        assert_eq!(windows.iter().map(|w| w.misses).sum::<u64>(), report.misses, "{name}");
        assert!(report.p50_us > 0.0 && report.p50_us <= report.p999_us, "{name}");
    }
}

fn flush_all(server: &Server) {
    let long = Duration::from_secs(20);
    let timeouts = Timeouts { connect: long, read: long, reply: long };
    let reply = Connection::open(&server.address(), timeouts)
        .and_then(|mut connection| connection.ask_line("flush_all"))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reply, "OK");
}

#[test]
fn a_key_whose_sets_are_refused_misses_at_every_get() {
    let Some(server) = memcached(&["-m", "64", "-I", "512k"]) else { return };
    // All requests are for the same key, whose value is longer than the server's limit.
    let options =
        Options { requests: Some(200), keys: Some(1), value_len: Some(600_000), ..options() };
    let report =
        run_replay("zipf", &options, connect(&server, 1), 8).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((report.misses, report.sets_refused), (200, 200));
}

#[test]
fn a_value_may_be_larger_than_every_buffer() {
    let Some(server) = memcached(&["-m", "512", "-I", "8m"]) else { return };
    let options =
        Options { requests: Some(200), keys: Some(10), value_len: Some(3_000_000), ..options() };
    let report =
        run_replay("zipf", &options, connect(&server, 2), 32).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((report.misses, report.sets_refused), (10, 0));
}

/// Starts a server that replies to each line with the bytes that `reply_to` returns. Closes the connection if there are
/// no bytes.
fn fake_server(reply_to: impl Fn(&str) -> Vec<u8> + Send + 'static) -> ServerAddress {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("{error}"));
    let address = listener.local_addr().unwrap_or_else(|error| panic!("{error}"));
    std::thread::spawn(move || {
        let Ok((stream, _)) = listener.accept() else { return };
        let Ok(mut replies) = stream.try_clone() else { return };
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            let reply = reply_to(&line);
            if reply.is_empty() || replies.write_all(&reply).is_err() {
                return;
            }
        }
    });
    ServerAddress::Tcp(address.to_string())
}

/// Replays a few requests against a server whose replies are invalid. Returns the error that stops the replay.
fn error_of_replay(reply_to: impl Fn(&str) -> Vec<u8> + Send + 'static) -> ReplayError {
    let address = fake_server(reply_to);
    let options = Options { requests: Some(10), value_len: Some(100), ..options() };
    let client = Client::connect(&address, 1, LengthCheck::Exact, CostForm::None)
        .unwrap_or_else(|error| panic!("{error}"));
    match run_replay("zipf", &options, client, 1) {
        Ok(report) => panic!("the replay did not stop: {report:?}"),
        Err(error) => error,
    }
}

#[test]
fn a_hit_with_wrong_bytes_key_or_length_stops_the_replay() {
    let hit = |key: &str, value: &[u8]| {
        let head = format!("VALUE {key} 0 {}\r\n", value.len());
        [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
    };
    let requested = |line: &str| line.strip_prefix("get ").unwrap_or("").to_owned();
    let error_of_bytes = error_of_replay(move |line| hit(&requested(line), &[b'x'; 100]));
    assert!(
        matches!(&error_of_bytes, ReplayError::WrongData { what, .. } if what.contains("differs"))
    );
    let error_of_length = error_of_replay(move |line| hit(&requested(line), &[b'x'; 99]));
    assert!(
        matches!(&error_of_length, ReplayError::WrongData { what, .. } if what.contains("of 99 B"))
    );
    let error_of_key = error_of_replay(move |_| hit("k00000000000000ff", &[b'x'; 100]));
    assert!(
        matches!(&error_of_key, ReplayError::WrongData { what, .. } if what.contains("is for key"))
    );
}

#[test]
fn values_of_another_replay_are_not_reported_as_wrong_data() {
    let Some(server) = memcached(&["-m", "64"]) else { return };
    let run_with_length = |value_len| {
        let options = Options { requests: Some(10), value_len: Some(value_len), ..options() };
        run_replay("zipf", &options, connect(&server, 1), 4)
    };
    assert!(run_with_length(100).is_ok());
    match run_with_length(101) {
        Err(error @ ReplayError::OtherReplay { found: 100, value_len: 101, .. }) => {
            assert!(error.to_string().contains("flush_all"));
        }
        other => panic!("the second replay must fail with `OtherReplay`, but returned {other:?}"),
    }
}

#[test]
fn an_invalid_reply_or_a_closed_connection_stops_the_replay() {
    let error = error_of_replay(|_| b"HTTP/1.1 400 Bad Request\r\n".to_vec());
    assert!(error.to_string().contains("HTTP/1.1 400"), "{error}");
    let error = error_of_replay(|_| b"STORED\r\n".to_vec());
    assert!(error.to_string().contains("Stored"), "{error}");
    let error = error_of_replay(|_| b"SERVER_ERROR busy\r\n".to_vec());
    assert!(error.to_string().contains("SERVER_ERROR busy"), "{error}");
    let error = error_of_replay(|_| Vec::new());
    assert!(matches!(error, ReplayError::Dialogue(ClientError::Closed)), "{error}");
}

#[test]
fn the_error_contains_the_reply_of_a_server_that_refuses_costs() {
    let error_of = |form, reply: &'static str| {
        let address = fake_server(move |line| match line.starts_with("get ") {
            true => b"END\r\n".to_vec(),
            false => reply.as_bytes().to_vec(),
        });
        let options = Options { requests: Some(10), value_len: Some(100), ..options() };
        let client = Client::connect(&address, 1, LengthCheck::Exact, form);
        let client = client.unwrap_or_else(|error| panic!("{error}"));
        let workload = opened("zipf", &options).with_costs(CostMix::Tpcw, 1);
        let tally = Tally::new(None);
        let result = replay(workload, client, 1, None, &Clock::real(), tally, ignore_round);
        result.map_or_else(|error| error.to_string(), |_| panic!("the replay did not stop"))
    };
    let error = error_of(CostForm::Wire, "CLIENT_ERROR costs are not accepted\r\n");
    assert!(error.contains("costs are not accepted"), "{error}");
    let error = error_of(CostForm::Meta, "CLIENT_ERROR invalid flag\r\n");
    assert!(error.contains("invalid flag"), "{error}");
}

#[test]
fn the_cost_ratio_does_not_depend_on_sending_costs() {
    let Some(server) = memcached(&["-m", "64"]) else { return };
    let options = Options { requests: Some(2_000), keys: Some(300), ..options() };
    let workload = || opened("zipf", &options).with_costs(CostMix::Baseline, 1);
    let (mut seen, mut cost_of_gets, mut cost_of_misses) = (HashSet::new(), 0, 0);
    for request in workload() {
        let Ok(Request { key, cost: Some(cost), .. }) = request else {
            panic!("each request has a cost")
        };
        cost_of_gets += u64::from(cost.units());
        cost_of_misses += if seen.insert(key) { u64::from(cost.units()) } else { 0 };
    }
    let (clock, tally) = (Clock::real(), Tally::new(None));
    let (tally, nanos) =
        replay(workload(), connect(&server, 1), 8, None, &clock, tally, ignore_round)
            .unwrap_or_else(|error| panic!("{error}"));
    let report = tally.report(nanos as f64 / 1e9);
    assert_eq!(report.misses, seen.len() as u64, "seed 1");
    assert_eq!(report.cost_ratio, cost_of_misses as f64 / cost_of_gets as f64, "seed 1");
    assert_ne!(report.cost_ratio, report.miss_ratio, "seed 1");
}

#[test]
fn a_connection_error_names_the_address() {
    let address = ServerAddress::Unix("/no/such/socket".to_owned());
    let error = match Client::connect(&address, 1, LengthCheck::Exact, CostForm::None) {
        Ok(_) => panic!("connected, although {address} does not exist"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("unix:/no/such/socket") && error.contains("--server"), "{error}");
}

#[test]
fn a_trace_with_sets_deletes_and_changing_lengths_has_its_expected_misses() {
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
    // The expected number of misses of a cache with unlimited memory that executes one request at a time.
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
    let report = run_replay(&format!("trace:{}", path.display()), &options(), client, 64);
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((report.requests, report.misses), (20_000, misses), "seed 11");
}

#[test]
fn an_argument_error_is_one_line_with_the_remedy() {
    use crate::command::{Args, run};
    use clap::Parser;
    use slabwise_text::command::first_paragraph;
    let parse = |line: &str| Args::try_parse_from(line.split(' '));
    let error_of = |line: &str| match parse(line) {
        Ok(args) => run(&args, &Clock::manual()).map_or_else(|e| e.to_string(), |_| String::new()),
        Err(error) => first_paragraph("slabwise replay", &error.to_string()),
    };
    let cases = [
        ("replay --workload zipf", "--server <ADDRESS>"),
        ("replay --server x --workload zipf", "give HOST:PORT or unix:PATH"),
        ("replay --server x:1 --workload zpif", "choose one of zipf"),
        ("replay --server x:1 --workload zipf --batch 0", "1..=4096"),
        ("replay --server x:1 --workload zipf --cost high", "[possible values: wire, meta, none]"),
        (
            "replay --server x:1 --workload zipf --cost-mix ycsb",
            "[possible values: baseline, rubis, tpcw]",
        ),
        ("replay --server x:1 --workload zipf --rate 0", "--rate"),
        ("replay --server unix:/no/such --workload zipf", "start the server"),
        ("replay --server x:1 --workload zipf --sead 4", "--sead"),
    ];
    for (line, expected) in cases {
        let text = error_of(line);
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
        replay(workload, client, 10, Some(1_000.0), &clock, Tally::new(None), ignore_round)
            .unwrap_or_else(|error| panic!("{error}"));
    // The last round starts after 190 requests, so it is scheduled 0.19 s after the start.
    assert!(nanos >= 190_000_000, "the replay took only {nanos} ns");
    assert_eq!(tally.all.requests, 200);
}
