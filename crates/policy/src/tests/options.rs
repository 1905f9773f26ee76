//! Tests of the options of all policies.

use crate::options::{BadOption, FORMER_NAMES};
use crate::{OptionInfo, PagePolicy, Trigger};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn every_policy_accepts_the_defaults_it_reports() {
    for name in PagePolicy::NAMES {
        let infos = PagePolicy::options(name).expect("the name is in PagePolicy::NAMES");
        let defaults: Vec<(&str, &str)> =
            infos.iter().map(|info| (info.name, info.default.as_str())).collect();
        let made = PagePolicy::with_options(name, &defaults).expect("defaults are allowed");
        assert_eq!(made.name(), name);
        let named = PagePolicy::named(name).expect("the name is in PagePolicy::NAMES");
        assert_eq!(format!("{made:?}"), format!("{named:?}"), "default values change no option");
    }
    assert!(PagePolicy::options("clever").is_none());
}

#[test]
fn every_option_can_be_changed_and_has_the_same_help_in_all_policies() {
    let mut helps = BTreeMap::new();
    for name in PagePolicy::NAMES {
        let infos = PagePolicy::options(name).expect("the name is in PagePolicy::NAMES");
        let names: BTreeSet<&str> = infos.iter().map(|info| info.name).collect();
        assert_eq!(names.len(), infos.len(), "policy {name}: the names of its options differ");
        for info in infos {
            // At least one of these values is not the default.
            let set = |value: &str| {
                let text = format!("{name}:{}={value}", info.name);
                PagePolicy::parse(&text).map(|policy| format!("{policy:?}"))
            };
            let default = set(&info.default).expect("the default is allowed");
            let others = ["1", "2", "0.5", "on", "off", "request_time", "distance"].map(set);
            let changes = others.iter().flatten().any(|other| *other != default);
            assert!(changes, "policy {name}: another value changes option {}", info.name);
            let help = *helps.entry(info.name).or_insert(info.help);
            assert_eq!(help, info.help, "option {} has one help text", info.name);
        }
    }
}

#[test]
fn options_are_read_and_set_by_name_and_limits_can_be_waived() {
    let mut policy = PagePolicy::parse("automove:window_len=30").expect("the text is valid");
    assert_eq!(policy.value("window_len").as_deref(), Some("30"));
    assert_eq!(policy.value("misses"), None);
    assert!(policy.set("age_ratio", "1.5").is_err());
    policy.set_beyond_limits("age_ratio", 1.5).expect("automove has the option age_ratio");
    assert_eq!(policy.value("age_ratio").as_deref(), Some("1.5"));
    assert!(policy.set_beyond_limits("misses", 1).is_err());
}

#[test]
fn former_names_set_the_current_options() {
    let former = "marginal:look_gets=9:gain_sure=0.2:move_price=0.3:item_price=0.4";
    let current = "marginal:evaluate_gets=9:gain_certain=0.2:move_cost=0.3:item_cost=0.4";
    let texts = [
        (former, current),
        ("reserved_cost:fall=0.2", "reserved_cost:hit_ratio_drop=0.2"),
        ("tail_age:hold_ticks=3:gap_percent=4", "tail_age:cooldown_ticks=3:tolerance_percent=4"),
    ];
    for (former, current) in texts {
        let parsed = |text| format!("{:?}", PagePolicy::parse(text).expect("the text is valid"));
        assert_eq!(parsed(former), parsed(current));
    }
    assert_eq!(PagePolicy::current_name("fall"), Some("hit_ratio_drop"));
    assert_eq!(PagePolicy::current_name("hit_ratio_drop"), None);
    let known = |option| PagePolicy::NAMES.iter().any(|name| has(name, option));
    for (former, current) in FORMER_NAMES {
        assert!(
            known(current) && !known(former),
            "only the current name {current} is an option, not {former}"
        );
    }
}

fn has(policy: &str, option: &str) -> bool {
    let infos = PagePolicy::options(policy).expect("the name is in PagePolicy::NAMES");
    infos.iter().any(|info| info.name == option)
}

#[test]
fn options_take_effect_in_the_policy() {
    let trigger = |text: &str| PagePolicy::parse(text).expect("the text is valid").trigger();
    assert_eq!(trigger("psa:misses=1000000"), Trigger::EveryMisses(1_000_000));
    assert_eq!(trigger("cost_partition:misses=7"), Trigger::EveryMisses(7));
    let by_work = Trigger::EveryWork { gets: 7, memory_divisor: 9 };
    assert_eq!(trigger("space_time:moves_max=1:period_divisor=9:period_gets=7"), by_work);
    assert_eq!(trigger("reserved_cost:period_ticks=9"), Trigger::EveryTicks(9));
    assert_eq!(trigger("twemcache_lra:evictions=5"), Trigger::EveryEvictions(5));
    // Partitions earn credits only if the pointers divide the queues.
    let with_partitions = Trigger::EveryShadowHitsWithPartitions(3);
    assert_eq!(trigger("cliffhanger:shadow_hits=3"), with_partitions);
    assert_eq!(trigger("cliffhanger:cliffs=off:shadow_hits=3"), Trigger::EveryShadowHits(3));
    assert_eq!(trigger("cliffhanger:cliffs=curve:shadow_hits=3"), Trigger::EveryShadowHits(3));
    assert_eq!(trigger("psa:misses=2:misses=3"), Trigger::EveryMisses(3), "the last value is used");
}

#[test]
fn errors_name_the_value_and_the_remedy() {
    let error =
        |text: &str| PagePolicy::parse(text).expect_err("the text is not valid").to_string();
    let unknown = error("clever:misses=1");
    assert!(
        unknown.contains("'clever'") && unknown.contains("cliffhanger"),
        "the error names the value and the policies: {unknown}"
    );
    assert_eq!(error("psa:miss=1"), "page policy 'psa' has no option 'miss': choose one of misses");
    assert_eq!(error("none:misses=1"), "page policy 'none' has no options: remove 'misses'");
    assert_eq!(error("psa:misses"), "'misses' has no value: write it as option=value");
    assert_eq!(
        error("tail_age:tolerance_percent=101"),
        "page policy 'tail_age': tolerance_percent=101 is not valid: give a whole number from 0 to 100"
    );
    assert_eq!(
        error("cliffhanger:cliffs=yes"),
        "page policy 'cliffhanger': cliffs=yes is not valid: give on or curve or off"
    );
    let random = PagePolicy::parse("twemcache_random:half_life=1");
    let expected = BadOption::UnknownOption {
        policy: "twemcache_random",
        name: "half_life".to_string(),
        known: "evictions, moves_max".to_string(),
    };
    assert_eq!(random.expect_err("twemcache_random has no option half_life"), expected.into());
    assert!(PagePolicy::parse("automove:age_ratio=NaN").is_err());
}

/// The text of the document that lists all policies and options.
const DOCUMENT: &str = include_str!("../../../../docs/page-policies.md");

#[test]
fn the_document_lists_every_policy_and_option() {
    let mut expected = Vec::new();
    for name in PagePolicy::NAMES {
        assert!(DOCUMENT.contains(&format!("\n| `{name}` | ")), "policy {name} has a row");
        for info in PagePolicy::options(name).expect("the name is in PagePolicy::NAMES") {
            let OptionInfo { name: option, values, default, help } = info;
            expected.push(format!("| `{name}` | `{option}` | {values} | {default} | {help} |"));
        }
    }
    let (_, table) = DOCUMENT
        .split_once("|---|---|---|---|---|\n")
        .expect("the document has a table of options");
    let found: Vec<&str> = table.lines().collect();
    assert_eq!(
        found,
        expected,
        "the rows of the table of options must be:\n{}",
        expected.join("\n")
    );
}
