//! Processes that end during an upgrade, at each step.

use super::setup::{HELLO, Items, Peer, Setup, assert_filled, fill};

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
