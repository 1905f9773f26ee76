//! `-o cost=measured`: measurement of misses and stores in each dialect, and its limits.

use crate::session::testing::{Client, Fixture};
use crate::shared::{MeasuredCosts, Shared};
use slabwise_engine::EvictionKind;
use slabwise_profile::MissClockOptions;
use std::time::Duration;

const WAIT_MS_MAX: u64 = 5_000;

/// Returns a server that times every key.
fn measuring(fixture: &Fixture) -> Shared<'_> {
    let options = MissClockOptions {
        rate: 1.0,
        wait_us_max: (WAIT_MS_MAX * 1_000) as u32,
        ..MissClockOptions::default()
    };
    let mut shared = fixture.shared();
    shared.measured_costs =
        Some(MeasuredCosts::new(options, ':', fixture.engine.config().hash_seed));
    shared
}

/// A client and the clock.
struct Talk<'f> {
    client: Client<'f>,
    fixture: &'f Fixture,
}

impl<'f> Talk<'f> {
    fn new(fixture: &'f Fixture, shared: &'f Shared<'f>) -> Talk<'f> {
        Talk { client: Client::new(fixture.worker(shared)), fixture }
    }

    fn wait(&self, millis: u64) {
        self.fixture.clock.advance(Duration::from_millis(millis));
    }

    fn says(&mut self, script: &str) -> String {
        self.client.received.clear();
        self.client.worker.requests_left = 1_000;
        self.client.send(script.as_bytes());
        String::from_utf8(self.client.received.clone()).expect("replies are text here")
    }

    /// Misses a key, waits `millis` milliseconds, and stores it.
    fn recomputes(&mut self, key: &str, millis: u64) {
        assert_eq!(self.says(&format!("get {key}\r\n")), "END\r\n", "{key} is there");
        self.wait(millis);
        self.stores(key);
    }

    fn stores(&mut self, key: &str) {
        assert_eq!(self.says(&format!("set {key} 0 0 5\r\nvalue\r\n")), "STORED\r\n");
    }

    /// Returns the cost of a key's item as `mg` shows it; -1 means unknown.
    fn cost_us(&mut self, key: &str) -> i64 {
        let reply = self.says(&format!("mg {key} g\r\n"));
        let cost = reply.strip_prefix("HD g").and_then(|rest| rest.strip_suffix("\r\n"));
        cost.unwrap_or_else(|| panic!("{key}: {reply}")).parse().expect("a number")
    }
}

/// Runs a test with a client of a server that measures costs.
fn with_talk(test: impl FnOnce(Talk<'_>)) {
    let fixture = Fixture::new();
    let shared = measuring(&fixture);
    test(Talk::new(&fixture, &shared));
}

#[test]
fn an_item_costs_the_time_from_its_miss_to_its_store() {
    with_talk(|mut talk| {
        talk.recomputes("a:1", 3);
        assert_eq!(talk.cost_us("a:1"), 3_000);
        // Later stores get the mean of both; stored items keep their costs.
        talk.recomputes("a:2", 5);
        assert_eq!((talk.cost_us("a:1"), talk.cost_us("a:2")), (3_000, 4_000));
        assert!(talk.says("stats cost\r\n").contains("STAT misses_timed 2\r\n"));
    });
}

#[test]
fn every_kind_of_miss_and_store_is_timed() {
    let misses =
        ["get K\r\n", "gets K\r\n", "gat 0 K\r\n", "gats 0 K\r\n", "mg K v\r\n", "mg K v u\r\n"];
    let stores = [
        "set K 0 0 1\r\nx\r\n",
        "add K 0 0 1\r\nx\r\n",
        "ms K 1\r\nx\r\n",
        "ms K 1 ME\r\nx\r\n",
        "ms K 1 MS\r\nx\r\n",
    ];
    for (number, miss) in misses.iter().enumerate() {
        for store in stores {
            with_talk(|mut talk| {
                let key = format!("a:{number}");
                talk.says(&miss.replace('K', &key));
                talk.wait(7);
                talk.says(&store.replace('K', &key));
                assert_eq!(talk.cost_us(&key), 7_000, "{miss} {store}");
            });
        }
    }
    // The empty item that `mg` makes for a miss does not end the measurement.
    with_talk(|mut talk| {
        assert_eq!(talk.says("mg a:1 v N30\r\n"), "VA 0 W\r\n\r\n");
        talk.wait(9);
        talk.stores("a:1");
        assert_eq!(talk.cost_us("a:1"), 9_000);
    });
    // In the binary protocol: a get that misses, a set.
    with_talk(|mut talk| {
        let mut binary = Client::new(talk.fixture.worker(talk.client.worker.shared));
        binary.send(b"\x80\x00\0\x03\0\0\0\0\0\0\0\x03opaqcasvaluea:1");
        talk.wait(4);
        binary.send(b"\x80\x01\0\x03\x08\0\0\0\0\0\0\x0copaq\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a:1x");
        assert_eq!(talk.cost_us("a:1"), 4_000);
    });
}

#[test]
fn a_failed_conditional_store_ends_the_measurement() {
    for store in ["replace a:1 0 0 1\r\nx\r\n", "cas a:1 0 0 1 1\r\nx\r\n", "ms a:1 1 MR\r\nx\r\n"]
    {
        with_talk(|mut talk| {
            talk.says("get a:1\r\n");
            talk.wait(7);
            let reply = talk.says(store);
            assert!(reply.starts_with('N'), "there is no item: {reply}");
            talk.wait(1_000);
            talk.stores("a:1");
            assert_eq!(talk.cost_us("a:1"), 7_000, "{store}");
        });
    }
}

#[test]
fn a_value_in_parts_is_timed_to_its_line() {
    with_talk(|mut talk| {
        talk.says("get a:1\r\n");
        talk.wait(5);
        assert_eq!(talk.says("set a:1 0 0 6\r\nabc"), "");
        talk.wait(90);
        assert_eq!(talk.says("def\r\n"), "STORED\r\n");
        assert_eq!(talk.cost_us("a:1"), 5_000);
    });
}

#[test]
fn quiet_binary_gets_and_adds_are_timed() {
    with_talk(|mut talk| {
        let mut binary = Client::new(talk.fixture.worker(talk.client.worker.shared));
        // getq does not answer a miss, and addq does not answer a store.
        binary.send(b"\x80\x09\0\x03\0\0\0\0\0\0\0\x03opaqcasvaluea:1");
        talk.wait(6);
        binary.send(b"\x80\x12\0\x03\x08\0\0\0\0\0\0\x0copaq\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a:1x");
        assert_eq!(binary.received, b"");
        assert_eq!(talk.cost_us("a:1"), 6_000);
    });
}

#[test]
fn recaches_of_stale_or_expiring_items_are_timed() {
    with_talk(|mut talk| {
        talk.stores("a:1");
        talk.says("md a:1 I T30\r\n");
        assert_eq!(talk.says("mg a:1 v\r\n"), "VA 5 W X\r\nvalue\r\n".replace("W X", "X W"));
        talk.wait(3);
        assert_eq!(
            talk.says("mg a:1 v\r\n"),
            "VA 5 Z X\r\nvalue\r\n",
            "another client recaches it"
        );
        talk.wait(8);
        talk.stores("a:1");
        assert_eq!(talk.cost_us("a:1"), 11_000);
    });
    with_talk(|mut talk| {
        assert_eq!(talk.says("set a:1 0 20 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(talk.says("mg a:1 v R30\r\n"), "VA 1 W\r\nx\r\n");
        talk.wait(4);
        talk.stores("a:1");
        assert_eq!(talk.cost_us("a:1"), 4_000);
    });
}

/// A much later store must not be timed from a miss after which another command made the item.
#[test]
fn a_command_that_makes_an_untimed_item_cancels_the_measurement() {
    let with_cost = "ms a:1 1 G77\r\nx\r\n";
    for made in [with_cost, "ma a:1 N0\r\n", "ms a:1 1 MA N0\r\nx\r\n"] {
        with_talk(|mut talk| {
            talk.says("get a:1\r\n");
            talk.says(made);
            talk.wait(1_000);
            talk.stores("a:1");
            assert_eq!(talk.cost_us("a:1"), -1, "{made}");
            let stats = talk.says("stats cost\r\n");
            assert!(stats.contains("STAT misses_answered 1\r\n"), "{stats}");
            assert!(stats.contains("STAT misses_timed 0\r\n"), "{stats}");
        });
    }
    // An append that finds no item makes none: its client stores the whole value next.
    with_talk(|mut talk| {
        talk.says("get a:1\r\n");
        assert_eq!(talk.says("append a:1 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
        talk.wait(9);
        talk.stores("a:1");
        assert_eq!(talk.cost_us("a:1"), 9_000);
    });
}

#[test]
fn stats_reset_resets_counters_and_keeps_means() {
    with_talk(|mut talk| {
        talk.recomputes("a:1", 3);
        assert_eq!(talk.says("stats reset\r\n"), "RESET\r\n");
        assert!(talk.says("stats cost\r\n").contains("STAT misses_timed 0\r\n"));
        talk.stores("a:2");
        assert_eq!(talk.cost_us("a:2"), 3_000);
    });
}

#[test]
fn the_option_samples_keys_and_uses_the_prefix_delimiter() {
    let mut fixture = Fixture::new();
    fixture.settings.costs_measured = true;
    fixture.settings.prefix_delimiter = '/';
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    for number in 0..1_000 {
        talk.recomputes(&format!("slow/{number}"), 40);
        talk.recomputes(&format!("fast/{number}"), 2);
    }
    assert_eq!((talk.cost_us("slow/999"), talk.cost_us("fast/999")), (40_000, 2_000));
    let stats = talk.says("stats cost\r\n");
    assert!(stats.contains("STAT cost measured\r\n"), "{stats}");
    let timed = stats.split("misses_timed ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let timed: u64 = timed.expect("a row of it").parse().expect("a number");
    assert!((75..200).contains(&timed), "a sixteenth of 2,000: {timed}");
}

#[test]
fn client_costs_are_kept_and_appends_change_no_cost() {
    with_talk(|mut talk| {
        talk.recomputes("a:1", 3);
        talk.says("mg a:2 v\r\n");
        talk.wait(50);
        assert_eq!(talk.says("ms a:2 1 G77\r\nx\r\n"), "HD\r\n");
        assert_eq!(talk.cost_us("a:2"), 77);
        assert_eq!(talk.says("append a:1 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(talk.says("touch a:1 100\r\n"), "TOUCHED\r\n");
        assert_eq!(talk.cost_us("a:1"), 3_000);
    });
}

#[test]
fn a_known_prefix_has_its_own_mean_and_a_new_one_that_of_its_class() {
    with_talk(|mut talk| {
        for number in 0..10 {
            talk.recomputes(&format!("slow:{number}"), 40);
            talk.recomputes(&format!("fast:{number}"), 2);
        }
        assert_eq!((talk.cost_us("slow:9"), talk.cost_us("fast:9")), (40_000, 2_000));
        talk.stores("warm:1");
        assert_eq!(talk.cost_us("warm:1"), 21_000, "the mean of all");
        talk.stores("slow:w");
        assert_eq!(talk.cost_us("slow:w"), 40_000, "there was no miss, but its prefix is known");
    });
}

#[test]
fn limit_stores_without_misses_have_no_costs() {
    with_talk(|mut talk| {
        for number in 0..100 {
            talk.wait(10);
            talk.stores(&format!("a:{number}"));
        }
        assert_eq!(talk.cost_us("a:99"), -1);
    });
}

#[test]
fn limit_each_key_of_a_batch_gets_the_time_of_the_whole_batch() {
    with_talk(|mut talk| {
        talk.says("get a:0 a:1 a:2 a:3\r\n");
        talk.wait(4);
        (0..4).for_each(|number| talk.stores(&format!("a:{number}")));
        assert_eq!(talk.cost_us("a:3"), 4_000, "each took a millisecond");
    });
}

#[test]
fn limit_concurrent_misses_are_timed_from_first_miss_to_first_store() {
    with_talk(|mut talk| {
        talk.says("get a:1\r\n");
        talk.wait(6);
        talk.says("get a:1\r\n");
        talk.wait(4);
        talk.stores("a:1");
        assert_eq!(talk.cost_us("a:1"), 10_000);
        talk.wait(6);
        talk.stores("a:1");
        assert_eq!(talk.cost_us("a:1"), 10_000, "the second store is not timed");
    });
}

#[test]
fn limit_a_store_that_is_too_late_is_not_timed() {
    with_talk(|mut talk| {
        talk.recomputes("a:1", WAIT_MS_MAX + 1);
        assert_eq!(talk.cost_us("a:1"), -1);
        assert!(talk.says("stats cost\r\n").contains("STAT misses_stored_late 1\r\n"));
    });
}

#[test]
fn limit_other_work_before_the_store_is_included() {
    with_talk(|mut talk| {
        talk.says("get a:1\r\n");
        talk.wait(2);
        talk.says("get b:1\r\n");
        talk.wait(30);
        talk.stores("b:1");
        talk.stores("a:1");
        assert_eq!(talk.cost_us("b:1"), 30_000);
        assert_eq!(talk.cost_us("a:1"), 31_000, "the mean of the class, of 30 and 32");
    });
}

#[test]
fn without_the_option_nothing_is_measured() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    talk.recomputes("a:1", 3);
    assert_eq!(talk.cost_us("a:1"), -1);
    assert!(talk.says("stats cost\r\n").contains("STAT cost client\r\n"));
}

/// Without client-supplied costs, items that are slow to recompute are kept longer.
#[test]
fn slow_keys_outlast_fast_ones() {
    let fixture = Fixture::with(|config| config.eviction = EvictionKind::CostBands);
    let shared = measuring(&fixture);
    let mut talk = Talk::new(&fixture, &shared);
    let value = "v".repeat(900);
    let (mut misses, rounds) = ([0, 0], 60_000_u64);
    // Twice as many keys as fit, uniformly distributed; every fifth is slow.
    let keys = 2 * fixture.engine.config().memory_limit_bytes / 1_000;
    let mut random = slabwise_base::Random::new(1);
    for round in 0..rounds {
        let number = random.below(keys);
        let is_slow = number.is_multiple_of(5);
        let key = if is_slow { format!("slow:{number}") } else { format!("fast:{number}") };
        if talk.says(&format!("mg {key}\r\n")) == "EN\r\n" {
            misses[usize::from(is_slow)] += u64::from(round > rounds / 2);
            talk.wait(if is_slow { 40 } else { 1 });
            talk.says(&format!("set {key} 0 0 900\r\n{value}\r\n"));
        }
    }
    let [fast, slow] = misses;
    assert!(slow * 4 * 4 < fast, "of a fifth of the keys {slow} misses, of the others {fast}");
}
