//! Metric families: the metrics of one name, with their labels and values.

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric as Value, MetricFamily, MetricType,
};
use prometheus::{Encoder, TextEncoder};
use std::collections::BTreeMap;

/// The name, the type and the description of a metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    pub name: &'static str,
    kind: MetricType,
    help: &'static str,
}

impl Metric {
    /// A number that only increases while the server runs, except at `stats reset`.
    pub const fn counter(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: MetricType::COUNTER, help }
    }

    /// A number that can increase and decrease.
    pub const fn gauge(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: MetricType::GAUGE, help }
    }

    /// A number of events for each range of a quantity.
    pub const fn histogram(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: MetricType::HISTOGRAM, help }
    }
}

/// The names and the values of the labels of one value.
pub(super) type Labels<'l> = &'l [(&'static str, &'l str)];

/// Collects values, and sorts them by the names of their metrics.
#[derive(Default)]
pub(super) struct Families {
    families: BTreeMap<&'static str, MetricFamily>,
}

impl Families {
    /// Adds a value of a counter or gauge.
    pub fn add(&mut self, metric: Metric, labels: Labels<'_>, number: f64) {
        let mut value = Value::from_label(pairs(labels));
        if metric.kind == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(number);
            value.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(number);
            value.set_gauge(gauge);
        }
        self.push(metric, value);
    }

    /// Adds a histogram. `buckets` are the upper bounds of the ranges in ascending order, each with the number of events
    /// in this range alone. The last bound may be infinite. `sum` is the sum of the quantity over all events.
    pub fn add_histogram(
        &mut self,
        metric: Metric,
        labels: Labels<'_>,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
    ) {
        let mut count = 0;
        let cumulative = |(upper_bound, events)| {
            count += events;
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(upper_bound);
            bucket.set_cumulative_count(count);
            bucket
        };
        let mut buckets: Vec<Bucket> = buckets.into_iter().map(cumulative).collect();
        // The encoder adds the range without an end, whose bound must be written as `+Inf`.
        buckets.retain(|bucket| bucket.upper_bound().is_finite());
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets);
        histogram.set_sample_count(count);
        histogram.set_sample_sum(sum);
        let mut value = Value::from_label(pairs(labels));
        value.set_histogram(histogram);
        self.push(metric, value);
    }

    fn push(&mut self, metric: Metric, value: Value) {
        let family = self.families.entry(metric.name).or_insert_with(|| {
            let mut family = MetricFamily::default();
            family.set_name(metric.name.to_owned());
            family.set_help(metric.help.to_owned());
            family.set_field_type(metric.kind);
            family
        });
        debug_assert_eq!(family.get_field_type(), metric.kind, "{} has one type", metric.name);
        family.mut_metric().push(value);
    }

    /// Returns all values in Prometheus's text format 0.0.4.
    pub fn encode(self) -> Vec<u8> {
        let families: Vec<MetricFamily> = self.families.into_values().collect();
        let mut text = Vec::new();
        TextEncoder::new()
            .encode(&families, &mut text)
            .expect("every family has a name and a value, and a vector accepts all bytes");
        text
    }
}

fn pairs(labels: Labels<'_>) -> Vec<LabelPair> {
    let pair = |&(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    };
    labels.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::{Families, Metric};

    const HITS: Metric = Metric::counter("hits_total", "Hits.");
    const SECONDS: Metric = Metric::histogram("seconds", "Durations.");

    #[test]
    fn families_are_sorted_by_name_and_values_keep_their_order() {
        let mut families = Families::default();
        families.add_histogram(SECONDS, &[], [(0.001, 2), (0.002, 1), (f64::INFINITY, 4)], 9.5);
        families.add(HITS, &[("slab", "2")], 7.0);
        families.add(HITS, &[("slab", "1")], 3.5);
        let expected = "# HELP hits_total Hits.\n\
                        # TYPE hits_total counter\n\
                        hits_total{slab=\"2\"} 7\n\
                        hits_total{slab=\"1\"} 3.5\n\
                        # HELP seconds Durations.\n\
                        # TYPE seconds histogram\n\
                        seconds_bucket{le=\"0.001\"} 2\n\
                        seconds_bucket{le=\"0.002\"} 3\n\
                        seconds_bucket{le=\"+Inf\"} 7\n\
                        seconds_sum 9.5\n\
                        seconds_count 7\n";
        assert_eq!(String::from_utf8_lossy(&families.encode()), expected);
    }
}
