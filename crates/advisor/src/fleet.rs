//! How the memory of several servers would best be spread over them, and the misses of all servers with more or less memory.
//!
//! Each server has a curve of misses per second by memory, in units of the same size. The best spread is the partition of all
//! units with the fewest misses, as for the pages of classes (`slabwise_policy::partition`). The keys of each server stay
//! its own.
//!
//! The curve of the pool is the sum of the servers' curves, each with the same factor on its memory. A pool that spreads its
//! keys by hash has nearly this curve when servers are added: with one of N servers more, the memory of each key's share
//! grows by 1 / N.
//!
//! Invariants: the sum of the memory stays; each server keeps at least half of its memory, and gets memory only as far as its
//! curve was measured.

use crate::estimate::Estimate;
use crate::gains::FEWER_MISSES_MIN;
use crate::gains::memory::{MemoryGain, MemoryPoint};
use crate::model::with_unused;
use serde::Serialize;
use slabwise_policy::partition::{ClassCurve, near_best_partition};
use slabwise_profile::{Mrc, Point};

/// The number of units of the memory of all servers.
const UNITS: u64 = 2_048;
/// The smallest unit in bytes.
const UNIT_BYTES_MIN: u64 = 1 << 20;

/// A server of the fleet.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The address.
    pub server: &'a str,
    /// The memory limit in bytes.
    pub memory_bytes: u64,
    /// The gets per second.
    pub gets_per_second: f64,
    /// The misses per second.
    pub misses_per_second: f64,
    /// The miss ratio by memory.
    pub memory: &'a MemoryGain,
}

/// The gain of another spread of the memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// The memory of all servers in bytes.
    pub memory_bytes: u64,
    /// The gets per second of all servers.
    pub gets_per_second: f64,
    /// The misses per second of all servers.
    pub misses_per_second: f64,
    /// The misses per second with the best spread.
    pub misses_per_second_then: Estimate,
    /// The memory of each server.
    pub servers: Vec<ServerMemory>,
    /// The misses of all servers with more or less memory, in ascending order of the memory.
    pub points: Vec<FleetPoint>,
}

/// The misses if the memory of each server is multiplied by the same factor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FleetPoint {
    /// The factor.
    pub factor: f64,
    /// The memory of all servers in bytes.
    pub memory_bytes: u64,
    /// The misses per second of all servers. The errors of the servers are independent.
    pub misses_per_second: Estimate,
    /// False if the observation of a server was too short for this memory.
    pub is_measured: bool,
}

/// The memory of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerMemory {
    /// The address.
    pub server: String,
    /// The memory limit now, in bytes.
    pub memory_bytes_now: u64,
    /// The memory limit with the best spread, in bytes.
    pub memory_bytes_then: u64,
}

impl Fleet {
    /// Computes the best spread over these servers.
    pub fn of(members: &[Member<'_>]) -> Fleet {
        let memory_bytes: u64 = members.iter().map(|it| it.memory_bytes).sum();
        let unit_bytes = (memory_bytes / UNITS).max(UNIT_BYTES_MIN);
        let now: Vec<u64> = members.iter().map(|it| it.memory_bytes / unit_bytes).collect();
        let curves: Vec<Mrc> = members.iter().map(|member| curve(member, unit_bytes)).collect();
        let classes: Vec<ClassCurve<'_>> = curves
            .iter()
            .zip(&now)
            .map(|(curve, &units)| ClassCurve {
                pages_min: units.div_ceil(2),
                ..ClassCurve::new(curve, 1, units)
            })
            .collect();
        let then = with_unused(&now, near_best_partition(&classes, now.iter().sum()));
        let mut misses = Estimate::exact(0.0);
        let mut servers = Vec::new();
        for ((member, &now), &then) in members.iter().zip(&now).zip(&then) {
            // Memory that does not fill a unit stays where it is.
            let changed = then as i64 - now as i64;
            let bytes = member.memory_bytes.saturating_add_signed(changed * unit_bytes as i64);
            let ratio = match changed {
                0 => None,
                _ => member.memory.at(bytes),
            };
            let present = Estimate::exact(member.misses_per_second);
            misses = misses.plus(ratio.map_or(present, |it| it.times(member.gets_per_second)));
            servers.push(ServerMemory {
                server: member.server.to_owned(),
                memory_bytes_now: member.memory_bytes,
                memory_bytes_then: bytes,
            });
        }
        Fleet {
            memory_bytes,
            gets_per_second: members.iter().map(|it| it.gets_per_second).sum(),
            misses_per_second: members.iter().map(|it| it.misses_per_second).sum(),
            misses_per_second_then: misses,
            servers,
            points: points(members),
        }
    }

    /// Returns the share of the misses that the best spread saves; 0 without misses.
    pub fn saved_share(&self) -> f64 {
        if self.misses_per_second == 0.0 {
            return 0.0;
        }
        1.0 - self.misses_per_second_then.value / self.misses_per_second
    }

    /// True if the best spread saves enough misses to be recommended.
    pub fn is_recommended(&self) -> bool {
        self.saved_share() >= FEWER_MISSES_MIN
    }
}

/// Returns the curve of all servers together, at the factors that the curves of all servers have.
fn points(members: &[Member<'_>]) -> Vec<FleetPoint> {
    let Some((first, others)) = members.split_first() else { return Vec::new() };
    let misses =
        |member: &Member<'_>, point: &MemoryPoint| point.miss_ratio.times(member.gets_per_second);
    let sum = |start: &MemoryPoint| {
        let mut found = FleetPoint {
            factor: start.factor,
            memory_bytes: start.memory_bytes,
            misses_per_second: misses(first, start),
            is_measured: start.is_measured,
        };
        for other in others {
            let point = other.memory.points.iter().find(|it| it.factor == start.factor)?;
            found.memory_bytes += point.memory_bytes;
            found.misses_per_second = found.misses_per_second.plus(misses(other, point));
            found.is_measured &= point.is_measured;
        }
        Some(found)
    };
    first.memory.points.iter().filter_map(sum).collect()
}

/// Returns the misses per second by units of memory.
fn curve(member: &Member<'_>, unit_bytes: u64) -> Mrc {
    let mut points = vec![Point { chunks: 0, misses: member.gets_per_second.max(0.0) }];
    let usable = member.memory.points.iter().filter(|it| it.factor <= 1.0 || it.is_measured);
    for point in usable {
        let last = points[points.len() - 1];
        let chunks = point.memory_bytes / unit_bytes;
        let misses = (point.miss_ratio.value * member.gets_per_second).min(last.misses);
        if chunks > last.chunks {
            points.push(Point { chunks, misses });
        }
    }
    Mrc::new(points)
}

#[cfg(test)]
mod tests {
    use super::{Fleet, Member};
    use crate::gains::memory::MemoryGain;
    use crate::model::Models;
    use crate::observation::Observation;
    use crate::testing::{Class, observation};

    fn server(name: &str, curve: &'static [(u64, f64)]) -> Observation {
        observation(name, &[Class { chunk_size_bytes: 1_024, pages: 16, evicted: 1, curve }])
    }

    fn fleet(servers: &[Observation]) -> Fleet {
        let models: Vec<Models> = servers.iter().map(Models::new).collect();
        let curves: Vec<MemoryGain> = servers
            .iter()
            .zip(&models)
            .map(|(server, models)| MemoryGain::of(server, models))
            .collect();
        let member = |at: usize| Member {
            server: &servers[at].server,
            memory_bytes: servers[at].memory_limit_bytes,
            gets_per_second: servers[at].gets as f64 / servers[at].seconds,
            misses_per_second: servers[at].misses as f64 / servers[at].seconds,
            memory: &curves[at],
        };
        Fleet::of(&(0..servers.len()).map(member).collect::<Vec<_>>())
    }

    #[test]
    fn servers_without_misses_keep_their_memory() {
        let idle = |name| server(name, &[(0, 100.0), (16, 0.0)]);
        let found = fleet(&[idle("a"), idle("b")]);
        assert_eq!(found.saved_share(), 0.0);
        assert!(!found.is_recommended(), "{found:?}");
    }

    #[test]
    fn memory_moves_to_the_server_where_it_saves_misses() {
        let steep = server("steep", &[(0, 10_000.0), (16, 6_000.0), (64, 0.0)]);
        let level = server("level", &[(0, 10_000.0), (4, 5_000.0), (64, 5_000.0)]);
        let found = fleet(&[steep, level]);
        let then: Vec<u64> = found.servers.iter().map(|it| it.memory_bytes_then >> 20).collect();
        assert_eq!(then, [24, 8], "each server keeps half of its memory");
        assert_eq!(found.misses_per_second, 110.0);
        let then = found.misses_per_second_then;
        assert!((then.value - 100.0).abs() < 1e-6 && then.low < 100.0 && then.high > 100.0);
        assert!(found.is_recommended());
    }

    #[test]
    fn equal_servers_keep_their_memory() {
        let curve = &[(0, 10_000.0), (16, 6_000.0), (64, 0.0)];
        let found = fleet(&[server("a", curve), server("b", curve)]);
        assert!(!found.is_recommended(), "{found:?}");
        assert_eq!(found.misses_per_second, found.misses_per_second_then.value);
    }

    #[test]
    fn the_curve_of_the_pool_is_the_sum_of_the_curves() {
        let steep = server("steep", &[(0, 10_000.0), (16, 6_000.0), (64, 0.0)]);
        let level = server("level", &[(0, 10_000.0), (4, 5_000.0), (64, 5_000.0)]);
        let alone = [fleet(std::slice::from_ref(&steep)), fleet(std::slice::from_ref(&level))];
        let both = fleet(&[steep, level]);
        assert!(both.points.len() > 3, "{both:?}");
        for (number, point) in both.points.iter().enumerate() {
            let [a, b] = [0, 1].map(|server: usize| &alone[server].points[number]);
            assert_eq!([a.factor, b.factor], [point.factor; 2]);
            assert_eq!(point.memory_bytes, a.memory_bytes + b.memory_bytes);
            let sum = a.misses_per_second.value + b.misses_per_second.value;
            assert!((point.misses_per_second.value - sum).abs() < 1e-6, "{point:?}");
            assert!(
                point.misses_per_second.high <= a.misses_per_second.high + b.misses_per_second.high
            );
        }
        let now = both.points.iter().find(|it| it.factor == 1.0).expect("the present memory");
        assert!((now.misses_per_second.value - both.misses_per_second).abs() < 1e-6, "{now:?}");
    }
}
