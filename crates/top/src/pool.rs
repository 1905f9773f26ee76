//! The servers as a pool: their sums, and the servers that differ from the others.

use crate::rates::{Rates, Reading};
use crate::sample::{Sample, Totals};
use crate::server::{Server, ServerState};
use slabwise_fleet::outliers::{self, Difference, Measurement};

/// The smallest number of gets between two samples for which hit ratios are compared. With fewer, a hit ratio varies by
/// several points by chance.
const GETS_MIN: f64 = 1_000.0;

/// Returns the sums over all servers that could be read, as the row of a server; `None` if fewer than two could be read.
/// A rate is that of the servers whose rate is known.
pub fn total(servers: &[Server]) -> Option<Server> {
    let readings: Vec<&Reading> = servers.iter().filter_map(Server::reading).collect();
    if readings.len() < 2 {
        return None;
    }
    let count = |value: fn(&Totals) -> u64| {
        readings.iter().map(|reading| value(&reading.sample.totals)).sum::<u64>()
    };
    let rate = |value: fn(&Rates) -> Option<f64>| {
        readings.iter().filter_map(|reading| value(&reading.rates)).reduce(|a, b| a + b)
    };
    let gets_and_hits = |it: &Rates| Some((it.gets_per_second?, it.hit_ratio?));
    let (mut gets, mut hits) = (0.0, 0.0);
    for (server_gets, ratio) in readings.iter().filter_map(|it| gets_and_hits(&it.rates)) {
        gets += server_gets;
        hits += server_gets * ratio;
    }
    let totals = Totals {
        items: count(|it| it.items),
        connections: count(|it| it.connections),
        memory_bytes: count(|it| it.memory_bytes),
        memory_limit_bytes: count(|it| it.memory_limit_bytes),
        ..Totals::default()
    };
    let rates = Rates {
        requests_per_second: rate(|it| it.requests_per_second),
        gets_per_second: rate(|it| it.gets_per_second),
        hit_ratio: (gets > 0.0).then(|| hits / gets),
        evictions_per_second: rate(|it| it.evictions_per_second),
        page_moves_per_second: rate(|it| it.page_moves_per_second),
    };
    let sample = Sample { totals, ..Sample::default() };
    let reading = Reading { sample, rates, ..Reading::default() };
    let mut total = Server::new(servers.len(), format!("all {}", readings.len()));
    total.state = ServerState::Up(Box::new(reading));
    Some(total)
}

/// Returns how each server differs from the others, in the order of the servers.
pub fn differences(servers: &[Server]) -> Vec<Vec<Difference>> {
    let measurement = |server: &Server| match server.reading() {
        None => Measurement::default(),
        Some(reading) => Measurement {
            hit_ratio: reading.rates.hit_ratio.filter(|_| {
                let gets = reading.rates.gets_per_second.zip(reading.elapsed_seconds);
                gets.is_some_and(|(rate, seconds)| rate * seconds >= GETS_MIN)
            }),
            classes: reading
                .classes
                .iter()
                .map(|row| (row.class.chunk_size_bytes, row.class.pages as f64))
                .collect(),
        },
    };
    outliers::differences(&servers.iter().map(measurement).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{differences, total};
    use crate::examples;
    use crate::sample::{Sample, Totals};
    use crate::server::Server;

    #[test]
    fn the_total_has_the_sums_of_the_servers_that_could_be_read() {
        let servers = examples::servers();
        let total = total(&servers).expect("two servers could be read");
        let reading = total.reading().expect("the total has a reading");
        let sum = |value: fn(&Totals) -> u64| -> u64 {
            servers.iter().filter_map(Server::reading).map(|it| value(&it.sample.totals)).sum()
        };
        assert_eq!(total.address, "all 2");
        assert_eq!(reading.sample.totals.items, sum(|it| it.items));
        let [first, second] = [0, 1].map(|it| servers[it].reading().expect("the server is up"));
        let rates = [&first.rates, &second.rates].map(|it| {
            let gets = it.gets_per_second.expect("two samples have a rate");
            (gets, gets * it.hit_ratio.unwrap_or(0.0))
        });
        let expected = (rates[0].1 + rates[1].1) / (rates[0].0 + rates[1].0);
        let found = reading.rates.hit_ratio.expect("the total has a hit ratio");
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        assert_eq!(super::total(&servers[..1]), None);
    }

    #[test]
    fn the_hit_ratios_of_servers_with_few_gets_are_not_compared() {
        let servers = |gets: u64| -> Vec<Server> {
            let hits = [8, 8, 8, 8, 2].map(|tenths| gets * tenths / 10);
            let sample = |second: u64, hits: u64| Sample {
                nanos: second * 1_000_000_000,
                totals: Totals { gets: gets * second, hits: hits * second, ..Totals::default() },
                ..Sample::default()
            };
            let server = |(position, hits)| {
                let mut server = Server::new(position, format!("a:{position}"));
                (1..=2).for_each(|second| server.record(Ok(sample(second, hits))));
                server
            };
            hits.into_iter().enumerate().map(server).collect()
        };
        let outliers = |gets| {
            let found = differences(&servers(gets));
            (0..found.len()).filter(|&server| !found[server].is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(outliers(1_000), [4]);
        assert_eq!(outliers(990), [0; 0]);
    }
}
