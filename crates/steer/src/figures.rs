//! The figures of the steerer, as text for Prometheus.

use crate::split::Split;
use crate::steerer::Purpose;
use crate::trial::Effect;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What the steerer has done since its start.
#[derive(Debug, Default)]
pub struct Figures {
    /// True while the steerer is connected to the server.
    pub is_connected: bool,
    /// The number of connections that failed.
    pub failures: u64,
    /// The number of restarts of the server.
    pub restarts: u64,
    /// The number of shifts of the traffic.
    pub shifts: u64,
    /// The split at the last reading.
    pub split: Split,
    moves: BTreeMap<&'static str, u64>,
    refusals: BTreeMap<String, u64>,
    trials: BTreeMap<&'static str, u64>,
    last_effect: Option<Effect>,
}

impl Figures {
    /// Counts a page move.
    pub fn moved(&mut self, purpose: Purpose) {
        *self.moves.entry(purpose.word()).or_default() += 1;
    }

    /// Counts an order that the server refused with this word.
    pub fn refused(&mut self, word: &str) {
        *self.refusals.entry(word.to_owned()).or_default() += 1;
    }

    /// Counts a measured trial.
    pub fn measured(&mut self, effect: Effect) {
        *self.trials.entry(effect.verdict.word()).or_default() += 1;
        self.last_effect = Some(effect);
    }

    /// Returns the text of all metrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut add = |name: &str, kind: &str, help: &str, rows: Vec<(String, f64)>| {
            let _ = writeln!(
                text,
                "# HELP slabwise_steer_{name} {help}\n# TYPE slabwise_steer_{name} {kind}"
            );
            for (labels, value) in rows {
                let _ = writeln!(text, "slabwise_steer_{name}{labels} {value}");
            }
        };
        let one = |value: f64| vec![(String::new(), value)];
        let labelled = |label: &str, counts: Vec<(&str, u64)>| {
            let row =
                |(word, count): (&str, u64)| (format!("{{{label}=\"{word}\"}}"), count as f64);
            counts.into_iter().map(row).collect::<Vec<_>>()
        };
        let counts = |map: &BTreeMap<&'static str, u64>| {
            map.iter().map(|(word, count)| (*word, *count)).collect()
        };
        add(
            "connected",
            "gauge",
            "1 while the steerer is connected.",
            one(f64::from(u8::from(self.is_connected))),
        );
        add("failures_total", "counter", "Connections that failed.", one(self.failures as f64));
        add(
            "server_restarts_total",
            "counter",
            "Restarts of the server.",
            one(self.restarts as f64),
        );
        add("shifts_total", "counter", "Shifts of the traffic.", one(self.shifts as f64));
        add("moves_total", "counter", "Page moves.", labelled("purpose", counts(&self.moves)));
        let refusals = self.refusals.iter().map(|(word, count)| (word.as_str(), *count)).collect();
        add(
            "refused_total",
            "counter",
            "Page moves that the server refused.",
            labelled("reply", refusals),
        );
        add(
            "trials_total",
            "counter",
            "Measured trials.",
            labelled("verdict", counts(&self.trials)),
        );
        let pages = self
            .split
            .iter()
            .map(|(size, pages)| (format!("{{chunk_size_bytes=\"{size}\"}}"), pages as f64));
        add("pages", "gauge", "Pages of each class.", pages.collect());
        if let Some(effect) = self.last_effect {
            let help =
                "Misses per 1,000 gets that the last trial cost; negative if it saved misses.";
            add("last_excess_per_thousand", "gauge", help, one(effect.excess_per_thousand));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Figures;
    use crate::split::Split;
    use crate::steerer::Purpose;
    use crate::testing::counters;

    #[test]
    fn the_text_has_every_count() {
        let mut figures = Figures { split: Split::of(&counters(&[(96, 3)])), ..Figures::default() };
        figures.moved(Purpose::Undo);
        figures.refused("busy");
        let text = figures.text();
        for line in [
            "slabwise_steer_connected 0",
            "slabwise_steer_moves_total{purpose=\"undo\"} 1",
            "slabwise_steer_refused_total{reply=\"busy\"} 1",
            "slabwise_steer_pages{chunk_size_bytes=\"96\"} 3",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
    }
}
