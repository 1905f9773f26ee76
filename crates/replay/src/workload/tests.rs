//! Compares workloads with recorded requests, with published distributions, and with the published miss ratios of an
//! exact LRU cache.

use super::lengths::Lengths;
use super::{Op, Options, Request, Workload, open};
use crate::exact_lru::ExactLru;
use slabwise_base::Cost;

pub(crate) fn options() -> Options {
    Options::default()
}

pub(crate) fn opened(name: &str, options: &Options) -> Workload {
    open(name, options).unwrap_or_else(|error| panic!("{error}"))
}

fn requests(name: &str, options: &Options) -> impl Iterator<Item = Request> {
    opened(name, options).map(|request| request.unwrap_or_else(|error| panic!("{error}")))
}

/// Returns the error of opening a workload with invalid options.
fn refusal(name: &str, options: &Options) -> String {
    open(name, options).map_or_else(|error| error.to_string(), |_| panic!("{name} was opened"))
}

/// Returns the miss ratio of an LRU cache, not counting the first `warm_up` requests. `weight` returns the size of an
/// item, and `capacity` is the maximum sum of the sizes.
fn lru_miss_ratio(
    requests: impl Iterator<Item = Request>,
    warm_up: u64,
    capacity: u64,
    weight: impl Fn(&Request) -> u64,
) -> f64 {
    let mut lru = ExactLru::new(capacity);
    let (mut counted, mut misses) = (0u64, 0u64);
    for (at, request) in (0u64..).zip(requests) {
        let miss = lru.access(request.key, weight(&request)).is_miss();
        if at >= warm_up {
            counted += 1;
            misses += u64::from(miss);
        }
    }
    misses as f64 / counted as f64
}

/// Returns the size of an item in bytes: a key of 17 bytes, the value, and 40 bytes of overhead.
fn item_bytes(request: &Request) -> u64 {
    40 + 17 + u64::from(request.value_len)
}

#[track_caller]
fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "found {found}, expected {expected} ± {tolerance}"
    );
}

#[test]
fn the_seed_determines_the_requests() {
    for name in super::NAMES {
        let small = Options { requests: Some(5_000), ..options() };
        let first: Vec<Request> = requests(name, &small).collect();
        assert_eq!(first.len(), 5_000, "{name}");
        assert!(
            requests(name, &small).eq(first.iter().copied()),
            "{name}: the same seed gives the same requests"
        );
        if name == "toy" {
            continue;
        }
        let other = Options { seed: 2, ..small };
        assert!(!requests(name, &other).eq(first), "{name}: another seed gives other requests");
    }
}

#[test]
fn the_keys_of_a_trace_do_not_depend_on_the_seed() {
    let keys = |seed| {
        let options = Options { seed, requests: Some(1_000), ..options() };
        requests("cache2k-orm-busy", &options).map(|r| r.key).collect::<Vec<_>>()
    };
    assert_eq!(keys(1), keys(2));
}

#[test]
fn workloads_start_with_their_recorded_requests() {
    let start = |name: &str| {
        let options = Options { requests: Some(100), ..options() };
        let requests = requests(name, &options).take(4).map(|r| (r.key, r.value_len));
        requests.collect::<Vec<_>>()
    };
    assert_eq!(start("zipf"), [(1626, 159), (650763, 95), (265, 703), (162489, 159)]);
    assert_eq!(start("etc"), [(4896, 26), (4305421, 1159), (630, 92), (895923, 259)]);
    assert_eq!(start("etc-mutilate"), [(4896, 27), (4305421, 858), (630, 23), (895923, 132)]);
    assert_eq!(start("two-phase"), [(155, 140), (0, 140), (13, 140), (10790, 140)]);
    assert_eq!(
        start("toy"),
        [(0, 600_000), (1 << 40, 1_000_000), (1, 600_000), ((1 << 40) + 1, 1_000_000)]
    );
    assert_eq!(start("kvcache_reg"), [(2062, 159), (1107675, 127), (352, 127), (250087, 159)]);
    assert_eq!(
        start("graph_cache_leader_assocs"),
        [(610041, 31), (4400271, 63), (240631, 63), (3064114, 63)]
    );
    assert_eq!(
        start("cache2k-orm-busy"),
        [(4026531841, 159), (2281701888, 95), (2281702400, 159), (2281702912, 159)]
    );
    assert_eq!(
        start("cache2k-orm-night"),
        [(3087007745, 95), (3087007746, 159), (3355443713, 127), (3355443714, 127)]
    );
    assert_eq!(start("cache2k-web12"), [(0, 159), (1, 95), (2, 159), (3, 127)]);
}

#[test]
fn lengths_have_the_published_means() {
    let mean = |lengths: &Lengths| {
        (0..1_000_000u64).map(|key| f64::from(lengths.value_len(key))).sum::<f64>() / 1e6
    };
    // The mean of the distribution is scale / (1 - shape) = 329.07. Rounding the lengths down makes it about 0.5 lower.
    let etc = Lengths::etc(1, 0);
    assert_near(mean(&etc), 328.6, 2.0);
    let table = super::named::table_lengths(&options()).unwrap_or_else(|error| panic!("{error}"));
    // The standard deviation of the table is 6674 bytes, so the standard deviation of the mean of a million lengths is
    // 6.7 bytes.
    assert_near(mean(&table), 335.2, 4.0 * 6.7);
    let mut lens: Vec<u32> = (0..1_000_000).map(|key| table.value_len(key)).collect();
    lens.sort_unstable();
    assert_eq!([lens[500_000], lens[900_000], lens[990_000]], [159, 191, 959]);
}

#[test]
fn size_factor_multiplies_lengths_and_value_len_overrides_them() {
    let plain = Options { requests: Some(100), ..options() };
    let times_16 = Options { size_factor: 16.0, ..plain.clone() };
    for (one, sixteen) in
        requests("cache2k-web12", &plain).zip(requests("cache2k-web12", &times_16))
    {
        assert_eq!(16 * one.value_len, sixteen.value_len);
    }
    for name in super::NAMES {
        let fixed = Options { value_len: Some(7), ..plain.clone() };
        assert!(requests(name, &fixed).all(|request| request.value_len == 7), "{name}");
    }
}

#[test]
fn zipf_ranks_have_their_expected_shares() {
    let options =
        Options { requests: Some(300_000), keys: Some(1000), skew: Some(1.0), ..options() };
    let mut counts = vec![0u32; 1000];
    requests("zipf", &options).for_each(|request| counts[request.key as usize] += 1);
    let harmonic: f64 = (1..=1000).map(|rank| 1.0 / f64::from(rank)).sum();
    for rank in [1u32, 2, 3, 10, 100] {
        let share = f64::from(counts[rank as usize - 1]) / 300_000.0;
        let expected = 1.0 / (f64::from(rank) * harmonic);
        // The tolerance is four standard deviations of the share.
        assert_near(share, expected, 4.0 * (expected / 300_000.0).sqrt());
    }
}

#[test]
fn two_phase_starts_with_one_class_and_continues_with_two() {
    let options = Options { requests: Some(100_000), scale: Some(0.001), ..options() };
    let lens: Vec<u32> = requests("two-phase", &options).map(|r| r.value_len).collect();
    assert!(lens[..13_000].iter().all(|&len| len == 140));
    let second_class = lens[13_000..].iter().filter(|&&len| len == 190).count();
    assert_near(second_class as f64 / 87_000.0, 0.67, 0.01);
}

#[test]
fn scale_multiplies_keys_and_requests() {
    let tenth = Options { scale: Some(0.02), ..options() };
    assert_eq!(opened("kvcache_reg", &tenth).requests_expected(), Some(1_000_000));
    assert_eq!(opened("kvcache_reg", &options()).requests_expected(), Some(10_000_000));
    assert_eq!(opened("cache2k-web12", &options()).requests_expected(), Some(95_607));
    let keys_max =
        requests("etc", &Options { scale: Some(0.001), ..options() }).map(|r| r.key).max();
    assert!(keys_max < Some(7_000) && keys_max > Some(6_900), "{keys_max:?}");
}

#[test]
fn an_invalid_option_is_an_error_with_the_remedy() {
    let with = |change: fn(&mut Options)| {
        let mut options = options();
        change(&mut options);
        options
    };
    assert!(refusal("zpif", &options()).contains("zipf, etc"));
    assert!(refusal("csv:a.csv", &options()).contains("csv:POP:SIZES"));
    assert!(refusal("trace:/no/such/file", &options()).contains("/no/such/file"));
    assert!(refusal("csv:/no/such:/file", &options()).contains("/no/such"));
    assert!(refusal("cache2k-web12", &with(|o| o.scale = Some(0.5))).contains("--requests"));
    assert!(refusal("zipf", &with(|o| o.scale = Some(0.0))).contains("--scale"));
    assert!(refusal("zipf", &with(|o| o.scale = Some(f64::NAN))).contains("--scale"));
    assert!(refusal("zipf", &with(|o| o.size_factor = -1.0)).contains("--size-factor"));
    assert!(refusal("zipf", &with(|o| o.value_len = Some(0))).contains("--value-len"));
    assert!(refusal("zipf", &with(|o| o.keys = Some(0))).contains("--keys"));
    assert!(refusal("zipf", &with(|o| o.skew = Some(-1.0))).contains("--skew"));
    assert!(refusal("etc", &with(|o| o.keys = Some(5))).contains("zipf"));
}

/// The published LRU cache stores 10 % of the keys of each trace.
#[test]
fn traces_have_their_published_lru_miss_ratios() {
    let unit = |name, capacity| lru_miss_ratio(requests(name, &options()), 0, capacity, |_| 1);
    assert_near(unit("cache2k-web12", 1_376), 0.315, 0.0005);
    assert_near(unit("cache2k-orm-busy", 7_635), 0.120, 0.0005);
    assert_near(unit("cache2k-orm-night", 8_647), 0.065, 0.0005);
}

/// The published simulation counts 3 M requests for 10.48 M keys, and its cache stores 1 % of the keys.
#[test]
fn kvcache_reg_has_its_published_lru_miss_ratio() {
    let options = Options { requests: Some(3_500_000), scale: Some(1.0), ..options() };
    let ratio = lru_miss_ratio(requests("kvcache_reg", &options), 500_000, 104_836, |_| 1);
    assert_near(ratio, 0.362, 0.002);
}

/// The expected miss ratio was computed by another simulation of an LRU cache, whose capacity is a number of bytes.
/// Items are truncated to 1 MiB, memcached's limit, because a few long values would dominate the miss ratio.
#[test]
fn a_trace_has_its_reference_miss_ratio_with_byte_granular_lru() {
    let options = Options { size_factor: 16.0, ..options() };
    let item_bytes = |request: &Request| item_bytes(request).min(1 << 20);
    let ratio = lru_miss_ratio(requests("cache2k-orm-busy", &options), 0, 64 << 20, item_bytes);
    assert_near(ratio, 0.0700, 0.004);
}

#[test]
#[ignore = "has 50 M requests, which take minutes in a build without optimisation"]
fn drawn_workloads_have_their_reference_miss_ratios() {
    let ratio = |name: &str, scale, megabytes: u64| {
        let options = Options { scale, ..options() };
        lru_miss_ratio(requests(name, &options), 0, megabytes << 20, item_bytes)
    };
    assert_near(ratio("kvcache_reg", None, 64), 0.2069, 0.003);
    assert_near(ratio("etc", None, 256), 0.2029, 0.003);
    assert_near(ratio("two-phase", Some(0.2), 77), 0.1647, 0.003);
}

#[test]
fn given_requests_are_returned_unchanged() {
    let cost = Some(Cost::from_units(7));
    let requests = vec![
        Request { key: 1, value_len: 10, op: Op::Get, cost },
        Request { key: 1, value_len: 20, op: Op::Set, cost: None },
    ];
    let workload = Workload::of_requests(requests.clone());
    assert_eq!(workload.requests_expected(), Some(2));
    assert!(!workload.one_length_per_key());
    let returned: Vec<Request> = workload.map(|request| request.expect("no error")).collect();
    assert_eq!(returned, requests);
}
