//! `stats profile` and `stats plan`.

use crate::background;
use crate::session::testing::{Client, Fixture};
use crate::shared::{BackgroundThread, WakeReason};
use slabwise_policy::PagePolicy;
use slabwise_profile::ProfilerOptions;
use slabwise_tuner::{ProfilingOptions, Tuner, TunerStep, WorkerTime};
use std::time::Duration;

/// Options with which the profiler watches every key.
const ALL_KEYS: ProfilingOptions = ProfilingOptions {
    profiler: ProfilerOptions { keys_max: 10_000, rate_max: 1.0, half_life_references: u64::MAX },
    queue_len_max: 10_000,
    lowers_rate_if_full: false,
};

/// Returns the value of a statistic, if it is in the reply.
pub(super) fn value<'r>(reply: &'r str, name: &str) -> Option<&'r str> {
    let prefix = format!("STAT {name} ");
    reply.lines().find_map(|line| line.strip_prefix(&prefix))
}

/// Returns the value of a statistic as a number.
fn number(reply: &str, name: &str) -> f64 {
    let text =
        value(reply, name).unwrap_or_else(|| panic!("the reply has no statistic {name}: {reply}"));
    text.parse().unwrap_or_else(|_| panic!("the statistic {name} is a number, not {text}"))
}

/// Sends a script and returns the replies.
pub(super) fn ask(client: &mut Client<'_>, script: &str) -> String {
    client.received.clear();
    client.send(script.as_bytes());
    String::from_utf8(client.received.clone()).expect("replies are UTF-8")
}

#[test]
fn stats_report_that_profiling_is_off() {
    let mut fixture = Fixture::new();
    fixture.settings.profiling = None;
    let shared = fixture.shared();
    let mut tuner = background::tuner(&shared, &fixture.clock);
    tuner.set_policy(PagePolicy::none());
    let mut client = Client::new(fixture.worker(&shared));
    assert_eq!(ask(&mut client, "stats profile\r\n"), "STAT profile off\r\nEND\r\n");
    let plan = "STAT page_policy none\r\nSTAT moves_planned 0\r\nEND\r\n";
    assert_eq!(ask(&mut client, "stats plan\r\n"), plan);
}

#[test]
fn stats_profile_shows_a_miss_ratio_curve_for_each_class() {
    let mut fixture = Fixture::new();
    fixture.settings.profiling = Some(ALL_KEYS);
    let shared = fixture.shared();
    let mut tuner = background::tuner(&shared, &fixture.clock);
    let mut client = Client::new(fixture.worker(&shared));
    // 300 keys are never stored. Then a loop reads 100 keys again and again. With LRU and fewer than 100 chunks, all
    // gets of the loop would miss.
    for key in 0..300 {
        ask(&mut client, &format!("get none{key}\r\n"));
    }
    for _ in 0..5 {
        for key in 0..100 {
            let get = format!("get k{key}\r\n");
            if ask(&mut client, &get) == "END\r\n" {
                ask(&mut client, &format!("set k{key} 0 0 5\r\nvalue\r\n"));
            }
            tuner.step(&fixture.engine, WorkerTime::default(), fixture.clock.moment());
        }
    }
    fixture.clock.advance(Duration::from_secs(1));
    tuner.profiling_mut().expect("profiling is on").set_hit_time_us(2.5);
    let before = ask(&mut client, "stats profile\r\n");
    assert_eq!(number(&before, "accesses"), 0.0, "no access is published yet: {before}");
    tuner.step(&fixture.engine, WorkerTime::default(), fixture.clock.moment());
    let reply = ask(&mut client, "stats profile\r\n");
    assert!(reply.starts_with("STAT profile on\r\n") && reply.ends_with("END\r\n"), "{reply}");
    assert_eq!(number(&reply, "sample_rate"), 1.0);
    assert_eq!(number(&reply, "keys"), 400.0);
    assert_eq!(number(&reply, "accesses"), 900.0);
    assert_eq!(number(&reply, "accesses_dropped"), 0.0);
    assert_eq!(number(&reply, "hit_time_us"), 2.5);
    assert_eq!(number(&reply, "references"), 500.0);
    assert_eq!(number(&reply, "unstored_gets"), 300.0);
    assert_eq!(number(&reply, "miss_ratio"), 0.5);
    assert_eq!(number(&reply, "what_if:200"), 0.5);
    let class = reply.lines().find_map(|line| {
        let name = line.strip_prefix("STAT ")?.strip_suffix(":references 500")?;
        name.parse::<u32>().ok()
    });
    let class = class.unwrap_or_else(|| panic!("one class has all 500 references: {reply}"));
    assert_eq!(number(&reply, &format!("{class}:miss_ratio")), 0.2);
    assert_eq!(number(&reply, &format!("{class}:curve:100")), 0.2);
    assert_eq!(number(&reply, &format!("{class}:hits_of_next_page")), 0.0);
    assert_eq!(number(&reply, &format!("{class}:hits_of_last_page")), 400.0);
    let classes = reply.lines().filter(|line| line.contains(":curve:100 ")).count();
    assert_eq!(classes, 1, "only the class with references has a curve");
}

#[test]
fn the_tuner_is_woken_when_its_queue_is_half_full() {
    let mut fixture = Fixture::new();
    fixture.settings.profiling = Some(ProfilingOptions { queue_len_max: 8, ..ALL_KEYS });
    let shared = fixture.shared();
    let mut tuner = background::tuner(&shared, &fixture.clock);
    let mut client = Client::new(fixture.worker(&shared));
    let tuner_is_woken =
        || shared.notifier.wait(BackgroundThread::Tuner, Duration::ZERO) == WakeReason::Notified;
    for _ in 0..3 {
        ask(&mut client, "get a b c\r\n");
        assert!(!tuner_is_woken());
        ask(&mut client, "get d e\r\n");
        assert!(tuner_is_woken());
        tuner.observe(&fixture.engine, fixture.clock.now());
    }
    assert_eq!(tuner.profiling().expect("profiling is on").stats().accesses, 15);
}

#[test]
fn stats_plan_shows_the_last_plan_and_its_effect() {
    let mut fixture = Fixture::with(|config| config.memory_limit_bytes = 1 << 20);
    fixture.settings.profiling = Some(ALL_KEYS);
    let shared = fixture.shared();
    let mut tuner = background::tuner(&shared, &fixture.clock);
    let mut client = Client::new(fixture.worker(&shared));
    let large = "v".repeat(4_000);
    let (engine, clock) = (&fixture.engine, &fixture.clock);
    let step = |tuner: &mut Tuner| loop {
        let step = tuner.step(engine, WorkerTime::default(), clock.moment());
        if matches!(step, TunerStep::Idle { .. }) {
            return;
        }
    };
    for key in 0..300 {
        ask(&mut client, &format!("set large{key} 0 0 4000\r\n{large}\r\n"));
        step(&mut tuner);
    }
    tuner.set_policy(
        PagePolicy::parse("lama:period_gets=2000")
            .expect("the policy's name and parameter are valid"),
    );
    for number in 0..4_000 {
        let key = number % 500;
        if ask(&mut client, &format!("get small{key}\r\n")) == "END\r\n" {
            ask(&mut client, &format!("set small{key} 0 0 99\r\n{}\r\n", &large[..99]));
        }
        clock.advance(Duration::from_millis(1));
        step(&mut tuner);
    }
    let reply = ask(&mut client, "stats plan\r\n");
    assert_eq!(value(&reply, "page_policy"), Some("lama"), "{reply}");
    assert!(number(&reply, "moves_planned") >= number(&reply, "last:moves"), "{reply}");
    assert!(number(&reply, "last:moves") > 0.0, "{reply}");
    assert_eq!(number(&reply, "last:moves"), number(&reply, "last:moves_begun"), "{reply}");
    let decrease = |kind: &str| {
        let value = |when: &str| number(&reply, &format!("last:{kind}_{when}"));
        value("before") - value("after")
    };
    assert!(decrease("predicted") > 100.0, "{reply}");
    assert!(decrease("measured") > 100.0, "{reply}");
    assert!(value(&reply, "last:reason").is_some_and(|reason| !reason.is_empty()), "{reply}");
}
