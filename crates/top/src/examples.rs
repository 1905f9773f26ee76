//! Servers for tests: a slabwise server, a memcached server, and a server that is down.

use crate::sample::{Class, LastPlan, Plan, Profile, Sample, Totals};
use crate::server::Server;

/// Returns the servers, each after two samples or two failed attempts.
pub fn servers() -> Vec<Server> {
    let addresses = ["127.0.0.1:21555", "cache.example.org:11211", "127.0.0.1:1"];
    let named = addresses.into_iter().enumerate();
    let mut servers: Vec<_> =
        named.map(|(position, address)| Server::new(position, address.to_owned())).collect();
    for second in 1..=2 {
        servers[0].record(Ok(slabwise(second)));
        servers[1].record(Ok(memcached(second)));
        servers[2].record(Err("cannot connect: Connection refused (os error 111)".to_owned()));
    }
    servers
}

/// Returns a sample of a slabwise server with 40 classes.
fn slabwise(second: u64) -> Sample {
    let totals = Totals {
        gets: 40_000 * second,
        hits: 30_000 * second,
        requests: 45_600 * second,
        evictions: 1234 * second,
        page_moves: Some(5 * second),
        items: 123_456,
        connections: 12,
        memory_bytes: 60 << 20,
        ..memcached(second).totals
    };
    let classes = (1..=40).map(|number| Class {
        number,
        chunk_size_bytes: 96 * number,
        pages: 50 - number,
        items: 1000 * number,
        free_chunks: number,
        tail_age_seconds: Some(100 * number),
        hits: 100 * number * second,
        sets: 10 * number * second,
        evictions: number * second,
        retired: number == 2,
    });
    let profile = Profile {
        miss_ratio: Some(0.25),
        what_if: vec![
            (25, 0.41),
            (50, 0.33),
            (75, 0.28),
            (90, 0.25),
            (100, 0.24),
            (110, 0.23),
            (125, 0.22),
            (150, 0.21),
            (200, 0.2),
            (300, 0.19),
            (400, 0.18),
        ],
    };
    let last = LastPlan {
        age_seconds: 12,
        reason: "from the class with the oldest tail to a class that evicts much younger items"
            .to_owned(),
        moves: 80,
        moves_begun: 79,
        moves_refused: 1,
    };
    let plan = Plan { policy: "space_time".to_owned(), moves_planned: 367, last: Some(last) };
    Sample {
        nanos: second * 1_000_000_000,
        totals,
        classes: classes.collect(),
        profile: Some(profile),
        plan: Some(plan),
    }
}

/// Returns a sample of a memcached server without requests.
fn memcached(second: u64) -> Sample {
    let totals = Totals {
        version: "1.6.45".to_owned(),
        pid: 7,
        uptime_seconds: 3600 + second,
        page_moves: Some(0),
        items: 1,
        connections: 2,
        memory_bytes: 61,
        memory_limit_bytes: 64 << 20,
        ..Totals::default()
    };
    let class = Class { number: 1, chunk_size_bytes: 96, pages: 1, items: 1, ..Class::default() };
    Sample { nanos: second * 1_000_000_000, totals, classes: vec![class], ..Sample::default() }
}
