//! How the steerer takes over a server whose automover moves pages, and how it notices that others move them.

use super::command::{Files, SOON};
use super::fake::Fake;
use crate::support::wait_until;
use rustix::process::Signal;

#[test]
fn a_page_that_the_automover_moves_at_the_take_over_is_no_rival() {
    // The replies to `stats` until the move ends: before the automover is off, at once after it, and later.
    for readings in [0, 1, 2, 6] {
        let server = Fake::start();
        server.state().automove = 2;
        server.state().pending = Some((1, 2, readings));
        let mut steer = Files::new(server.address).steer(&[]);
        wait_until("pages move", SOON, || server.state().classes[0].pages > 11);
        let before = server.state().readings;
        wait_until("the moves are counted", SOON, || server.state().readings > before + 10);
        assert_eq!(steer.count("another steerer"), 0, "{readings}: {:?}", steer.log());
        assert!(steer.stop().success(), "{readings}: {:?}", steer.log());
        assert_eq!(server.state().automove, 2);
    }
}

#[test]
fn a_server_that_is_upgraded_on_the_same_connection_is_steered_further() {
    let server = Fake::start();
    let mut steer = Files::new(server.address).steer(&[]);
    steer.await_line("moved a page");
    {
        let mut state = server.state();
        (state.pid, state.automove) = (state.pid + 1, 2);
    }
    steer.await_line("its mode was 2");
    wait_until("the automover is off", SOON, || server.state().automove == 0);
    steer.await_line("the server has restarted");
    assert_eq!(steer.count("somebody has switched"), 0, "{:?}", steer.log());
    assert!(steer.stop().success(), "{:?}", steer.log());
    assert_eq!(server.state().automove, 2);
}

#[test]
fn no_order_is_sent_while_another_one_is_in_progress() {
    let server = Fake::start();
    {
        let mut state = server.state();
        state.order_readings = 3;
        state.refusals = ["BUSY currently processing reassign request"].into();
    }
    let mut steer = Files::new(server.address).steer(&[]);
    wait_until("pages move", SOON, || server.state().classes[0].pages > 12);
    assert_eq!(server.state().overwritten, 0, "{:?}", steer.log());
    assert!(steer.stop().success(), "{:?}", steer.log());
}

#[test]
fn a_server_that_moves_values_to_files_is_left_as_it_is() {
    let server = Fake::start();
    server.state().has_storage = true;
    let files = Files::new(server.address);
    for options in [&[][..], &["--dry-run"]] {
        assert_eq!(files.steer(options).end().code(), Some(3));
    }
    assert!(server.state().changes.is_empty());
}

#[test]
fn the_end_of_the_terminal_restores_the_automover() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    if u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1) {
        eprintln!("skipped: SIGHUP is ignored");
        return;
    }
    let server = Fake::start();
    let mut steer = Files::new(server.address).steer(&[]);
    steer.await_line("moved a page");
    steer.send(Signal::HUP);
    assert!(steer.end().success());
    assert_eq!(server.state().automove, 1);
}
