//! The measurements of a replay, and their form as text.
//!
//! The latency of a request is measured from the start of its round or, with a rate, from its scheduled send time. The
//! latency ends with the reply; for a get that misses, with the reply to the set that follows. The latency therefore
//! includes the time that a request waits for the other requests of its round.

use crate::client::{Answer, Outcome};
use crate::look_aside::Action;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt::Write;

/// The upper bound of the latency histogram. It is longer than the timeout of the client.
const TIME_NANOS_MAX: u64 = 600_000_000_000;

/// The counters of a running replay.
#[derive(Debug)]
pub struct Tally {
    /// All requests since the start of the replay.
    pub all: Window,
    sets_refused: u64,
    /// The sum of the costs of all gets, in units.
    cost_of_gets: u64,
    /// The sum of the costs of all gets that missed, in units.
    cost_of_misses: u64,
    /// The sum of the latencies of all requests, in nanoseconds.
    latency_nanos_sum: u128,
    /// The latencies of all requests, in nanoseconds.
    latencies: Histogram<u64>,
    /// The number of requests in each window; `None` if there are no windows.
    window_requests: Option<u64>,
    /// The complete windows.
    windows: Vec<Window>,
    /// The incomplete window.
    current: Window,
}

/// The counts of consecutive requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Window {
    /// The number of requests.
    pub requests: u64,
    /// The number of gets.
    pub gets: u64,
    /// The number of gets that missed.
    pub misses: u64,
    /// Misses divided by gets. 0 until the window is complete.
    pub miss_ratio: f64,
}

impl Window {
    /// Counts one request.
    fn count(&mut self, get: bool, miss: bool) {
        self.requests += 1;
        self.gets += u64::from(get);
        self.misses += u64::from(miss);
    }

    /// Returns the complete window, with its miss ratio.
    fn with_miss_ratio(self) -> Window {
        Window { miss_ratio: self.ratio(), ..self }
    }

    /// Returns the misses divided by the gets that are counted so far.
    pub(crate) fn ratio(&self) -> f64 {
        ratio(self.misses, self.gets)
    }
}

impl Tally {
    /// Returns counters of 0. With `window_requests`, the requests are also counted in windows of this number of
    /// requests.
    pub fn new(window_requests: Option<u64>) -> Tally {
        let latencies = Histogram::new_with_bounds(1, TIME_NANOS_MAX, 3);
        Tally {
            all: Window::default(),
            sets_refused: 0,
            cost_of_gets: 0,
            cost_of_misses: 0,
            latency_nanos_sum: 0,
            latencies: latencies.expect("the bounds of the histogram are valid constants"),
            window_requests,
            windows: Vec::new(),
            current: Window::default(),
        }
    }

    /// Counts the reply to a request.
    pub fn record(&mut self, answer: &Answer) {
        let (get, miss) = (answer.action == Action::Get, answer.outcome == Outcome::Miss);
        self.sets_refused += u64::from(answer.outcome == Outcome::Refused);
        // A get that misses and its fill are one request. The get counts the request, and the fill records the latency.
        if answer.action != Action::Fill {
            self.all.count(get, miss);
            self.current.count(get, miss);
            let units = answer.pending.request.cost.map_or(0, |cost| u64::from(cost.units()));
            self.cost_of_gets += if get { units } else { 0 };
            self.cost_of_misses += if miss { units } else { 0 };
            if Some(self.current.requests) == self.window_requests {
                self.windows.push(std::mem::take(&mut self.current).with_miss_ratio());
            }
        }
        if !miss {
            let nanos = answer.reply_nanos.saturating_sub(answer.pending.latency_start_nanos);
            self.latency_nanos_sum += u128::from(nanos);
            self.latencies.saturating_record(nanos);
        }
    }

    /// Returns the report of a replay that took `seconds`.
    pub fn report(mut self, seconds: f64) -> Report {
        let quantile_us = |part| self.latencies.value_at_quantile(part) as f64 / 1e3;
        let mean_nanos = self.latency_nanos_sum as f64 / self.latencies.len().max(1) as f64;
        let Window { requests, gets, misses, miss_ratio } = self.all.with_miss_ratio();
        if self.current.requests > 0 {
            self.windows.push(self.current.with_miss_ratio());
        }
        Report {
            requests,
            misses,
            miss_ratio,
            cost_ratio: match self.cost_of_gets {
                0 => miss_ratio,
                cost => ratio(self.cost_of_misses, cost),
            },
            request_time_us: mean_nanos / 1e3,
            seconds,
            p50_us: quantile_us(0.50),
            p99_us: quantile_us(0.99),
            p999_us: quantile_us(0.999),
            gets,
            sets_refused: self.sets_refused,
            windows: self.window_requests.map(|_| self.windows),
        }
    }
}

/// Returns `part / whole`, or 0 if both are 0.
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The result of a replay. The names of the fields are the names in the JSON output, which scripts use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The number of requests. A get that misses and its set are one request.
    pub requests: u64,
    /// The number of gets that missed.
    pub misses: u64,
    /// Misses divided by gets.
    pub miss_ratio: f64,
    /// The cost of all misses divided by the cost of all gets. It is the miss ratio if no request has a cost.
    pub cost_ratio: f64,
    /// The mean latency of a request in microseconds. The latency of a get that misses includes the set.
    pub request_time_us: f64,
    /// The duration of the replay in seconds.
    pub seconds: f64,
    /// The median latency of a request in microseconds.
    pub p50_us: f64,
    /// The 99th percentile of the latency in microseconds.
    pub p99_us: f64,
    /// The 99.9th percentile of the latency in microseconds.
    pub p999_us: f64,
    /// The number of gets.
    pub gets: u64,
    /// The number of sets that the server refused, because the item was too large or memory was full.
    pub sets_refused: u64,
    /// The windows in the order of time; `None` if no windows were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<Vec<Window>>,
}

impl Report {
    /// Formats the report as text: a table of windows, if there are any, and one line with the other values.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(windows) = &self.windows {
            text.push_str("requests_up_to  miss_ratio\n");
            let mut up_to = 0;
            for window in windows {
                up_to += window.requests;
                let _ = writeln!(text, "{up_to:>14}  {:>10.4}", window.miss_ratio);
            }
        }
        let Report {
            requests, misses, miss_ratio, cost_ratio, seconds, gets, sets_refused, ..
        } = self;
        let Report { request_time_us, p50_us, p99_us, p999_us, .. } = self;
        let _ = write!(
            text,
            "requests={requests} misses={misses} miss_ratio={miss_ratio:.4} cost_ratio={cost_ratio:.4} \
             request_time_us={request_time_us:.1} seconds={seconds:.3} p50_us={p50_us:.1} p99_us={p99_us:.1} \
             p999_us={p999_us:.1} gets={gets} sets_refused={sets_refused}",
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use crate::client::{Answer, Outcome};
    use crate::look_aside::{Action, Pending};
    use crate::workload::{Op, Request};
    use slabwise_base::Cost;

    fn answer(action: Action, outcome: Outcome, reply_nanos: u64) -> Answer {
        let request = Request { key: 1, value_len: 1, op: Op::Get, cost: None };
        Answer {
            action,
            pending: Pending { request, latency_start_nanos: 0 },
            outcome,
            reply_nanos,
        }
    }

    #[test]
    fn the_latency_of_a_miss_includes_its_set() {
        let mut tally = Tally::new(Some(2));
        tally.record(&answer(Action::Get, Outcome::Miss, 1_000));
        tally.record(&answer(Action::Fill, Outcome::Refused, 3_000));
        tally.record(&answer(Action::Get, Outcome::Hit, 1_000));
        tally.record(&answer(Action::Delete, Outcome::Done, 2_000));
        let report = tally.report(0.5);
        assert_eq!((report.requests, report.gets, report.misses), (3, 2, 1));
        assert_eq!((report.miss_ratio, report.sets_refused), (0.5, 1));
        assert_eq!(report.request_time_us, 2.0);
        let windows = report.windows.clone().unwrap_or_default();
        assert_eq!(windows.iter().map(|w| w.requests).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((windows[0].miss_ratio, windows[1].miss_ratio), (0.5, 0.0));
        let text = report.text();
        let last = text.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("requests=3 misses=1 miss_ratio=0.5000 cost_ratio=0.5000"),
            "{text}"
        );
    }

    #[test]
    fn the_cost_ratio_is_the_cost_of_misses_divided_by_the_cost_of_gets() {
        let mut tally = Tally::new(None);
        let mut get = |units, outcome, action| {
            let mut answer = answer(action, outcome, 1);
            answer.pending.request.cost = Some(Cost::from_units(units));
            tally.record(&answer);
        };
        get(400, Outcome::Miss, Action::Get);
        get(400, Outcome::Done, Action::Fill);
        get(10, Outcome::Hit, Action::Get);
        get(30, Outcome::Hit, Action::Get);
        get(60, Outcome::Miss, Action::Get);
        get(1_000, Outcome::Done, Action::Set);
        let report = tally.report(1.0);
        assert_eq!((report.miss_ratio, report.cost_ratio), (0.5, 460.0 / 500.0));
    }

    #[test]
    fn an_empty_replay_has_no_misses() {
        let report = Tally::new(None).report(0.0);
        assert_eq!((report.miss_ratio, report.request_time_us), (0.0, 0.0));
        let json = serde_json::to_string(&report).unwrap_or_default();
        for field in [
            "requests",
            "misses",
            "miss_ratio",
            "cost_ratio",
            "request_time_us",
            "seconds",
            "p50_us",
        ] {
            assert!(json.contains(&format!("\"{field}\":")), "{json}");
        }
    }
}
