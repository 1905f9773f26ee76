//! The data of the report, computed from the observations.

use super::actions::{Action, Change, Verdict};
use crate::estimate::Estimate;
use crate::fleet::{Fleet, Member};
use crate::gains::chunk_sizes::ChunkSizesGain;
use crate::gains::density::DensityGain;
use crate::gains::memory::{MemoryGain, Worth};
use crate::gains::pages::PagesGain;
use crate::model::{Models, PAGES_MIN};
use crate::observation::Observation;
use serde::Serialize;

/// The report of all servers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The servers that were observed.
    pub servers: Vec<ServerReport>,
    /// The spread of the memory over the servers, if several memcached or slabwise were observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
    /// The servers that could not be observed.
    pub failed: Vec<Failed>,
}

/// A server that could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The address.
    pub server: String,
    /// The reason.
    pub reason: String,
}

/// The report of one server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerReport {
    /// The address.
    pub server: String,
    /// The program: `memcached` or `slabwise`.
    pub program: &'static str,
    /// The version.
    pub version: String,
    /// The memory limit (`-m`).
    pub memory_limit_bytes: u64,
    /// False if the server still creates pages.
    pub is_memory_full: bool,
    /// The time of the observation.
    pub seconds: f64,
    pub gets_per_second: f64,
    pub misses_per_second: f64,
    /// The misses during the observation, as a share of the gets.
    pub miss_ratio: f64,
    /// What the operator can do, in the order of the effort.
    pub actions: Vec<Action>,
    /// The division of the pages. `None` for a slabwise, which divides its pages itself.
    pub pages: Option<PagesGain>,
    /// The chunk sizes. `None` for a slabwise, and if too few sizes were seen.
    pub chunk_sizes: Option<ChunkSizesGain>,
    /// The recommended chunk sizes and the best division of the pages together.
    pub together: Option<TogetherGain>,
    /// A slabwise with the same memory. `None` for a slabwise, and if the observation was too short.
    pub slabwise: Option<DensityGain>,
    /// The miss ratio by memory.
    pub memory: MemoryGain,
    /// What watching has cost.
    pub cost: WatchCost,
    /// What the command could not see, as sentences.
    pub notes: Vec<String>,
}

/// The gain of the recommended chunk sizes and the best division of the pages together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TogetherGain {
    pub miss_ratio: Estimate,
    pub worth: Worth,
}

/// What watching has cost the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WatchCost {
    /// The lines that the server wrote.
    pub lines: u64,
    /// The lines that the server dropped.
    pub lines_dropped: u64,
    /// The time in which the server wrote lines.
    pub watched_seconds: f64,
    /// The estimated processor time that this took.
    pub processor_seconds: f64,
}

impl ServerReport {
    /// Returns the possible actions.
    fn actions(&self) -> Vec<Action> {
        let steer = format!("slabwise steer --server {}", self.server);
        let action = |change, how, miss_ratio, worth| {
            Action::new(change, how, self.miss_ratio, miss_ratio, worth)
        };
        let mut actions = vec![];
        if let Some(gain) = &self.pages {
            actions.push(action(Change::Pages, steer.clone(), gain.miss_ratio, gain.worth));
        }
        if let Some(gain) = &self.chunk_sizes {
            let how = format!("-o slab_sizes={}", gain.slab_sizes);
            actions.push(action(Change::ChunkSizes, how, gain.miss_ratio, gain.worth));
        }
        if let Some(gain) = &self.together {
            actions.push(action(Change::Together, steer, gain.miss_ratio, gain.worth));
        }
        if let Some(gain) = &self.slabwise {
            let how = format!("slabwise -m {}", self.memory_limit_bytes >> 20);
            actions.push(action(Change::Slabwise, how, gain.miss_ratio, gain.worth));
        }
        actions
    }

    /// Returns the recommended action: the one without a restart if it saves misses, otherwise the first that does.
    pub fn recommended(&self) -> Option<&Action> {
        self.actions.iter().find(|action| action.verdict == Verdict::Saves)
    }

    /// Returns the action that saves most misses, if another one is recommended and this one saves more.
    pub fn best(&self) -> Option<&Action> {
        let saving = self.actions.iter().filter(|action| action.verdict == Verdict::Saves);
        let best = saving.min_by(|a, b| a.miss_ratio.value.total_cmp(&b.miss_ratio.value))?;
        let is_other = self.recommended().is_some_and(|it| it.change != best.change);
        is_other.then_some(best)
    }

    /// Computes all gains of an observed server.
    fn of(observation: &Observation, models: &Models) -> ServerReport {
        let memory = MemoryGain::of(observation, models);
        let (mut notes, is_memcached) = (observation.notes.clone(), !observation.is_slabwise());
        let mut noted = |error: String| notes.push(sentence(&error));
        let is_useful = is_memcached && observation.is_memory_full;
        let pages = is_useful.then(|| PagesGain::of(observation, models, &memory));
        let chunk_sizes = is_useful
            .then(|| ChunkSizesGain::of(observation, models, &memory).map_err(&mut noted).ok());
        let chunk_sizes = chunk_sizes.flatten();
        let slabwise =
            is_useful.then(|| DensityGain::of(observation, &memory).map_err(&mut noted).ok());
        let together = chunk_sizes.as_ref().map(|sizes| TogetherGain::of(models, &memory, sizes));
        let slabwise = slabwise.flatten();
        let (gets, misses) = (observation.gets as f64, observation.misses as f64);
        let cost = observation.cost;
        let mut report = ServerReport {
            server: observation.server.clone(),
            program: observation.state.cache.program.name(),
            version: observation.state.version.clone(),
            memory_limit_bytes: observation.memory_limit_bytes,
            is_memory_full: observation.is_memory_full,
            seconds: observation.seconds,
            gets_per_second: gets / observation.seconds,
            misses_per_second: misses / observation.seconds,
            miss_ratio: observation.miss_ratio(),
            actions: vec![],
            pages,
            chunk_sizes,
            together,
            slabwise,
            memory,
            cost: WatchCost {
                lines: cost.lines,
                lines_dropped: cost.dropped,
                watched_seconds: cost.watched.as_secs_f64(),
                processor_seconds: cost.server.as_secs_f64(),
            },
            notes,
        };
        report.actions = report.actions();
        report
    }
}

impl TogetherGain {
    fn of(models: &Models, memory: &MemoryGain, sizes: &ChunkSizesGain) -> TogetherGain {
        let pages: u64 = models.all.pages().iter().sum();
        let miss_ratio = |share: f64| {
            let pages = pages as f64 / (1.0 - share.clamp(0.0, 0.9));
            let best = models.all.best_division(pages as u64, PAGES_MIN);
            models.estimate(|model| model.miss_ratio(&best))
        };
        let saved = sizes.saved_share;
        let found = miss_ratio(saved.value);
        let (low, high) = (miss_ratio(saved.high).value, miss_ratio(saved.low).value);
        let miss_ratio = Estimate { low: found.low.min(low), high: found.high.max(high), ..found };
        TogetherGain { miss_ratio, worth: memory.worth(miss_ratio.value) }
    }
}

impl Report {
    /// Computes the report of all observed servers.
    pub fn of(observations: &[Observation], failed: Vec<Failed>) -> Report {
        let models: Vec<Models> = observations.iter().map(Models::new).collect();
        let each = observations.iter().zip(&models);
        let servers: Vec<ServerReport> =
            each.map(|(observation, models)| ServerReport::of(observation, models)).collect();
        let members: Vec<Member<'_>> = servers.iter().map(member).collect();
        let fleet = (members.len() > 1).then(|| Fleet::of(&members));
        Report { servers, fleet, failed }
    }
}

fn member(server: &ServerReport) -> Member<'_> {
    Member {
        server: &server.server,
        memory_bytes: server.memory_limit_bytes,
        gets_per_second: server.gets_per_second,
        misses_per_second: server.misses_per_second,
        memory: &server.memory,
    }
}

/// Returns the text with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String =
        letters.next().map(|letter| letter.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::{Failed, Report};
    use crate::report::{Change, html, text};
    use crate::testing::{Class, observation};
    use slabwise_base::Random;

    fn report(seed: u64) -> Report {
        let mut random = Random::new(seed);
        let mut any = |bits: u64| {
            let bits = random.below(bits);
            random.below(1 << bits)
        };
        let servers: Vec<_> = (0..2)
            .map(|_| {
                let curve = [(0, 1e9), (1, 5e8), (3, any(29) as f64), (9, 0.0)];
                let class =
                    |pages, evicted| Class { chunk_size_bytes: 96, pages, evicted, curve: &curve };
                let mut seen = observation("a:1", &[class(any(30), any(2)), class(any(30), 1)]);
                for class in &mut seen.classes {
                    class.counters.items = any(40);
                    class.counters.shown.used_chunks = any(40);
                }
                for curve in &mut seen.curves {
                    (curve.chunks, curve.range_chunks) = (any(40), any(40));
                }
                (seen.gets, seen.misses) = (any(63), any(63));
                seen.memory_limit_bytes = any(50);
                seen.unknown_miss_share = any(7) as f64 / 128.0;
                (0..any(12)).for_each(|_| seen.item_sizes.add(any(30) as usize, any(20)));
                seen
            })
            .collect();
        let failed = Failed { server: "<b>".to_owned(), reason: "`x`".to_owned() };
        Report::of(&servers, vec![failed])
    }

    #[test]
    fn implausible_numbers_cause_no_panic_and_text_is_escaped() {
        for seed in 0..200 {
            let report = report(seed);
            assert!(!text::text(&report).contains("NaN"), "seed {seed}");
            let page = html::page(&report).into_string();
            assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"), "seed {seed}");
            let json = serde_json::to_string(&report).expect("the report is JSON");
            assert!(!json.contains("null,\"low\""), "seed {seed}: {json}");
        }
    }

    #[test]
    fn a_better_division_is_recommended_with_its_command() {
        let class =
            |chunk_size_bytes, curve| Class { chunk_size_bytes, pages: 10, evicted: 1, curve };
        let steep: &[(u64, f64)] = &[(0, 9e5), (10, 6e5), (20, 1e5)];
        let level: &[(u64, f64)] = &[(0, 9e5), (1, 1e5), (40, 1e5)];
        let seen = observation("a:1", &[class(1_024, steep), class(2_048, level)]);
        let report = Report::of(&[seen], vec![]);
        let server = &report.servers[0];
        let action = server.recommended().expect("pages move");
        assert_eq!(
            (action.change, action.how.as_str()),
            (Change::Pages, "slabwise steer --server a:1")
        );
        assert!(action.fewer_misses.low > 0.5 && action.fewer_misses.value < 0.7, "{action:?}");
        let text = text::text(&report);
        assert!(text.contains("Run `slabwise steer --server a:1`: 64 % fewer misses"), "{text}");
        assert!(text.contains("0 item sizes were seen"), "{text}");
        assert!(report.fleet.is_none());
    }
}
