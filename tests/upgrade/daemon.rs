//! `slabwise upgrade -d`: the process that was started ends when the outcome is known.

use super::relay::{Action, RelayedUpgrade};
use super::setup::{Items, Setup, assert_filled, fill};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs;

const ITEMS: usize = 200;

#[test]
fn the_launcher_ends_with_success_when_the_daemon_serves() {
    for extended in ["", ",drop_privileges"] {
        let setup = Setup::new(Items::Nameless, &[], extended);
        let mut server = setup.start();
        let mut client = server.connect();
        fill(&mut client, ITEMS);
        let pid_file = setup.path("pid");
        let flags = ["-d", "-P", &pid_file.display().to_string()];
        let status = setup.spawn_upgrade(&flags, "log1").wait().expect("the child is ours");
        assert!(status.success(), "{}", setup.log("log1"));
        assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
        assert_filled(&mut client, ITEMS);
        let pid = fs::read_to_string(&pid_file).expect("the daemon has written its pid file");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("it is not 0");
        kill_process(pid, Signal::TERM).expect("the daemon runs");
        let has_ended = || test_kill_process(pid).is_err();
        crate::support::wait_until("the daemon ends", super::setup::TIMEOUT, has_ended);
    }
}

#[test]
fn the_launcher_reports_a_failure_in_the_last_step() {
    let RelayedUpgrade { setup, server, mut client, mut new, relay } =
        RelayedUpgrade::begin_with(&["-d"], Items::Nameless, ITEMS);
    relay.run(|text| match text {
        // The old process gives up.
        "ready\n" => Action::Replace("collect\n".to_owned()),
        _ => Action::Forward,
    });
    let status = new.wait().expect("the child is ours");
    assert_eq!(status.code(), Some(1), "{}", setup.log("log1"));
    assert!(setup.log("log1").contains("serves on"), "{}", setup.log("log1"));
    assert_filled(&mut client, ITEMS);
    assert_filled(&mut server.connect(), ITEMS);
}
