//! Every policy by its name, with every option that it has.

use crate::options::BadOption;
use crate::{OptionInfo, PagePolicy, Trigger};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn every_policy_takes_its_defaults_and_says_which_they_are() {
    for name in PagePolicy::NAMES {
        let infos = PagePolicy::options(name).expect("it is one of the names");
        let defaults: Vec<(&str, &str)> =
            infos.iter().map(|info| (info.name, info.default.as_str())).collect();
        let made = PagePolicy::with_options(name, &defaults).expect("defaults are allowed");
        assert_eq!(made.name(), name);
        let named = PagePolicy::named(name).expect("it is one of the names");
        assert_eq!(format!("{made:?}"), format!("{named:?}"), "defaults change nothing");
    }
    assert!(PagePolicy::options("clever").is_none());
}

#[test]
fn every_option_can_be_changed_and_its_name_means_the_same_in_every_policy() {
    let mut helps = BTreeMap::new();
    for name in PagePolicy::NAMES {
        let infos = PagePolicy::options(name).expect("it is one of the names");
        let names: BTreeSet<&str> = infos.iter().map(|info| info.name).collect();
        assert_eq!(names.len(), infos.len(), "{name} has no option twice");
        for info in infos {
            // One of them is not the default.
            let set = |value: &str| {
                let text = format!("{name}:{}={value}", info.name);
                PagePolicy::parse(&text).map(|policy| format!("{policy:?}"))
            };
            let default = set(&info.default).expect("the default is allowed");
            let others = ["1", "2", "0.5", "on", "off", "request_time", "distance"].map(set);
            assert!(others.iter().flatten().any(|other| *other != default), "{name} {}", info.name);
            assert_eq!(*helps.entry(info.name).or_insert(info.help), info.help, "{}", info.name);
        }
    }
}

#[test]
fn a_value_is_read_and_set_by_name_and_a_command_may_go_beyond_its_limits() {
    let mut policy = PagePolicy::parse("automove:window_len=30").expect("it is well written");
    assert_eq!(policy.value("window_len").as_deref(), Some("30"));
    assert_eq!(policy.value("misses"), None);
    assert!(policy.set("age_ratio", "1.5").is_err());
    policy.set_beyond_limits("age_ratio", 1.5).expect("it has the option");
    assert_eq!(policy.value("age_ratio").as_deref(), Some("1.5"));
    assert!(policy.set_beyond_limits("misses", 1).is_err());
}

#[test]
fn what_is_asked_for_is_what_the_policy_does() {
    let trigger = |text: &str| PagePolicy::parse(text).expect("it is well written").trigger();
    assert_eq!(trigger("psa:misses=1000000"), Trigger::EveryMisses(1_000_000));
    assert_eq!(trigger("cost_partition:misses=7"), Trigger::EveryMisses(7));
    assert_eq!(trigger("space_time:moves_max=1:period_ticks=9"), Trigger::EveryTicks(9));
    assert_eq!(trigger("twemcache_lra:evictions=5"), Trigger::EveryEvictions(5));
    assert_eq!(trigger("cliffhanger:cliffs=off:shadow_hits=3"), Trigger::EveryShadowHits(3));
    assert_eq!(trigger("psa:misses=2:misses=3"), Trigger::EveryMisses(3), "the last counts");
}

#[test]
fn errors_name_the_value_what_is_allowed_and_so_the_remedy() {
    let error =
        |text: &str| PagePolicy::parse(text).expect_err("it is not well written").to_string();
    let unknown = error("clever:misses=1");
    assert!(unknown.contains("'clever'") && unknown.contains("cliffhanger"), "{unknown}");
    assert_eq!(error("psa:miss=1"), "page policy 'psa' has no option 'miss': choose misses");
    assert_eq!(error("none:misses=1"), "page policy 'none' takes no options: remove 'misses'");
    assert_eq!(error("psa:misses"), "'misses' has no value: write it as option=value");
    assert_eq!(
        error("tail_age:gap_percent=101"),
        "'101' does not suit gap_percent of page policy 'tail_age': give a whole number from 0 to 100"
    );
    assert_eq!(
        error("cliffhanger:cliffs=yes"),
        "'yes' does not suit cliffs of page policy 'cliffhanger': give on or off"
    );
    let random = PagePolicy::parse("twemcache_random:half_life=1");
    let expected = BadOption::UnknownOption {
        policy: "twemcache_random",
        name: "half_life".to_string(),
        known: "evictions, moves_max".to_string(),
    };
    assert_eq!(random.expect_err("it keeps no order"), expected.into());
    assert!(PagePolicy::parse("automove:age_ratio=NaN").is_err());
}

/// What people read.
const DOCUMENT: &str = include_str!("../../../../docs/page-policies.md");

#[test]
fn every_policy_and_every_option_is_in_the_document_as_it_is() {
    let mut expected = Vec::new();
    for name in PagePolicy::NAMES {
        assert!(DOCUMENT.contains(&format!("\n| `{name}` | ")), "{name} has a row of its own");
        for info in PagePolicy::options(name).expect("it is one of the names") {
            let OptionInfo { name: option, values, default, help } = info;
            expected.push(format!("| `{name}` | `{option}` | {values} | {default} | {help} |"));
        }
    }
    let (_, table) = DOCUMENT.split_once("|---|---|---|---|---|\n").expect("there is a table");
    let found: Vec<&str> = table.lines().collect();
    assert_eq!(found, expected, "the rows are to be:\n{}", expected.join("\n"));
}
