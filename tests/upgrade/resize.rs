//! Upgrades of a server whose memory limit was changed, and changes of the limit after an upgrade.

use super::setup::{Items, Setup, TIMEOUT, assert_filled, fill};
use crate::support::{Client, Server, wait_until};
use rustix::process::Signal;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;
const ITEMS: usize = 20_000;

/// Returns the memory that the memory file takes, in MiB, rounded down.
fn block_mib(setup: &Setup) -> u64 {
    std::fs::metadata(setup.path("memory")).expect("the file exists").blocks() * 512 / MIB
}

/// Returns the memory that the server's file without a name takes, in MiB, rounded down.
fn nameless_mib(server: &Server) -> u64 {
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.id().as_raw_nonzero()))
        .expect("the process runs");
    let is_arena = |path: &PathBuf| {
        std::fs::read_link(path).is_ok_and(|it| it.to_string_lossy().contains("memfd:slabwise"))
    };
    let arenas = files.map(|file| file.expect("the folder is readable").path()).filter(is_arena);
    let size = |path: PathBuf| std::fs::metadata(path).expect("the file is open").blocks() * 512;
    arenas.map(size).max().expect("the server has a file without a name") / MIB
}

fn set_limit(client: &mut Client, setup: &Setup, items: Items, mib: u64) {
    assert_eq!(client.ask(&format!("cache_memlimit {mib}")), "OK");
    if items == Items::File {
        wait_until("the memory follows the limit", TIMEOUT, || block_mib(setup) == mib);
    }
    assert_eq!(client.ask("debugcheck"), "OK");
}

#[test]
fn a_lower_limit_frees_memory_without_a_name_also_if_it_is_locked() {
    for flags in [&[][..], &["-k"]] {
        for extended in ["", ",drop_privileges"] {
            let setup = Setup::new(Items::Nameless, flags, extended);
            let server = setup.start();
            let mut client = server.connect();
            for number in 0..600 {
                assert_eq!(client.set(&format!("key{number}"), &[b'v'; 100_000]), "STORED");
            }
            let full = nameless_mib(&server);
            assert!(full >= 32, "{full} MiB before");
            assert_eq!(client.ask("cache_memlimit 16"), "OK");
            wait_until("the memory follows the limit", TIMEOUT, || nameless_mib(&server) <= 16);
        }
    }
}

#[test]
fn a_limit_that_an_upgrade_cannot_apply_is_tried_again() {
    let setup = Setup::new(Items::Nameless, &[], "");
    let old = setup.start();
    // A reload reads options only if there is a file of options.
    let conf = setup.path("conf");
    std::fs::write(&conf, "-v\n").expect("the folder is writable");
    let conf = format!("conf_file={}", conf.display());
    // The first process has reserved less address space.
    let new = setup.upgrade_with(&["-m", "1000000", "-o", &conf], "log1");
    ended(old, &setup);
    assert_eq!(new.connect().stat("limit_maxbytes"), 64 * MIB);
    let refusals = || setup.log("log1").matches("the old memory limit stays").count();
    assert_eq!(refusals(), 1, "{}", setup.log("log1"));
    new.signal(Signal::HUP);
    wait_until("the reload tries the limit again", TIMEOUT, || refusals() == 2);
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
