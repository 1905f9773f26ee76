//! `stats sizes_plan`, and the commands that start and stop the learning of the class table.

use super::profile::{ask, value};
use crate::background;
use crate::session::testing::{Client, Fixture};
use slabwise_tuner::{TunerStep, WorkerTime};
use std::time::Duration;

#[test]
fn a_class_table_is_learned_until_a_command_sets_one() {
    let mut fixture = Fixture::new();
    fixture.settings.tunables.set_learns_classes = true;
    fixture.settings.profiling = None;
    let shared = fixture.shared();
    let mut tuner = background::tuner(&shared, &fixture.clock);
    let mut client = Client::new(fixture.worker(&shared));
    let mut run_one_second = || {
        fixture.clock.advance(Duration::from_secs(1));
        background::follow_learning(&shared, &mut tuner);
        for _ in 0..10_000 {
            let step = tuner.step(&fixture.engine, WorkerTime::default(), fixture.clock.moment());
            if matches!(step, TunerStep::Idle { .. }) {
                return;
            }
        }
        panic!("the tuner does not become idle within 10,000 steps");
    };
    run_one_second();
    let reply = ask(&mut client, "stats sizes_plan\r\n");
    let current =
        value(&reply, "current").expect("the reply shows the current class table").to_owned();
    assert_eq!(value(&reply, "evaluation:waits_for"), Some("more items: 0 of 1000"), "{reply}");
    // Each item has 1,037 bytes. A page has fifteen chunks of the learned size, 1,088 bytes, but only fourteen
    // chunks of the size that the class table at the start has for these items.
    let value_bytes = "v".repeat(1_000);
    for key in 0..4_000 {
        ask(&mut client, &format!("set key-{key:04} 0 0 1000\r\n{value_bytes}\r\n"));
    }
    run_one_second();
    let reply = ask(&mut client, "stats sizes_plan\r\n");
    assert_eq!(value(&reply, "classes"), Some("learned"));
    assert_eq!(value(&reply, "changes"), Some("1"), "{reply}");
    assert_eq!(value(&reply, "last_change:age"), Some("0"));
    let lost_bytes = |name| value(&reply, name).and_then(|text| text.parse::<u64>().ok());
    assert!(
        lost_bytes("current:lost") > lost_bytes("best:lost").map(|bytes| 2 * bytes),
        "the old class table wastes more than twice the bytes of the learned one: {reply}"
    );
    assert_eq!(value(&reply, "current:lost_in_chains"), Some("0"));
    let learned = ask(&mut client, "slabs classes\r\n");
    assert_ne!(learned.trim(), format!("CLASSES {current}"));
    assert_eq!(
        value(&reply, "current").map(|current| format!("CLASSES {current}\r\n")),
        Some(learned)
    );
    fixture.engine.check();

    // A command with an invalid class table changes nothing. After a command with a valid class table, the server
    // learns no class table until `slabs classes learned`.
    assert!(ask(&mut client, "slabs classes 96-96\r\n").starts_with("CLIENT_ERROR"));
    assert!(ask(&mut client, "stats sizes_plan\r\n").starts_with("STAT classes learned\r\n"));
    assert_eq!(ask(&mut client, "slabs classes 96-1200\r\n"), "OK\r\n");
    run_one_second();
    let reply = ask(&mut client, "stats sizes_plan\r\n");
    assert!(reply.starts_with("STAT classes fixed\r\nSTAT current 96-1200-"), "{reply}");
    assert_eq!(value(&reply, "changes"), None);
    assert_eq!(ask(&mut client, "slabs classes learned\r\n"), "OK\r\n");
    run_one_second();
    let reply = ask(&mut client, "stats sizes_plan\r\n");
    assert_eq!(value(&reply, "changes"), Some("1"), "{reply}");
}

#[test]
fn learning_is_refused_if_page_moves_are_disabled() {
    let mut fixture = Fixture::new();
    fixture.settings.reassign_enabled = false;
    let replies = fixture.talk([b"slabs classes learned\r\n".as_slice()]);
    let replies = String::from_utf8(replies).expect("replies are UTF-8");
    assert!(
        replies.starts_with("CLIENT_ERROR") || replies.starts_with("SERVER_ERROR"),
        "{replies}"
    );
}
