//! Changes of the memory limit of a server with a memory file, and restarts with another `-m`: the blocks of the file, the
//! items, and the statistics.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::refused_calls::with_refused_calls;
use crate::support::{Client, wait_until};
use nix::libc;

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
/// The number of items that more than fill the cache. Item number n has a value of this length.
const ITEMS: usize = 10_000;

/// Returns the memory that the file takes on its RAM disk, in MiB, rounded down. The last block holds no page.
fn block_mib(file: &MemoryFile) -> u64 {
    std::fs::metadata(file.path()).expect("the file exists").blocks() * 512 / MIB
}

fn value(number: usize) -> Vec<u8> {
    number.to_string().repeat(2_000).into_bytes()
}

fn fill(client: &mut Client) {
    for number in 0..ITEMS {
        assert_eq!(client.set(&format!("key{number}"), &value(number)), "STORED");
    }
}

/// Returns the number of items that are left. Fails if a value is wrong.
fn count_items(client: &mut Client) -> usize {
    let found = |number: &usize| {
        let found = client.get(&format!("key{number}"));
        assert!(found.as_ref().is_none_or(|it| *it == value(*number)), "key{number} has its value");
        found.is_some()
    };
    (0..ITEMS).filter(found).count()
}

/// Sets the memory limit, and waits until the file takes as much memory.
fn set_limit(client: &mut Client, file: &MemoryFile, mib: u64) {
    assert_eq!(client.ask(&format!("cache_memlimit {mib}")), "OK");
    assert_eq!(client.stat("limit_maxbytes"), mib * MIB);
    assert!(block_mib(file) >= mib, "a higher limit has its memory before the reply");
    wait_until("the file takes as much memory as the limit", DEADLINE, || block_mib(file) == mib);
    assert_eq!(client.ask("debugcheck"), "OK");
}

fn model_total(client: &mut Client) -> u64 {
    client.stat_of("stats memory", "model_total_bytes")
}

#[test]
fn the_memory_of_the_file_follows_the_limit_down_and_up() {
    for flags in [&["-o", "debug_commands"][..], &["-k", "-o", "debug_commands"]] {
        let file = MemoryFile::new();
        let server = file.start(&[&["-m", "64"], flags].concat());
        let mut client = server.connect();
        fill(&mut client);
        let (full, model) = (count_items(&mut client), model_total(&mut client));
        set_limit(&mut client, &file, 32);
        let half = count_items(&mut client);
        assert!(half < full && half > full / 3, "{half} of {full} items are left");
        assert!(model_total(&mut client) < model - 31 * MIB, "the model follows the limit");
        set_limit(&mut client, &file, 128);
        assert_eq!(count_items(&mut client), half, "no item is lost or returns");
        fill(&mut client);
        assert!(count_items(&mut client) > full, "the new memory is used");
        set_limit(&mut client, &file, 64);
    }
}

#[test]
fn a_restart_with_another_memory_limit_is_warm() {
    // The default page size of these limits differs, and that of the saved items stays.
    for (first, command, second) in
        [("64", None, "32"), ("64", None, "256"), ("128", Some(64), "64"), ("64", Some(128), "128")]
    {
        let file = MemoryFile::new();
        let server = file.start(&["-m", first]);
        let mut client = server.connect();
        fill(&mut client);
        if let Some(mib) = command {
            assert_eq!(client.ask(&format!("cache_memlimit {mib}")), "OK");
            wait_until("the memory follows", DEADLINE, || block_mib(&file) == mib);
        }
        let items = count_items(&mut client);
        stop_gracefully(server);

        let server = file.start(&["-m", second, "-o", "debug_commands"]);
        let mut client = server.connect();
        assert!(file.log().contains(&format!("restored {items} items")), "{}", file.log());
        let mib: u64 = second.parse().expect("a number");
        wait_until("the memory follows -m", DEADLINE, || block_mib(&file) == mib);
        assert_eq!(client.stat("limit_maxbytes"), mib * MIB);
        assert_eq!(client.ask("debugcheck"), "OK");
        let left = count_items(&mut client);
        let is_smaller = mib < command.unwrap_or(first.parse().expect("a number"));
        assert!(if is_smaller { left > items / 3 && left < items } else { left == items });
        fill(&mut client);
        set_limit(&mut client, &file, 48);
    }
}

#[test]
fn a_file_system_without_holes_keeps_the_memory_and_the_server_says_so() {
    let file = MemoryFile::new();
    let flags = ["-m", "64", "-o", "debug_commands"];
    let start =
        || with_refused_calls(&[libc::SYS_fallocate], libc::EOPNOTSUPP, || file.start(&flags));
    let server = start();
    let mut client = server.connect();
    fill(&mut client);
    let (full, model) = (count_items(&mut client), model_total(&mut client));
    assert_eq!(client.ask("cache_memlimit 32"), "OK");
    let log = file.log();
    assert!(log.contains("now 32 (MiB), but the memory file keeps 64 MiB"), "{log}");
    wait_until("the cache is within the limit", DEADLINE, || {
        client.stat_of("stats slabs", "total_malloced") <= 32 * MIB
    });
    assert_eq!((block_mib(&file), model_total(&mut client)), (64, model));
    let half = count_items(&mut client);
    assert!(half < full && half > full / 3, "{half} of {full} items are left");
    assert_eq!(client.ask("cache_memlimit 96"), "OK");
    assert_eq!(block_mib(&file), 96);
    fill(&mut client);
    assert_eq!(client.ask("debugcheck"), "OK");
    let items = count_items(&mut client);
    assert!(items > full, "the new memory is used");
    stop_gracefully(server);
    // The next start also restores the items in such a file.
    let server = start();
    let mut client = server.connect();
    assert!(file.log().contains(&format!("restored {items} items")), "{}", file.log());
    wait_until("the cache is within -m", DEADLINE, || {
        client.stat_of("stats slabs", "total_malloced") <= 64 * MIB
    });
    fill(&mut client);
    assert_eq!(client.ask("debugcheck"), "OK");
}
