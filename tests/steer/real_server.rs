//! `slabwise steer` with a real memcached, if one is installed, and with slabwise.

use super::command::{Files, SOON, Steer};
use crate::support::{Client, Server, built_slabwise, stock_memcached, wait_until};
use rustix::process::Signal;
use slabwise_base::Random;
use std::process::{Command, Stdio};

/// The number of gets that are sent at once.
const BATCH: usize = 200;

/// Returns the mode of the automover.
fn automove(client: &mut Client) -> u64 {
    client.stat_of("stats settings", "slab_automove")
}

/// Sends requests for two classes until the log has a line: each key of the small class is used again after a random time,
/// and no key of the large class is.
fn load_until(client: &mut Client, mut is_done: impl FnMut() -> bool) {
    const ROUNDS_MAX: usize = 2_000;
    /// Their items need more than all memory of the server.
    const SMALL_KEYS: u64 = 20_000;
    let mut random = Random::new(1);
    let (small, large) = (vec![b's'; 1_000], vec![b'l'; 4_000]);
    for round in 0..ROUNDS_MAX {
        for number in 0..BATCH {
            let number = round * BATCH + number;
            let key = format!("small{}", random.below(SMALL_KEYS));
            if client.get(&key).is_none() {
                client.set(&key, &small);
            }
            if number.is_multiple_of(4) {
                client.set(&format!("large{number}"), &large);
            }
        }
        if is_done() {
            return;
        }
    }
    panic!("no page moved in {ROUNDS_MAX} rounds");
}

fn steers_and_restores(server: &Server) {
    let mut client = server.connect();
    let former = automove(&mut client);
    let files = Files::new(server.address());
    let mut steer = files.steer(&[]);
    load_until(&mut client, || steer.count("moved a page") > 0);
    assert_eq!(automove(&mut client), 0);
    steer.send(Signal::KILL);
    steer.end();
    assert_eq!(automove(&mut client), 0);
    let printed = files.restore();
    assert!(printed.contains("restored the automover"), "{printed}");
    assert_eq!(automove(&mut client), former);
    let mut second = files.steer(&[]);
    // The first run has logged the same line.
    wait_until("the second run steers", SOON, || second.count("switched the automover off") == 2);
    assert!(second.stop().success());
    assert_eq!(automove(&mut client), former);
}

/// Returns true if memcached is installed.
fn has_memcached() -> bool {
    let is_installed = Command::new("memcached").arg("-V").stdout(Stdio::null()).status().is_ok();
    if !is_installed {
        eprintln!("skipped: memcached is not installed (apt-get install memcached)");
    }
    is_installed
}

#[test]
fn of_two_steerers_with_own_state_files_one_ends_and_the_mode_is_restored() {
    if !has_memcached() {
        return;
    }
    let server = Server::start(&stock_memcached().with(&["-m", "16"]));
    let mut client = server.connect();
    let former = automove(&mut client);
    let (one, other) = (Files::new(server.address()), Files::new(server.address()));
    let mut steerers = [one.steer(&[]), other.steer(&[])];
    load_until(&mut client, || steerers.iter_mut().any(Steer::has_ended));
    for steer in &mut steerers {
        let lines = steer.count("another steerer has moved") + steer.count("the automover on");
        match steer.has_ended() {
            true => assert_eq!((lines, steer.end().code()), (1, Some(3)), "{:?}", steer.log()),
            // The other one may end when the first one has restored the automover.
            false => steer.send(Signal::TERM),
        }
        steer.end();
    }
    assert_eq!(automove(&mut client), former);
}

#[test]
fn memcached_is_steered_and_restored_after_sigkill() {
    if !has_memcached() {
        return;
    }
    let command = stock_memcached().with(&["-m", "16"]);
    steers_and_restores(&Server::start(&command));
}

#[test]
fn slabwise_is_steered_and_restored_after_sigkill() {
    let command = built_slabwise().with(&["-m", "16", "-o", "preset=memcached"]);
    steers_and_restores(&Server::start(&command));
}
