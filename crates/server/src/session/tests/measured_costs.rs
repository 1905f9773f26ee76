//! `-o cost=measured`: the server measures the time from the miss of a key to its store, in each dialect. Tests whose
//! names begin with `limit_` show the limits of this measurement.

use crate::session::testing::{Client, Fixture};
use crate::shared::{MeasuredCosts, Shared};
use slabwise_engine::EvictionKind;
use slabwise_profile::MissClockOptions;
use std::time::Duration;

/// The maximum time from a miss to its store, in milliseconds. The server does not use a longer time as a cost.
const WAIT_MS_MAX: u64 = 5_000;

/// Returns the state of a server that measures the misses of all keys, not only of a sample.
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

/// A client, with the parts of its server ([`Fixture`]), whose clock the tests advance.
struct Talk<'f> {
    client: Client<'f>,
    fixture: &'f Fixture,
}

impl<'f> Talk<'f> {
    fn new(fixture: &'f Fixture, shared: &'f Shared<'f>) -> Talk<'f> {
        Talk { client: Client::new(fixture.worker(shared)), fixture }
    }

    /// Advances the server's clock.
    fn advance_ms(&self, millis: u64) {
        self.fixture.clock.advance(Duration::from_millis(millis));
    }

    /// Sends a script and returns the replies.
    fn send(&mut self, script: &str) -> String {
        self.client.received.clear();
        self.client.worker.requests_left = 1_000;
        self.client.send(script.as_bytes());
        String::from_utf8(self.client.received.clone()).expect("the replies to this test are UTF-8")
    }

    /// Gets a key, which misses, waits `millis` milliseconds, and stores the key.
    fn recompute(&mut self, key: &str, millis: u64) {
        assert_eq!(self.send(&format!("get {key}\r\n")), "END\r\n", "{key} is not stored yet");
        self.advance_ms(millis);
        self.store(key);
    }

    /// Stores a value under a key.
    fn store(&mut self, key: &str) {
        assert_eq!(self.send(&format!("set {key} 0 0 5\r\nvalue\r\n")), "STORED\r\n");
    }

    /// Returns the cost of a key's item, in microseconds, as `mg` shows it. -1 means that the item has no cost.
    fn cost_us(&mut self, key: &str) -> i64 {
        let reply = self.send(&format!("mg {key} g\r\n"));
        let cost = reply.strip_prefix("HD g").and_then(|rest| rest.strip_suffix("\r\n"));
        cost.unwrap_or_else(|| panic!("the reply to `mg {key} g` shows a cost, but is {reply:?}"))
            .parse()
            .expect("a cost is a number")
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
        talk.recompute("a:1", 3);
        assert_eq!(talk.cost_us("a:1"), 3_000);
        // The store of a:2 gets the mean of both measurements. The stored item a:1 keeps its cost.
        talk.recompute("a:2", 5);
        assert_eq!((talk.cost_us("a:1"), talk.cost_us("a:2")), (3_000, 4_000));
        assert!(talk.send("stats cost\r\n").contains("STAT misses_timed 2\r\n"));
    });
}

#[test]
fn every_kind_of_miss_and_store_is_measured() {
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
                talk.send(&miss.replace('K', &key));
                talk.advance_ms(7);
                talk.send(&store.replace('K', &key));
                assert_eq!(talk.cost_us(&key), 7_000, "{miss} {store}");
            });
        }
    }
    // The empty item that flag N of `mg` creates on a miss does not end the measurement.
    with_talk(|mut talk| {
        assert_eq!(talk.send("mg a:1 v N30\r\n"), "VA 0 W\r\n\r\n");
        talk.advance_ms(9);
        talk.store("a:1");
        assert_eq!(talk.cost_us("a:1"), 9_000);
    });
    // The binary protocol: a get that misses, then a set.
    with_talk(|mut talk| {
        let mut binary = Client::new(talk.fixture.worker(talk.client.worker.shared));
        binary.send(b"\x80\x00\0\x03\0\0\0\0\0\0\0\x03opaqcasvaluea:1");
        talk.advance_ms(4);
        binary.send(b"\x80\x01\0\x03\x08\0\0\0\0\0\0\x0copaq\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a:1x");
        assert_eq!(talk.cost_us("a:1"), 4_000);
    });
}

#[test]
fn a_conditional_store_ends_the_measurement_even_if_it_fails() {
    for store in ["replace a:1 0 0 1\r\nx\r\n", "cas a:1 0 0 1 1\r\nx\r\n", "ms a:1 1 MR\r\nx\r\n"]
    {
        with_talk(|mut talk| {
            talk.send("get a:1\r\n");
            talk.advance_ms(7);
            let reply = talk.send(store);
            assert!(reply.starts_with('N'), "the store fails because there is no item: {reply}");
            talk.advance_ms(1_000);
            talk.store("a:1");
            assert_eq!(talk.cost_us("a:1"), 7_000, "{store}");
        });
    }
}

#[test]
fn the_measurement_ends_when_the_line_of_the_store_arrives() {
    with_talk(|mut talk| {
        talk.send("get a:1\r\n");
        talk.advance_ms(5);
        assert_eq!(talk.send("set a:1 0 0 6\r\nabc"), "");
        talk.advance_ms(90);
        assert_eq!(talk.send("def\r\n"), "STORED\r\n");
        assert_eq!(talk.cost_us("a:1"), 5_000);
    });
}

#[test]
fn misses_and_stores_of_quiet_binary_commands_are_measured() {
    with_talk(|mut talk| {
        let mut binary = Client::new(talk.fixture.worker(talk.client.worker.shared));
        // getq sends no reply to a miss, and addq sends no reply to a successful store.
        binary.send(b"\x80\x09\0\x03\0\0\0\0\0\0\0\x03opaqcasvaluea:1");
        talk.advance_ms(6);
        binary.send(b"\x80\x12\0\x03\x08\0\0\0\0\0\0\x0copaq\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a:1x");
        assert_eq!(binary.received, b"");
        assert_eq!(talk.cost_us("a:1"), 6_000);
    });
}

#[test]
fn recaches_of_stale_or_expiring_items_are_measured() {
    with_talk(|mut talk| {
        talk.store("a:1");
        talk.send("md a:1 I T30\r\n");
        assert_eq!(talk.send("mg a:1 v\r\n"), "VA 5 W X\r\nvalue\r\n".replace("W X", "X W"));
        talk.advance_ms(3);
        assert_eq!(
            talk.send("mg a:1 v\r\n"),
            "VA 5 Z X\r\nvalue\r\n",
            "the reply says that another client is recaching the item"
        );
        talk.advance_ms(8);
        talk.store("a:1");
        assert_eq!(talk.cost_us("a:1"), 11_000);
    });
    with_talk(|mut talk| {
        assert_eq!(talk.send("set a:1 0 20 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(talk.send("mg a:1 v R30\r\n"), "VA 1 W\r\nx\r\n");
        talk.advance_ms(4);
        talk.store("a:1");
        assert_eq!(talk.cost_us("a:1"), 4_000);
    });
}

/// If another command creates the item after a miss, the time from that miss to a later store is not a cost.
#[test]
fn a_command_that_creates_an_item_without_a_measured_cost_cancels_the_measurement() {
    let with_cost = "ms a:1 1 G77\r\nx\r\n";
    for command in [with_cost, "ma a:1 N0\r\n", "ms a:1 1 MA N0\r\nx\r\n"] {
        with_talk(|mut talk| {
            talk.send("get a:1\r\n");
            talk.send(command);
            talk.advance_ms(1_000);
            talk.store("a:1");
            assert_eq!(talk.cost_us("a:1"), -1, "{command}");
            let stats = talk.send("stats cost\r\n");
            assert!(stats.contains("STAT misses_answered 1\r\n"), "{stats}");
            assert!(stats.contains("STAT misses_timed 0\r\n"), "{stats}");
        });
    }
    // An append that finds no item creates none and cancels nothing: its client stores the whole value next.
    with_talk(|mut talk| {
        talk.send("get a:1\r\n");
        assert_eq!(talk.send("append a:1 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
        talk.advance_ms(9);
        talk.store("a:1");
        assert_eq!(talk.cost_us("a:1"), 9_000);
    });
}

#[test]
fn stats_reset_resets_the_counters_and_keeps_the_mean_costs() {
    with_talk(|mut talk| {
        talk.recompute("a:1", 3);
        assert_eq!(talk.send("stats reset\r\n"), "RESET\r\n");
        assert!(talk.send("stats cost\r\n").contains("STAT misses_timed 0\r\n"));
        talk.store("a:2");
        assert_eq!(talk.cost_us("a:2"), 3_000);
    });
}

#[test]
fn with_default_options_a_sixteenth_of_the_keys_is_measured_by_prefix() {
    let mut fixture = Fixture::new();
    fixture.settings.costs_measured = true;
    fixture.settings.prefix_delimiter = '/';
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    for number in 0..1_000 {
        talk.recompute(&format!("slow/{number}"), 40);
        talk.recompute(&format!("fast/{number}"), 2);
    }
    assert_eq!((talk.cost_us("slow/999"), talk.cost_us("fast/999")), (40_000, 2_000));
    let stats = talk.send("stats cost\r\n");
    assert!(stats.contains("STAT cost measured\r\n"), "{stats}");
    let timed = stats.split("misses_timed ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let timed: u64 =
        timed.expect("stats cost shows misses_timed").parse().expect("misses_timed is a number");
    assert!(
        (75..200).contains(&timed),
        "about a sixteenth of 2,000 misses is measured, not {timed}"
    );
}

#[test]
fn a_client_supplied_cost_wins_and_an_append_keeps_the_cost() {
    with_talk(|mut talk| {
        talk.recompute("a:1", 3);
        talk.send("mg a:2 v\r\n");
        talk.advance_ms(50);
        assert_eq!(talk.send("ms a:2 1 G77\r\nx\r\n"), "HD\r\n");
        assert_eq!(talk.cost_us("a:2"), 77);
        assert_eq!(talk.send("append a:1 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(talk.send("touch a:1 100\r\n"), "TOUCHED\r\n");
        assert_eq!(talk.cost_us("a:1"), 3_000);
    });
}

#[test]
fn a_known_prefix_has_its_own_mean_cost_and_a_new_prefix_the_mean_of_its_class() {
    with_talk(|mut talk| {
        for number in 0..10 {
            talk.recompute(&format!("slow:{number}"), 40);
            talk.recompute(&format!("fast:{number}"), 2);
        }
        assert_eq!((talk.cost_us("slow:9"), talk.cost_us("fast:9")), (40_000, 2_000));
        talk.store("warm:1");
        assert_eq!(
            talk.cost_us("warm:1"),
            21_000,
            "a new prefix gets the mean cost of all measurements in the class"
        );
        talk.store("slow:w");
        assert_eq!(
            talk.cost_us("slow:w"),
            40_000,
            "a store without a miss gets the mean cost of its prefix"
        );
    });
}

#[test]
fn limit_stores_without_misses_have_no_costs() {
    with_talk(|mut talk| {
        for number in 0..100 {
            talk.advance_ms(10);
            talk.store(&format!("a:{number}"));
        }
        assert_eq!(talk.cost_us("a:99"), -1);
    });
}

#[test]
fn limit_each_key_of_a_batch_gets_the_time_of_the_whole_batch() {
    with_talk(|mut talk| {
        talk.send("get a:0 a:1 a:2 a:3\r\n");
        talk.advance_ms(4);
        (0..4).for_each(|number| talk.store(&format!("a:{number}")));
        assert_eq!(talk.cost_us("a:3"), 4_000, "each key gets the time of all four values");
    });
}

#[test]
fn limit_concurrent_misses_are_measured_from_the_first_miss_to_the_first_store() {
    with_talk(|mut talk| {
        talk.send("get a:1\r\n");
        talk.advance_ms(6);
        talk.send("get a:1\r\n");
        talk.advance_ms(4);
        talk.store("a:1");
        assert_eq!(talk.cost_us("a:1"), 10_000);
        talk.advance_ms(6);
        talk.store("a:1");
        assert_eq!(talk.cost_us("a:1"), 10_000, "the second store is not measured");
    });
}

#[test]
fn limit_a_store_after_the_maximum_time_is_not_measured() {
    with_talk(|mut talk| {
        talk.recompute("a:1", WAIT_MS_MAX + 1);
        assert_eq!(talk.cost_us("a:1"), -1);
        assert!(talk.send("stats cost\r\n").contains("STAT misses_stored_late 1\r\n"));
    });
}

#[test]
fn limit_the_cost_of_a_key_includes_other_work_before_its_store() {
    with_talk(|mut talk| {
        talk.send("get a:1\r\n");
        talk.advance_ms(2);
        talk.send("get b:1\r\n");
        talk.advance_ms(30);
        talk.store("b:1");
        talk.store("a:1");
        assert_eq!(talk.cost_us("b:1"), 30_000);
        assert_eq!(
            talk.cost_us("a:1"),
            31_000,
            "the mean of the measurements 30 ms and 32 ms in the class"
        );
    });
}

#[test]
fn without_cost_measured_items_get_no_measured_cost() {
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let mut talk = Talk::new(&fixture, &shared);
    talk.recompute("a:1", 3);
    assert_eq!(talk.cost_us("a:1"), -1);
    assert!(talk.send("stats cost\r\n").contains("STAT cost client\r\n"));
}

/// With measured costs, items that are slow to recompute stay in the cache longer than other items.
#[test]
fn keys_that_are_slow_to_recompute_miss_less_often() {
    let fixture = Fixture::with(|config| config.eviction = EvictionKind::CostBands);
    let shared = measuring(&fixture);
    let mut talk = Talk::new(&fixture, &shared);
    let value = "v".repeat(900);
    let (mut misses, rounds) = ([0, 0], 60_000_u64);
    // There are twice as many keys as items that fit into the cache. The gets are uniformly distributed over the keys.
    // Every fifth key takes 40 ms to recompute, and each other key 1 ms.
    let keys = 2 * fixture.engine.config().memory_limit_bytes / 1_000;
    let mut random = slabwise_base::Random::new(1);
    for round in 0..rounds {
        let number = random.below(keys);
        let is_slow = number.is_multiple_of(5);
        let key = if is_slow { format!("slow:{number}") } else { format!("fast:{number}") };
        if talk.send(&format!("mg {key}\r\n")) == "EN\r\n" {
            misses[usize::from(is_slow)] += u64::from(round > rounds / 2);
            talk.advance_ms(if is_slow { 40 } else { 1 });
            talk.send(&format!("set {key} 0 0 900\r\n{value}\r\n"));
        }
    }
    let [fast, slow] = misses;
    // The other keys are four times as many as the slow keys. If the other keys together have more than 16 times as
    // many misses, a slow key misses less than a quarter as often as another key.
    assert!(slow * 4 * 4 < fast, "{slow} misses of slow keys, {fast} misses of the other keys");
}
