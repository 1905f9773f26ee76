//! Observations for tests.

use crate::chunk_sizes::cache::{Cache, Program};
use crate::chunk_sizes::server::{ClassState, ServerState};
use crate::observation::{ClassSeen, Observation};
use slabwise_base::ClassId;
use slabwise_base::size_histogram::SizeHistogram;
use slabwise_observer::counters::ClassCounters;
use slabwise_observer::traffic::{ClassCurve, Cost, GROUPS, Recording};
use slabwise_policy::ClassSnapshot;
use slabwise_profile::{Mrc, Point};

/// A class of a server. Its curve is linear between the points, which are pages and misses; with 0 pages all gets miss.
pub struct Class<'a> {
    pub chunk_size_bytes: usize,
    pub pages: u64,
    pub evicted: u64,
    pub curve: &'a [(u64, f64)],
}

/// Returns the observation of a memcached with these classes, which was watched for 100 seconds. The sizes of the items were
/// not seen.
pub fn observation(server: &str, classes: &[Class<'_>]) -> Observation {
    let (mut seen, mut curves, mut states) = (vec![], vec![], std::collections::BTreeMap::new());
    let (mut gets, mut misses) = (0.0, 0.0);
    for (number, class) in (1u8..).zip(classes) {
        let per_page = (1 << 20) / class.chunk_size_bytes;
        let (chunks, per_page_count) = (class.pages * per_page as u64, per_page as u64);
        let points = class.curve.iter();
        let points =
            points.map(|&(pages, misses)| Point { chunks: pages * per_page_count, misses });
        let curve = Mrc::new(points.collect());
        (gets, misses) = (gets + curve.references(), misses + curve.misses(chunks));
        let range_chunks = curve.points().last().map_or(0, |last| last.chunks);
        curves.push(ClassCurve {
            class_number: number,
            curve,
            references: 1e4,
            range_chunks,
            chunks,
        });
        let shown = ClassSnapshot {
            class: ClassId::from_wire(number.into()).expect("there are few classes"),
            chunk_size_bytes: class.chunk_size_bytes,
            chunks_per_page: per_page,
            pages: class.pages,
            used_chunks: chunks,
            ..ClassSnapshot::default()
        };
        let counters = ClassCounters { shown, items: chunks, ..ClassCounters::default() };
        seen.push(ClassSeen { counters, evicted: class.evicted });
        let chunk_size_bytes = class.chunk_size_bytes;
        let state = ClassState { chunk_size_bytes, chunks_per_page: per_page, items: chunks };
        states.insert(number.into(), state);
    }
    let pages: u64 = classes.iter().map(|class| class.pages).sum();
    let cache = Cache::new(Program::Memcached, 1 << 20, 1 << 19, 1 << 20, Some(48));
    let state = ServerState {
        cache,
        version: "1.6.45".to_owned(),
        item_count: seen.iter().map(|class| class.counters.items).sum(),
        table: classes.iter().map(|class| class.chunk_size_bytes).chain([1 << 19]).collect(),
        classes: states,
    };
    Observation {
        server: server.to_owned(),
        state,
        memory_limit_bytes: pages << 20,
        seconds: 100.0,
        gets: gets as u64,
        misses: misses as u64,
        is_memory_full: true,
        classes: seen,
        curves_without: vec![curves.clone(); GROUPS],
        curves,
        what_if: vec![],
        unknown_miss_share: 0.0,
        item_sizes: SizeHistogram::default(),
        recording: Recording::default(),
        cost: Cost::default(),
        notes: vec![],
    }
}
