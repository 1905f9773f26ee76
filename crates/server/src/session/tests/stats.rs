//! `stats` without a subject, and with the subjects that memcached also has.

use crate::config::changeable;
use crate::out::{Out, PENDING_BYTES_MAX};
use crate::session::Session;
use crate::session::testing::{Fixture, check, check_with};
use crate::shared::{Address, ClientState, WorkerContext};

/// The names of the statistics that `stats` shows in memcached 1.6.45, in memcached's order.
const GENERAL: &str = "pid uptime time version libevent pointer_size rusage_user rusage_system \
    max_connections curr_connections total_connections rejected_connections connection_structures \
    response_obj_oom response_obj_count response_obj_bytes read_buf_count read_buf_bytes \
    read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta \
    get_hits get_misses get_expired get_flushed delete_misses delete_hits incr_misses incr_hits \
    decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large \
    store_no_memory auth_cmds auth_errors bytes_read bytes_written limit_maxbytes accepting_conns \
    listen_disabled_num time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes \
    hash_is_expanding slab_reassign_rescues slab_reassign_chunk_rescues \
    slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes \
    slab_reassign_busy_nomem slab_reassign_last_busy_status slab_reassign_running slabs_moved lru_crawler_running \
    lru_crawler_starts lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written \
    log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback \
    bytes curr_items total_items slab_global_page_pool expired_unfetched evicted_unfetched \
    evicted_active evictions reclaimed crawler_reclaimed crawler_items_checked lrutail_reflocked \
    moves_to_cold moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped";

/// Sends a script on a new connection, and returns the replies.
fn ask(fixture: &Fixture, script: &str) -> String {
    String::from_utf8(fixture.talk([script.as_bytes()])).expect("statistics are UTF-8")
}

/// Returns the names of the statistics in a reply.
fn names(reply: &str) -> Vec<&str> {
    let stats = reply.lines().filter_map(|line| line.strip_prefix("STAT "));
    stats.map(|stat| stat.split(' ').next().expect("a STAT line has a name")).collect()
}

#[test]
fn stats_shows_the_names_of_memcached_in_the_same_order() {
    let reply = ask(&Fixture::new(), "stats\r\n");
    assert_eq!(names(&reply), GENERAL.split_whitespace().collect::<Vec<_>>());
    assert!(reply.ends_with("\r\nEND\r\n"));
    assert!(reply.contains("STAT version 1.6.45\r\n"));
    assert!(reply.contains("STAT uptime 0\r\n"));
}

#[test]
fn stats_locks_counts_the_locks_since_the_last_reset() {
    let script = "set key 0 0 1\r\nx\r\nstats locks\r\n";
    let reply = ask(&Fixture::new(), script);
    let has = |reply: &str, line: &str| reply.contains(&format!("STAT {line}\r\n"));
    assert!(has(&reply, "stripe:taken 1") && has(&reply, "class:locks 1"), "{reply}");
    assert!(!has(&reply, "class:taken 0") && !has(&reply, "page_pool:taken 0"), "{reply}");
    assert!(has(&reply, "class:contended 0") && has(&reply, "mover:wait_ns 0"), "{reply}");
    assert_eq!(names(&reply).len(), 28, "seven rows for each of four kinds");

    let script = "set key 0 0 1\r\nx\r\nstats reset\r\nget key\r\nstats locks\r\n";
    let reply = ask(&Fixture::new(), script);
    assert!(has(&reply, "stripe:taken 1") && has(&reply, "stripe:busiest_taken 1"), "{reply}");
    assert!(has(&reply, "class:taken 0") && has(&reply, "page_pool:taken 0"), "{reply}");
}

#[test]
fn stats_settings_shows_a_verbosity_that_a_command_changed() {
    let script = "verbosity 9\r\nstats settings\r\n";
    let reply = ask(&Fixture::new(), script);
    assert!(reply.starts_with("OK\r\nSTAT "), "{reply}");
    assert!(reply.contains("STAT verbosity 2\r\n"), "{reply}");
    assert!(reply.ends_with("END\r\n"));
}

#[test]
fn stats_with_a_subject_replies_as_in_memcached() {
    check(
        "> stats foo
         < ERROR
         > stats noreply
         < ERROR
         > stats items
         < END
         > stats sizes
         < STAT sizes_status disabled
         < END
         > stats sizes_enable
         < STAT sizes_status enabled
         > stats sizes
         < END
         > stats sizes_disable
         < STAT sizes_status disabled
         > stats conns
         < END
         > stats reset
         < RESET
         > stats cachedump
         < CLIENT_ERROR bad command line
         > stats cachedump 1
         < CLIENT_ERROR bad command line
         > stats cachedump x 0
         < CLIENT_ERROR bad command line format
         > stats cachedump 99 0
         < CLIENT_ERROR Illegal slab id
         > stats cachedump 0 0
         < END
         > stats cachedump 1 1
         < END",
    );
}

#[test]
fn requests_are_counted_by_prefix_while_stats_detail_is_on() {
    check(
        "> get a:b
         < END
         > stats detail
         < CLIENT_ERROR usage: stats detail on|off|dump
         > stats detail x
         < CLIENT_ERROR usage: stats detail on|off|dump
         > stats detail on
         < OK
         > set a:b 0 0 1
         > x
         < STORED
         > set a:b 0 0 1
         > xyz
         < CLIENT_ERROR bad data chunk
         < CLIENT_ERROR bad command line format
         > get a:b a:c none
         < VALUE a:b 0 1
         < x
         < END
         > delete a:b
         < DELETED
         > stats detail dump
         < PREFIX a get 2 hit 1 set 2 del 1
         < END
         > stats detail off
         < OK
         > get a:b
         < END
         > stats detail dump
         < PREFIX a get 2 hit 1 set 2 del 1
         < END
         > stats reset
         < RESET
         > stats detail dump
         < END",
    );
}

#[test]
fn prefixes_are_not_shown_if_dumps_are_disabled() {
    check_with(
        |settings| settings.dump_enabled = false,
        "> stats detail dump
         < CLIENT_ERROR stats detail not allowed
         > stats detail
         < CLIENT_ERROR stats detail not allowed",
    );
}

#[test]
fn stats_sizes_counts_items_in_bins_of_32_bytes() {
    let fixture = Fixture::new();
    let reply = ask(&fixture, "stats sizes_enable\r\nset a 0 0 100\r\n");
    assert_eq!(reply, "STAT sizes_status enabled\r\n");
    let script = format!(
        "stats sizes_enable\r\nset a 0 0 100\r\n{0}\r\nset b 0 0 100\r\n{0}\r\nstats sizes\r\n",
        "x".repeat(100)
    );
    let reply = ask(&fixture, &script);
    assert!(reply.ends_with("STAT 160 2\r\nEND\r\n"), "{reply}");
}

/// Returns the reply up to `END`, for a client that reads only after the session has stopped writing.
fn read_late(worker: &mut WorkerContext<'_>, request: &str) -> String {
    let (mut session, mut out) = (Session::default(), Out::default());
    let mut input = request.as_bytes();
    let mut received = Vec::new();
    while !received.ends_with(b"END\r\n") {
        let pending_bytes = out.pending_bytes();
        let progress = session.consume(worker, input, &mut out);
        input = &input[progress.consumed..];
        assert!(
            out.pending_bytes() < 2 * PENDING_BYTES_MAX,
            "{} bytes of output",
            out.pending_bytes()
        );
        if out.pending_bytes() == pending_bytes {
            received.extend(out.drain());
        }
    }
    String::from_utf8(received).expect("the replies to this test are UTF-8")
}

#[test]
fn stats_conns_lists_each_of_many_connections_once() {
    const CONNECTIONS: i32 = 20_000;
    let fixture = Fixture::new();
    let shared = fixture.shared();
    let address = || Address::Unix("/".repeat(100).into());
    let now = fixture.clock.now().seconds;
    for descriptor in 0..CONNECTIONS {
        fixture.connection_table.add(
            descriptor,
            address(),
            Some(address()),
            ClientState::Reading,
            now,
        );
    }
    let text = read_late(&mut fixture.worker(&shared), "stats conns\r\n");
    let states = text.lines().filter(|line| line.ends_with(":state conn_read"));
    for (number, line) in states.enumerate() {
        assert_eq!(line, format!("STAT {number}:state conn_read"));
    }
    assert_eq!(text.lines().count(), 4 * CONNECTIONS as usize + 1);
}

#[test]
fn a_dump_lists_each_of_many_prefixes_once() {
    const PREFIXES: usize = 20_000;
    let fixture = Fixture::new();
    let shared = fixture.shared();
    shared.key_observers.set_counts_prefixes(true);
    for number in 0..PREFIXES {
        shared.prefixes.record_set(format!("{number:05}{}:key", "p".repeat(200)).as_bytes());
    }
    let text = read_late(&mut fixture.worker(&shared), "stats detail dump\r\n");
    for (number, line) in text.lines().take(PREFIXES).enumerate() {
        assert!(line.starts_with(&format!("PREFIX {number:05}p")), "{line}");
    }
    assert_eq!(text.lines().count(), PREFIXES + 1);
}

#[test]
fn a_command_that_changes_a_setting_changes_its_line_in_stats_settings() {
    for (name, command) in changeable() {
        let fixture = Fixture::new();
        let line_after = |script: String| {
            let replies =
                String::from_utf8(fixture.talk([script.as_bytes()])).expect("replies are UTF-8");
            let line = replies.lines().find(|line| line.starts_with(&format!("STAT {name} ")));
            line.unwrap_or_else(|| panic!("stats settings does not show {name}: {replies}"))
                .to_owned()
        };
        let before = line_after("stats settings\r\n".to_owned());
        let after = line_after(format!("{command}\r\nstats settings\r\n"));
        assert_ne!(before, after, "{command}");
    }
}
