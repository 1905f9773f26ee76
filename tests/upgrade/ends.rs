//! Processes that end during an upgrade, at each step.

use super::setup::{HELLO, Items, Peer, Setup, assert_filled, fill};
use rustix::process::Signal;

#[test]
fn the_old_process_serves_on_if_the_new_one_ends_at_any_step_before_it_takes_over() {
    for items in [Items::Nameless, Items::File] {
        let setup = Setup::new(items, &[], ",drop_privileges,debug_commands");
        let mut server = setup.start();
        let mut client = server.connect();
        fill(&mut client, 500);
        for step in 0..6 {
            let peer = Peer::connect(&setup);
            let mut kept = Vec::new();
            for (number, (message, reply)) in [
                (HELLO, "offer"),
                ("", "socket"),
                ("", "memory"),
                ("collect\n", "connections"),
                ("", "state"),
            ]
            .into_iter()
            .enumerate()
            {
                if number >= step {
                    break;
                }
                if !message.is_empty() {
                    peer.send(message);
                }
                kept.push(peer.receive(reply));
            }
            drop(peer);
            drop(kept);
            assert_filled(&mut client, 500);
            assert_eq!(client.set("after", step.to_string().as_bytes()), "STORED");
            assert_eq!(client.ask("debugcheck"), "OK", "step {step}");
            assert_eq!(server.connect().get("after"), Some(step.to_string().into_bytes()));
        }
        let next = setup.upgrade("log1");
        assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
        assert_filled(&mut next.connect(), 500);
    }
}

#[test]
fn a_new_process_that_ends_after_it_took_over_leaves_no_process() {
    let setup = Setup::new(Items::Nameless, &[], "");
    let mut server = setup.start();
    let peer = Peer::connect(&setup);
    peer.send(HELLO);
    peer.receive("memory");
    peer.send("collect\n");
    peer.receive("state");
    peer.send("ready\n");
    peer.receive("take");
    drop(peer);
    assert_eq!(server.wait_for_end(), Some(1), "the service manager starts it again");
    assert!(setup.log("log").contains("does not serve"), "{}", setup.log("log"));
    let server = setup.start();
    assert_eq!(server.connect().get("key0"), None, "the cache is empty");
}

#[test]
fn a_killed_old_process_leaves_one_that_serves_or_an_end() {
    for items in [Items::Nameless, Items::File] {
        let setup = Setup::new(items, &[], "");
        let mut server = setup.start();
        let mut client = server.connect();
        fill(&mut client, 5_000);
        drop(client);
        let address = server.address();
        let mut new = setup.spawn_upgrade(&[], "log1");
        server.signal(Signal::KILL);
        server.wait_for_signal();
        match crate::support::wait_until_some(super::setup::TIMEOUT, || {
            let ended = new.try_wait().expect("the child is ours");
            let serves = setup.path("ports").exists();
            ended.map(Some).or(serves.then_some(None))
        }) {
            Some(status) => {
                println!("{items:?}: the new process ended: {status}");
                assert!(!status.success());
            }
            None => {
                println!("{items:?}: the new process serves");
                assert_filled(&mut crate::support::Client::connect(address), 5_000);
                new.kill().expect("the child is ours");
                new.wait().expect("the child is ours");
            }
        }
    }
}
