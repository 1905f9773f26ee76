//! A process is killed before each message of an upgrade: the old one, and the new one.

use super::relay::{Action, RelayedUpgrade};
use super::setup::{Items, TIMEOUT, assert_filled};
use crate::support::{Client, wait_until};
use rustix::process::Signal;

const ITEMS: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Old,
    New,
}

/// What must follow when a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The old process serves on, with all items.
    OldServes,
    /// The new process serves, with all items.
    NewServes,
    /// The other process ends, too, and reports a failure. The service manager then starts an empty server.
    Neither,
}

/// Returns the first line of a message, which is its name.
fn name(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns what must follow if `victim` is killed when the message `name` has been sent but not received.
fn expected(victim: Victim, name: &str) -> Expected {
    match (victim, name) {
        // The old process has sent `take`, so it serves no more.
        (Victim::New, "take" | "serving") => Expected::Neither,
        (Victim::New, _) => Expected::OldServes,
        // The new process has the state, and no thread of the old process runs any more.
        (Victim::Old, "ready" | "take" | "serving") => Expected::NewServes,
        (Victim::Old, _) => Expected::Neither,
    }
}

/// Returns the names of all messages of an upgrade, in order.
fn message_names(items: Items) -> Vec<String> {
    let RelayedUpgrade { setup, mut server, client: _idle, mut new, relay } =
        RelayedUpgrade::begin(items, ITEMS);
    let mut names = Vec::new();
    relay.run(|text| {
        names.push(name(text));
        Action::Forward
    });
    drop(relay);
    assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
    new.kill().expect("the child is ours");
    new.wait().expect("the child is ours");
    names
}

/// Kills a process before the message with this index, and checks what follows.
fn kill_before(items: Items, victim: Victim, index: usize) -> Expected {
    let RelayedUpgrade { setup, mut server, mut client, mut new, relay } =
        RelayedUpgrade::begin(items, ITEMS);
    let (mut count, mut stopped_at) = (0, String::new());
    let is_stopped = relay.run(|text| {
        count += 1;
        if count <= index {
            return Action::Forward;
        }
        stopped_at = name(text);
        Action::Stop
    });
    assert!(is_stopped, "{items:?}, message {index}: {}", setup.log("log1"));
    let expected = expected(victim, &stopped_at);
    println!("{items:?}: the {victim:?} process is killed before {stopped_at}: {expected:?}");
    match victim {
        Victim::Old => {
            server.signal(Signal::KILL);
            server.wait_for_signal();
        }
        Victim::New => {
            new.kill().expect("the child is ours");
            new.wait().expect("the child is ours");
        }
    }
    // The kernel closes the channel of a process that ends. The relay does so, too.
    drop(relay);
    match expected {
        Expected::OldServes => {
            assert_filled(&mut client, ITEMS);
            assert_eq!(client.set("after", b"1"), "STORED");
            assert_eq!(client.ask("debugcheck"), "OK");
            let next = setup.upgrade("log2");
            assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
            assert_filled(&mut next.connect(), ITEMS);
        }
        Expected::NewServes => {
            wait_until("the new process serves", TIMEOUT, || setup.path("ports").exists());
            let mut client = Client::connect(server.address());
            assert_filled(&mut client, ITEMS);
            assert_eq!(client.ask("debugcheck"), "OK");
            new.kill().expect("the child is ours");
            new.wait().expect("the child is ours");
        }
        Expected::Neither => {
            let is_success = match victim {
                Victim::Old => new.wait().expect("the child is ours").success(),
                Victim::New => server.wait_for_end() == Some(0),
            };
            assert!(!is_success, "{}, {}", setup.log("log"), setup.log("log1"));
            // A start with the file of an upgrade that failed, or without one, has an empty cache.
            assert_eq!(setup.start().connect().get("key0"), None);
        }
    }
    expected
}

fn check(items: Items, victim: Victim) {
    let names = message_names(items);
    for name in ["hello", "offer", "socket", "memory", "collect", "connections", "state", "ready"] {
        assert!(names.iter().any(|it| it == name), "{names:?} has {name}");
    }
    let outcomes: Vec<Expected> =
        (0..names.len()).map(|index| kill_before(items, victim, index)).collect();
    let has = |wanted| outcomes.contains(&wanted);
    match victim {
        Victim::New => assert!(has(Expected::OldServes) && has(Expected::Neither), "{outcomes:?}"),
        Victim::Old => assert!(has(Expected::NewServes) && has(Expected::Neither), "{outcomes:?}"),
    }
}

#[test]
fn the_old_process_serves_on_if_the_new_one_is_killed_before_any_message_up_to_take() {
    check(Items::Nameless, Victim::New);
}

#[test]
fn the_new_process_serves_or_ends_if_the_old_one_is_killed_before_any_message() {
    check(Items::Nameless, Victim::Old);
}

#[test]
fn a_process_with_a_memory_file_is_killed_before_any_message() {
    check(Items::File, Victim::New);
    check(Items::File, Victim::Old);
}
