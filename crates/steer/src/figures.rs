//! The figures of the steerer, as metrics for Prometheus.
//!
//! The driver changes them, and the HTTP server reads them in another thread.

use crate::goal::Purpose;
use crate::split::Split;
use crate::trial::Effect;
use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// What the steerer has done since its start. A clone has the same figures.
#[derive(Clone, Debug)]
pub struct Figures {
    registry: Registry,
    /// 1 while the steerer is connected to the server.
    pub connected: IntGauge,
    /// The number of connections that failed.
    pub failures: IntCounter,
    /// The number of restarts of the server.
    pub restarts: IntCounter,
    /// The number of shifts of the traffic.
    pub shifts: IntCounter,
    moves: IntCounterVec,
    refusals: IntCounterVec,
    trials: IntCounterVec,
    pages: IntGaugeVec,
    /// Registered when the first trial is measured.
    last_excess: Gauge,
}

/// The metric is valid: its name and its labels are constants.
const VALID: &str = "the metric has a valid name and valid labels";

fn options(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("slabwise").subsystem("steer")
}

/// Registers the metric, whose name no other metric has.
fn registered<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> C {
    registry.register(Box::new(metric.clone())).expect("each metric is registered once");
    metric
}

impl Figures {
    /// Starts with all counts at 0.
    pub fn new() -> Figures {
        let registry = Registry::new();
        let counter = |name, help| {
            registered(&registry, IntCounter::with_opts(options(name, help)).expect(VALID))
        };
        let counters = |name, help, label| {
            let counters = IntCounterVec::new(options(name, help), &[label]).expect(VALID);
            registered(&registry, counters)
        };
        let connected = options("connected", "1 while the steerer is connected.");
        let pages = options("pages", "Pages of each class.");
        let last_excess = options(
            "last_excess_per_thousand",
            "Misses per 1,000 gets that the last trial cost; negative if it saved misses.",
        );
        Figures {
            connected: registered(&registry, IntGauge::with_opts(connected).expect(VALID)),
            failures: counter("failures_total", "Connections that failed."),
            restarts: counter("server_restarts_total", "Restarts of the server."),
            shifts: counter("shifts_total", "Shifts of the traffic."),
            moves: counters("page_moves_total", "Page moves by purpose.", "purpose"),
            refusals: counters(
                "refused_page_moves_total",
                "Page moves that the server refused, by its reply.",
                "reply",
            ),
            trials: counters("trials_total", "Measured trials by verdict.", "verdict"),
            pages: registered(
                &registry,
                IntGaugeVec::new(pages, &["chunk_size_bytes"]).expect(VALID),
            ),
            last_excess: Gauge::with_opts(last_excess).expect(VALID),
            registry,
        }
    }

    /// Counts a page move.
    pub fn moved(&self, purpose: Purpose) {
        self.moves.with_label_values(&[purpose.word()]).inc();
    }

    /// Counts an order that the server refused with this word.
    pub fn refused(&self, word: &str) {
        self.refusals.with_label_values(&[word]).inc();
    }

    /// Counts a measured trial.
    pub fn measured(&self, effect: Effect) {
        self.trials.with_label_values(&[effect.verdict.word()]).inc();
        self.last_excess.set(effect.excess_per_thousand);
        // After the first trial, the metric is registered already.
        let _ = self.registry.register(Box::new(self.last_excess.clone()));
    }

    /// Shows the pages of this split.
    pub fn show_split(&self, split: &Split) {
        self.pages.reset();
        for (chunk_size_bytes, pages) in split.iter() {
            let pages = i64::try_from(pages).unwrap_or(i64::MAX);
            self.pages.with_label_values(&[chunk_size_bytes.to_string()]).set(pages);
        }
    }

    /// Returns the text of all metrics.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::Figures;
    use crate::goal::Purpose;
    use crate::split::Split;
    use crate::testing::counters;
    use crate::trial::{Effect, Verdict};

    #[test]
    fn the_text_has_every_count() {
        let figures = Figures::new();
        figures.show_split(&Split::of(&counters(&[(96, 3), (120, 1)])));
        figures.show_split(&Split::of(&counters(&[(96, 4)])));
        figures.moved(Purpose::Undo);
        figures.refused("busy");
        let text = figures.text().expect("all metrics are valid");
        for line in [
            "slabwise_steer_connected 0",
            "slabwise_steer_page_moves_total{purpose=\"undo\"} 1",
            "slabwise_steer_refused_page_moves_total{reply=\"busy\"} 1",
            "slabwise_steer_pages{chunk_size_bytes=\"96\"} 4",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in {text}");
        }
        assert!(!text.contains("\"120\""), "the class has no pages: {text}");
    }

    #[test]
    fn the_effect_is_shown_after_the_first_trial() {
        let figures = Figures::new();
        let text = || figures.text().expect("all metrics are valid");
        assert!(!text().contains("last_excess"));
        for excess_per_thousand in [1.5, -0.5] {
            figures.measured(Effect {
                verdict: Verdict::Unclear,
                excess_per_thousand,
                before_per_thousand: 1.0,
                after_per_thousand: 1.0,
            });
            let line = format!("slabwise_steer_last_excess_per_thousand {excess_per_thousand}\n");
            assert!(text().contains(&line), "{}", text());
        }
        assert!(text().contains("slabwise_steer_trials_total{verdict=\"unclear\"} 2"));
    }
}
