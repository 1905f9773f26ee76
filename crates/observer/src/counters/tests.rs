//! Tests of the counters with replies of memcached, and with damaged replies.

use super::{Counters, LineCounts, ProcessIdentity, QueueCounters};
use crate::settings::Settings;
use slabwise_base::{ClassId, Random, Ticks};
use slabwise_client::{Connection, LINE_LEN_MAX};
use std::io::{self, Cursor, Read, Write};
use std::time::Duration;

const STATS: &str = "STAT pid 7\r\nSTAT uptime 10\r\nSTAT time 110\r\nSTAT cmd_get 50\r\n\
    STAT get_misses 5\r\nSTAT limit_maxbytes 3145728\r\nSTAT slab_reassign_running 1\r\n\
    STAT slabs_moved 4\r\nSTAT slab_global_page_pool 0\r\nEND\r\n";
const SLABS: &str = "STAT 9:chunk_size 600\r\nSTAT 9:chunks_per_page 1747\r\nSTAT 9:total_pages 2\r\n\
    STAT 9:used_chunks 1748\r\nSTAT 9:free_chunks 1746\r\nSTAT 9:get_hits 20\r\nSTAT 9:cmd_set 9\r\n\
    STAT 10:chunk_size 752\r\nSTAT 10:chunks_per_page 1394\r\nSTAT 10:total_pages 1\r\n\
    STAT active_slabs 2\r\nSTAT total_malloced 3145728\r\nEND\r\n";
const ITEMS: &str = "STAT items:9:number 1748\r\nSTAT items:9:number_cold 700\r\nSTAT items:9:age 3\r\n\
    STAT items:9:evicted 8\r\nSTAT items:9:outofmemory 1\r\nSTAT items:9:hits_to_cold 6\r\n\
    STAT items:12:number 1\r\nEND\r\n";

/// A connection whose peer has already sent `replies`.
struct Replies(Cursor<Vec<u8>>);

impl Read for Replies {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Replies {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn replying(replies: &[u8]) -> Connection<Replies> {
    Connection::over(Replies(Cursor::new(replies.to_vec())), LINE_LEN_MAX)
}

fn read(replies: &[u8]) -> Result<Counters, String> {
    Counters::read(&mut replying(replies)).map_err(|error| error.to_string())
}

fn valid() -> String {
    [STATS, SLABS, ITEMS].concat()
}

#[test]
fn the_counters_of_memcached_are_read() {
    let counters = read(valid().as_bytes()).expect("the replies are valid");
    assert_eq!(counters.process, ProcessIdentity { pid: 7, started_at_seconds: 100 });
    assert_eq!((counters.gets, counters.misses, counters.pages_moved), (50, 5, 4));
    assert!(counters.is_moving && counters.is_memory_full());
    let [small, large] = counters.classes[..] else { panic!("two classes own pages") };
    assert_eq!(small.shown.class, ClassId(8));
    assert_eq!(
        (small.shown.pages, small.shown.used_chunks, small.shown.free_chunks),
        (2, 1748, 1746)
    );
    assert_eq!((small.shown.hits, small.shown.sets, small.shown.evicted), (20, 9, 8));
    assert_eq!((small.shown.out_of_memory, small.shown.tail_age_seconds), (1, 3));
    assert_eq!(small.cold, QueueCounters { items: 700, hits: 6 });
    assert_eq!((large.shown.chunk_size_bytes, large.items), (752, 0));
    let snapshot = counters.snapshot(Ticks(64), 1.5);
    assert!(snapshot.memory_full && snapshot.classes.len() == 2 && snapshot.profiles.is_empty());
}

#[test]
fn memory_is_full_when_the_limit_leaves_no_page() {
    let with_room = valid().replace("limit_maxbytes 3145728", "limit_maxbytes 4194304");
    let counters = read(with_room.as_bytes()).expect("the replies are valid");
    assert!(!counters.is_memory_full());
}

#[test]
fn a_process_has_another_identity_after_a_restart() {
    let process = |pid, started_at_seconds| ProcessIdentity { pid, started_at_seconds };
    assert!(process(7, 100).is_same_process(process(7, 101)), "the clock ticked between two rows");
    assert!(!process(7, 100).is_same_process(process(8, 100)));
    assert!(!process(7, 100).is_same_process(process(7, 160)), "a container reuses process ids");
}

#[test]
fn an_error_names_the_command_and_the_row() {
    let cases = [
        ("STAT pid 7", "STAT pid x", "stats: row 'pid' has the value 'x'"),
        ("STAT cmd_get 50\r\n", "", "stats: the reply has no row 'cmd_get'"),
        ("STAT 9:chunk_size 600", "STAT 999:chunk_size 600", "stats slabs: class 999 is not valid"),
        ("STAT 9:chunks_per_page 1747", "STAT 9:other 0", "stats slabs: class 9 has no chunks"),
        (
            "STAT items:9:age 3",
            "STAT items:9:age -3",
            "stats items: row 'items:9:age' has the value",
        ),
        ("STAT active_slabs 2", "garbage", "stats slabs: unexpected line 'garbage'"),
        ("STAT items:12:number 1\r\nEND\r\n", "", "stats items: the server closed the connection"),
        ("STAT pid 7\r\n", "ERROR\r\n", "stats: the server refused the command: ERROR"),
    ];
    for (from, to, expected) in cases {
        let error = read(valid().replacen(from, to, 1).as_bytes()).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn damaged_replies_cause_errors_and_no_panic() {
    let mut random = Random::new(5);
    let mut refused = 0;
    for _ in 0..2_000 {
        let mut bytes = valid().into_bytes();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.truncate(at + 1),
                _ => drop(bytes.drain(at..(at + 9).min(bytes.len()))),
            }
        }
        refused += usize::from(read(&bytes).is_err());
        assert!(Settings::read(&mut replying(&bytes)).is_err(), "no reply begins with VERSION");
    }
    assert!(refused > 500, "most damage is noticed: {refused} of 2,000");
}

#[test]
fn the_counts_for_watchers_are_optional() {
    let found = read(valid().as_bytes()).expect("the replies are valid");
    assert_eq!((found.processor_time, found.lines), (None, None));
    let rows = "STAT rusage_user 1.25\r\nSTAT rusage_system 0.5\r\nSTAT log_worker_dropped 3\r\n\
        STAT log_watcher_skipped 4\r\nSTAT log_worker_written 100\r\nSTAT pid 7\r\n";
    let found = |rows: &str| {
        let replies = valid().replacen("STAT pid 7\r\n", rows, 1);
        let found = read(replies.as_bytes()).expect("the replies are valid");
        (found.processor_time, found.lines)
    };
    let lines = Some(LineCounts { written: 100, dropped: 7 });
    assert_eq!(found(rows), (Some(Duration::from_millis(1_750)), lines));
    for invalid in ["-1", "NaN", "x", "1e99"] {
        assert_eq!(found(&rows.replace("1.25", invalid)), (None, lines), "{invalid}");
    }
    assert_eq!(found(&rows.replace("100", "-1")).1, None);
}

#[test]
fn numbers_that_no_memcached_has_are_refused() {
    let cases = [
        (
            "limit_maxbytes 3145728",
            "limit_maxbytes 1125899906842625",
            "stats: limit_maxbytes is 1125",
        ),
        ("9:total_pages 2", "9:total_pages 1073741825", "stats slabs: total_pages is 1073741825"),
        (
            "items:9:number 1748",
            "items:9:number 18446744073709551615",
            "stats items: number is 184",
        ),
    ];
    for (from, to, reason) in cases {
        assert!(valid().contains(from), "{from}");
        let error = read(valid().replace(from, to).as_bytes()).expect_err(to);
        assert!(error.starts_with(reason) && error.contains("above the limit"), "{error}");
    }
}

#[test]
fn a_memcached_that_moves_values_to_files_says_so() {
    assert!(!read(valid().as_bytes()).expect("the replies are valid").has_storage);
    let general = STATS.replace("STAT pid", "STAT extstore_page_allocs 3\r\nSTAT pid");
    let counters = read([&general, SLABS, ITEMS].concat().as_bytes());
    assert!(counters.expect("the replies are valid").has_storage);
}
