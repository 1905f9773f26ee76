//! Upgrades of a server whose memory limit was changed, and changes of the limit after an upgrade.

use super::setup::{Items, Setup, TIMEOUT, assert_filled, fill};
use crate::support::{Client, Server, wait_until};
use std::os::unix::fs::MetadataExt;

const MIB: u64 = 1 << 20;
const ITEMS: usize = 20_000;

/// Returns the memory that the memory file takes, in MiB, rounded down.
fn block_mib(setup: &Setup) -> u64 {
    std::fs::metadata(setup.path("memory")).expect("the file exists").blocks() * 512 / MIB
}

fn set_limit(client: &mut Client, setup: &Setup, items: Items, mib: u64) {
    assert_eq!(client.ask(&format!("cache_memlimit {mib}")), "OK");
    if items == Items::File {
        wait_until("the memory follows the limit", TIMEOUT, || block_mib(setup) == mib);
    }
    assert_eq!(client.ask("debugcheck"), "OK");
}

fn ended(mut server: Server, setup: &Setup) {
    assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log1"));
}

#[test]
fn the_limit_can_be_changed_before_and_after_an_upgrade() {
    for (items, extended) in [
        (Items::Nameless, ",debug_commands"),
        (Items::File, ",debug_commands"),
        (Items::File, ",debug_commands,drop_privileges"),
    ] {
        for before in [32, 128] {
            let setup = Setup::new(items, &[], extended);
            let old = setup.start();
            let mut client = old.connect();
            fill(&mut client, ITEMS);
            set_limit(&mut client, &setup, items, before);
            let new = setup.upgrade("log1");
            ended(old, &setup);
            let mut client = new.connect();
            assert_filled(&mut client, ITEMS);
            assert_eq!(client.stat("limit_maxbytes"), before * MIB);
            for after in [96, 16, 256] {
                set_limit(&mut client, &setup, items, after);
            }
            assert_filled(&mut client, ITEMS);
            // Another `-m` has another default page size.
            let newest = setup.upgrade_with(&["-m", "512"], "log2");
            ended(new, &setup);
            let mut client = newest.connect();
            assert_eq!(client.stat("limit_maxbytes"), 512 * MIB, "{}", setup.log("log2"));
            assert_filled(&mut client, ITEMS);
            set_limit(&mut client, &setup, items, 24);
        }
    }
}

#[test]
fn a_changed_option_sets_the_limit_and_an_unchanged_one_keeps_it() {
    let setup = Setup::new(Items::Nameless, &[], "");
    let mut server = setup.start();
    for (option, expected) in [("100", 100), ("64", 64), ("64", 80), ("100", 100)] {
        if expected == 80 {
            assert_eq!(server.connect().ask("cache_memlimit 80"), "OK");
        }
        let next = setup.upgrade_with(&["-m", option], "log1");
        ended(server, &setup);
        assert_eq!(next.connect().stat("limit_maxbytes"), expected * MIB, "-m {option}");
        server = next;
    }
}
