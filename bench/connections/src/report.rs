//! The table of the results, and the verdict.

use crate::findings::Findings;
use crate::load::Results;
use crate::observer::Sample;
use slabwise_text::{Column, grouped, table};
use std::time::Duration;

const MIB: f64 = 1_048_576.0;

/// The columns of the table.
const COLUMNS: [(&str, Column); 9] = [
    ("time", Column::right(6)),
    ("connections", Column::right(11)),
    ("requests/s", Column::right(10)),
    ("p50, ms", Column::right(7)),
    ("p99, ms", Column::right(7)),
    ("p99.9, ms", Column::right(9)),
    ("max, ms", Column::right(7)),
    ("resident, MiB", Column::right(13)),
    ("allowed, MiB", Column::right(12)),
];

/// Returns the line with the names of the columns.
pub fn head() -> String {
    line(COLUMNS.map(|(name, _)| name.to_owned()))
}

/// Returns the line of an interval of the load. `samples` are those of the interval.
pub fn interval(
    (time, span): (Duration, Duration),
    open: usize,
    results: &Results,
    samples: &[Sample],
) -> String {
    let millis = |nanos: u64| format!("{:.2}", nanos as f64 / 1e6);
    let percentile = |percent| millis(results.latencies.value_at_percentile(percent));
    let requests = results.latencies.len() as f64 / span.as_secs_f64();
    let most = samples.iter().max_by_key(|sample| sample.resident_bytes);
    line([
        format!("{} s", time.as_secs()),
        grouped(open as u64),
        grouped(requests as u64),
        percentile(50.0),
        percentile(99.0),
        percentile(99.9),
        millis(results.latencies.max()),
        most.map_or("-".to_owned(), |sample| mib(sample.resident_bytes)),
        most.and_then(|sample| sample.allowed_bytes).map_or("-".to_owned(), mib),
    ])
}

fn line(cells: [String; COLUMNS.len()]) -> String {
    table(&COLUMNS.map(|(_, column)| column), [cells]).trim_end().to_owned()
}

/// Formats a number of bytes in MiB.
pub fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MIB)
}

/// The samples at the steps of the test.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Before the first client has connected.
    pub empty: Sample,
    /// With the idle clients.
    pub idle: Sample,
    /// At the end of the load, with all clients.
    pub end: Sample,
}

/// Returns the lines about the whole load.
pub fn summary(steps: &Steps, results: &Results, idle: usize, samples: &[Sample]) -> String {
    let mut text = format!(
        "replies: {} hits, {} stores, {} misses; evictions: {}\n",
        grouped(results.hits),
        grouped(results.stores),
        grouped(results.misses),
        grouped(steps.end.counts.evictions)
    );
    let grown = steps.idle.resident_bytes.saturating_sub(steps.empty.resident_bytes);
    text += &format!(
        "resident memory: {} MiB without clients, {} MiB with {} idle clients ({} bytes each)",
        mib(steps.empty.resident_bytes),
        mib(steps.idle.resident_bytes),
        grouped(idle as u64),
        grouped(grown.checked_div(idle as u64).unwrap_or(0))
    );
    let most = samples.iter().map(|sample| sample.resident_bytes).max().unwrap_or(0);
    text + &format!(", at most {} MiB under load\n", mib(most))
}

/// What the samples must show.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The number of idle connections.
    pub idle: u64,
    /// The number of connections that are open at the end.
    pub open: u64,
    /// The number of gets that missed a stored value.
    pub misses: u64,
}

/// The memory that the server may need in addition to that of idle connections while they connect, in bytes.
const CONNECTING_BYTES_MAX: u64 = 2 << 20;

/// Adds the violations that the samples show.
pub fn judge(steps: &Steps, samples: &[Sample], expected: Expected, findings: &mut Findings) {
    let Expected { idle, open, misses } = expected;
    let end = steps.end.counts;
    if end.rejected > 0 || end.pauses > 0 {
        findings.add(format!(
            "the server rejected {} connections, and stopped accepting connections {} times, below the limit",
            end.rejected, end.pauses
        ));
    }
    if end.open < open {
        findings.add(format!("{} connections are open, not {open}", end.open));
    }
    let grown = steps.idle.resident_bytes.saturating_sub(steps.empty.resident_bytes);
    if let Some(bytes) = steps.idle.connection_bytes
        && grown > idle * bytes + CONNECTING_BYTES_MAX
    {
        findings.add(format!(
            "{idle} idle connections have {} MiB, above {bytes} bytes each, which docs/memory.md allows",
            mib(grown)
        ));
    }
    if misses > 0 && end.evictions == 0 {
        findings.add(format!("{misses} gets missed stored values, although nothing was evicted"));
    }
    let all = [&[steps.empty, steps.idle, steps.end], samples].concat();
    let excess = |sample: &Sample| {
        let allowed = sample.allowed_bytes?;
        (sample.resident_bytes > allowed).then_some((sample.resident_bytes, allowed))
    };
    if let Some((resident, allowed)) = all.iter().filter_map(excess).max() {
        findings.add(format!(
            "{} MiB are resident, above the {} MiB that docs/memory.md allows",
            mib(resident),
            mib(allowed)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::{CONNECTING_BYTES_MAX, Expected, Steps, judge};
    use crate::findings::Findings;
    use crate::observer::{Counts, Sample};

    /// Returns the violations of a run whose samples all equal this one.
    fn violations(sample: Sample, misses: u64) -> Vec<String> {
        violations_of(&Steps { empty: sample, idle: sample, end: sample }, misses)
    }

    fn violations_of(steps: &Steps, misses: u64) -> Vec<String> {
        let mut findings = Findings::default();
        let expected = Expected { idle: 1_000, open: 10, misses };
        judge(steps, &[steps.end], expected, &mut findings);
        findings.lines().collect()
    }

    #[test]
    fn each_kind_of_violation_is_found() {
        let counts = Counts { open: 10, ..Counts::default() };
        let good = Sample {
            resident_bytes: 100,
            allowed_bytes: Some(100),
            connection_bytes: Some(50),
            counts,
        };
        assert!(violations(good, 0).is_empty());
        assert!(violations(Sample { allowed_bytes: None, ..good }, 0).is_empty());
        assert_eq!(violations(Sample { allowed_bytes: Some(99), ..good }, 0).len(), 1);
        assert_eq!(violations(good, 1).len(), 1, "a miss without an eviction");
        let with = |counts| Sample { counts, ..good };
        assert!(violations(with(Counts { evictions: 1, ..counts }), 1).is_empty());
        assert_eq!(violations(with(Counts { open: 9, ..counts }), 0).len(), 1);
        assert_eq!(violations(with(Counts { rejected: 1, ..counts }), 0).len(), 1);
        assert_eq!(violations(with(Counts { pauses: 1, ..counts }), 0).len(), 1);
        let grown = |resident_bytes| Sample { resident_bytes, allowed_bytes: None, ..good };
        let steps = |bytes| Steps { empty: good, idle: grown(100 + bytes), end: good };
        let most = 1_000 * 50 + CONNECTING_BYTES_MAX;
        assert!(violations_of(&steps(most), 0).is_empty());
        assert_eq!(violations_of(&steps(most + 1), 0).len(), 1, "the memory of idle connections");
    }
}
