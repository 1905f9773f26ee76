//! `slabwise steer` against a scripted server, and against memcached. Each test checks that the settings of the server end
//! as they were.

mod command;
mod fake;
mod real_server;
mod take_over;
mod unit;

use crate::support::wait_until;
use command::{Files, SOON};
use fake::{Fake, Fault};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn pages_move_to_the_class_with_hits_in_cold_and_the_automover_is_restored() {
    let server = Fake::start();
    server.state().automove = 2;
    let mut steer = Files::new(server.address).steer(&[]);
    wait_until("pages move", SOON, || server.state().classes[0].pages > 12);
    assert_eq!(steer.nice(), 19, "the server has a higher priority");
    assert_eq!(server.state().automove, 0);
    assert!(steer.stop().success());
    let state = server.state();
    assert_eq!(state.automove, 2);
    assert_eq!(state.changes[0], "slabs automove 0", "no page moves before the automover is off");
    assert_eq!(state.changes.last().map(String::as_str), Some("slabs automove 2"));
    assert!(steer.count("moved a page from class") > 2, "{:?}", steer.log());
}

#[test]
fn refused_orders_are_logged_and_others_follow() {
    let server = Fake::start();
    let refusals = [
        "BUSY currently processing reassign request",
        "NOSPARE source class has no spare pages",
        "UNSAFE",
        "BADCLASS invalid src or dst class id",
        "SAME src and dst class are identical",
        "SERVER_ERROR \u{1b}[31m out of paint",
    ];
    server.state().refusals = refusals.into();
    let mut steer = Files::new(server.address).steer(&[]);
    wait_until("pages move", SOON, || server.state().classes[0].pages > 10);
    for word in ["nospare", "unsafe", "badclass", "same", "out of paint"] {
        assert_eq!(steer.count(word), 1, "{word}: {:?}", steer.log());
    }
    assert_eq!(steer.count("busy"), 0, "an order is repeated while the server is busy");
    assert_eq!(steer.count("\u{1b}"), 0, "control characters are not logged");
    assert!(steer.stop().success());
    assert_eq!(server.state().automove, 1);
}

#[test]
fn a_fault_of_the_server_costs_one_line_and_steering_continues() {
    let server = Fake::start();
    let mut steer = Files::new(server.address).steer(&[]);
    steer.await_line("moved a page");
    let faults = [Fault::Cut, Fault::Garbage, Fault::Silence, Fault::EndlessLine];
    for (number, fault) in faults.into_iter().enumerate() {
        let readings = server.state().readings;
        server.state().fault = fault;
        wait_until("the server is asked three times", SOON, || {
            server.state().readings > readings + 2
        });
        wait_until("the fault is logged", SOON, || steer.count("lost 127.0.0.1") == number + 1);
        server.state().fault = Fault::None;
        wait_until("steering continues", SOON, || steer.count("again, after") == number + 1);
    }
    assert!(steer.stop().success());
    assert_eq!(server.state().automove, 1);
}

#[test]
fn an_order_whose_reply_is_lost_is_no_move_of_somebody_else() {
    let server = Fake::start();
    let mut steer = Files::new(server.address).steer(&[]);
    steer.await_line("moved a page");
    let pages = server.state().classes[0].pages;
    server.state().fault = Fault::CutChange;
    wait_until("the order is carried out", SOON, || server.state().classes[0].pages > pages);
    wait_until("the fault is logged", SOON, || steer.count("lost 127.0.0.1") == 1);
    wait_until("steering continues", SOON, || steer.count("again, after") == 1);
    let readings = server.state().readings;
    wait_until("the moves are counted", SOON, || server.state().readings > readings + 10);
    assert_eq!(steer.count("another steerer"), 0, "{:?}", steer.log());
    assert!(steer.stop().success());
    assert_eq!(server.state().automove, 1);
}

#[test]
fn after_a_lost_reply_to_the_first_change_the_mode_is_restored() {
    let server = Fake::start();
    server.state().automove = 2;
    server.state().fault = Fault::CutChange;
    let files = Files::new(server.address);
    let mut steer = files.steer(&[]);
    // The first connection fails, which may be a wrong address.
    assert_eq!(steer.end().code(), Some(1));
    assert_eq!(server.state().changes, ["slabs automove 0", "slabs automove 2"]);
    assert_eq!(server.state().automove, 2);
    assert!(files.restore().contains("needs no restoration"));
}

#[test]
fn a_class_keeps_its_last_page() {
    let server = Fake::start();
    server.state().classes[1].pages = 1;
    server.state().classes[2].pages = 2;
    let mut steer = Files::new(server.address).steer(&["--moves-per-minute", "6000"]);
    steer.await_line("moved a page");
    let readings = server.state().readings;
    wait_until("steps follow", SOON, || server.state().readings > readings + 20);
    assert!(server.state().classes.iter().all(|class| class.pages > 0));
    assert_eq!(steer.count("refused"), 0, "no such order is sent: {:?}", steer.log());
    assert!(steer.stop().success());
    assert_eq!(server.state().automove, 1);
}

#[test]
fn a_shift_of_the_traffic_is_logged() {
    let server = Fake::start();
    let mut steer = Files::new(server.address).steer(&[]);
    // The noise of the traffic is known after some windows of two seconds.
    wait_until("readings follow", SOON, || server.state().readings > 60);
    assert_eq!(steer.count("the traffic has shifted"), 0, "{:?}", steer.log());
    server.state().classes[1].gets_per_reading *= 4;
    steer.await_line("the traffic has shifted, so pauses and holds end");
    assert!(steer.stop().success());
    assert_eq!(server.state().automove, 1);
}

#[test]
fn a_server_that_is_silent_at_the_end_is_restored_later() {
    let server = Fake::start();
    let files = Files::new(server.address);
    let mut steer = files.steer(&[]);
    steer.await_line("moved a page");
    server.state().fault = Fault::Silence;
    steer.await_line("lost 127.0.0.1");
    assert_eq!(steer.stop().code(), Some(1), "the automover is not restored");
    assert_eq!(server.state().automove, 0);
    server.state().fault = Fault::None;
    let printed = files.restore();
    assert!(printed.contains("restored the automover: its mode is 1"), "{printed}");
    assert_eq!(server.state().automove, 1);
    let again = files.restore();
    assert!(again.contains("needs no restoration"), "{again}");
}

#[test]
fn after_sigkill_a_new_start_or_restore_restores_the_automover() {
    for has_new_start in [true, false] {
        let server = Fake::start();
        let files = Files::new(server.address);
        let mut steer = files.steer(&[]);
        steer.await_line("moved a page");
        steer.send(Signal::KILL);
        steer.end();
        assert_eq!(server.state().automove, 0);
        if has_new_start {
            let mut second = files.steer(&[]);
            second.await_line("its former mode is 1");
            assert!(second.stop().success());
        } else {
            let printed = files.restore();
            assert!(printed.contains("its mode is 1"), "{printed}");
        }
        assert_eq!(server.state().automove, 1, "new start: {has_new_start}");
    }
}

#[test]
fn a_server_without_slab_reassign_is_left_as_it_is() {
    let server = Fake::start();
    server.state().slab_reassign = false;
    let files = Files::new(server.address);
    let mut steer = files.steer(&[]);
    assert_eq!(steer.end().code(), Some(3));
    assert!(server.state().changes.is_empty());
    assert_eq!(files.steer(&["--dry-run"]).end().code(), Some(3));
}

#[test]
fn an_automover_that_somebody_switches_on_stays_on() {
    let server = Fake::start();
    let files = Files::new(server.address);
    let mut steer = files.steer(&[]);
    steer.await_line("moved a page");
    server.state().automove = 2;
    assert_eq!(steer.end().code(), Some(3));
    assert_eq!(
        steer.count("somebody has switched the automover on (mode 2)"),
        1,
        "{:?}",
        steer.log()
    );
    assert_eq!(server.state().automove, 2);
    assert!(files.restore().contains("needs no restoration"));
    assert_eq!(steer.count("start the command again to steer"), 1, "{:?}", steer.log());
    let mut second = files.steer(&[]);
    wait_until("the second run steers", SOON, || server.state().automove == 0);
    second.await_line("its mode was 2");
    assert!(second.stop().success());
    assert_eq!(server.state().automove, 2);
}

#[test]
fn pages_that_somebody_else_moves_end_the_steering() {
    let server = Fake::start();
    let mut steer = Files::new(server.address).steer(&[]);
    steer.await_line("moved a page");
    // An order of the steerer may be in progress, which excuses one move.
    for _ in 0..4 {
        server.state().move_page(0, 2);
    }
    assert_eq!(steer.end().code(), Some(3));
    assert_eq!(steer.count("another steerer has moved"), 1, "{:?}", steer.log());
    assert_eq!(server.state().automove, 1);
}

#[test]
fn after_a_restart_of_the_server_the_last_split_is_reached_again() {
    let server = Fake::start();
    let mut steer = Files::new(server.address).steer(&["--moves-per-minute", "6000"]);
    wait_until("pages move", SOON, || server.state().classes[0].pages >= 13);
    steer.await_line("moved a page");
    // The state file has the split only after the round.
    let moved = steer.count("moved a page");
    server.restart([10, 10, 10]);
    steer.await_line("the server has restarted");
    steer.await_line("towards the split of before the restart");
    steer.await_line("the last split is reached");
    assert!(server.state().classes[0].pages >= 10 + moved.min(3) as u64);
    assert_eq!(server.state().automove, 0);
    assert!(steer.stop().success());
    assert_eq!(server.state().automove, 1);
}

#[test]
fn a_dry_run_changes_nothing() {
    let server = Fake::start();
    let mut steer = Files::new(server.address).steer(&["--dry-run"]);
    steer.await_line("would move a page from class");
    assert!(steer.stop().success());
    assert!(server.state().changes.is_empty(), "{:?}", server.state().changes);
}

#[test]
fn a_dry_run_continues_while_the_automover_moves_pages_and_needs_no_state_file() {
    let server = Fake::start();
    let files = Files::new(server.address);
    let mut real = files.steer(&[]);
    real.await_line("moved a page");
    assert!(real.stop().success());
    let moved = server.state().changes.len();
    let mut steer = files.steer(&["--dry-run"]);
    for _ in 0..5 {
        server.state().move_page(0, 1);
        let readings = server.state().readings;
        wait_until("the server is read", SOON, || server.state().readings > readings + 2);
    }
    steer.await_line("would move a page from class");
    assert!(!steer.has_ended(), "{:?}", steer.log());
    let mut second = files.steer(&[]);
    wait_until("another steerer may use the state file", SOON, || server.state().automove == 0);
    assert!(second.stop().success() && steer.stop().success());
    assert!(server.state().changes.len() > moved);
}

#[test]
fn two_steerers_do_not_use_one_state_file() {
    let server = Fake::start();
    let files = Files::new(server.address);
    let mut first = files.steer(&[]);
    first.await_line("moved a page");
    let printed = files.restore();
    assert!(printed.contains("another steerer uses the state file"), "{printed}");
    assert!(first.stop().success());
    assert_eq!(server.state().automove, 1);
}

#[test]
fn metrics_count_the_moves() {
    let server = Fake::start();
    let mut steer = Files::new(server.address).steer(&["--metrics", "127.0.0.1:0"]);
    steer.await_line("moved a page");
    let log = steer.log();
    let url = log.iter().find_map(|line| line.strip_prefix("metrics are at http://"));
    let address = url.and_then(|url| url.strip_suffix("/metrics")).expect("the address is logged");
    let ask = || {
        let mut stream = TcpStream::connect(address).expect("the command listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").expect("the command reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the command answers");
        text
    };
    wait_until("the metrics have moves", SOON, || {
        ask().contains("slabwise_steer_page_moves_total{purpose=\"policy\"}")
    });
    assert!(steer.stop().success());
}
