//! The commands of `deploy/systemd/slabwise-steer@.service`, run as systemd would run them.

use super::command::{Files, QUICK_OPTIONS, SOON};
use super::fake::Fake;
use crate::support::wait_until;
use rustix::process::Signal;
use std::process::Command;

const UNIT: &str = include_str!("../../deploy/systemd/slabwise-steer@.service");

/// Returns the command of a setting of the unit, with the folder of this test as `%S`.
fn command(setting: &str, server: &Fake, files: &Files) -> Command {
    let prefix = format!("{setting}=");
    let line = UNIT.lines().find_map(|line| line.strip_prefix(&prefix));
    let line = line.unwrap_or_else(|| panic!("the unit has {setting}"));
    let folder = files.path("").display().to_string();
    assert!(
        line.contains(" $STEER_OPTIONS"),
        "the operator's options are for all commands: {line}"
    );
    let mut words = line.split(' ');
    assert_eq!(words.next(), Some("/usr/bin/slabwise"), "{line}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
    for word in words {
        match word {
            "$STEER_OPTIONS" => command.args(QUICK_OPTIONS).arg("--log").arg(files.path("log")),
            word => {
                command.arg(word.replace("%i", &server.address.to_string()).replace("%S", &folder))
            }
        };
    }
    command
}

#[test]
fn the_automover_is_restored_after_a_normal_end_and_after_sigkill() {
    for signal in [Signal::TERM, Signal::KILL] {
        let server = Fake::start();
        let files = Files::new(server.address);
        // systemd creates the folder of StateDirectory=.
        std::fs::create_dir(files.path("slabwise-steer")).expect("the folder is new");
        let mut steer = files.start(command("ExecStart", &server, &files));
        wait_until("a page moves", SOON, || server.state().classes[0].pages > 10);
        assert_eq!(server.state().automove, 0);
        steer.send(signal);
        steer.end();
        let expected = if signal == Signal::KILL { 0 } else { 1 };
        assert_eq!(server.state().automove, expected, "after {signal:?}");
        let status = command("ExecStopPost", &server, &files).status();
        assert!(status.is_ok_and(|status| status.success()), "after {signal:?}");
        assert_eq!(server.state().automove, 1, "after {signal:?} and ExecStopPost");
    }
}

#[test]
fn systemd_does_not_start_a_steerer_again_after_somebody_has_switched_the_automover_on() {
    let server = Fake::start();
    let files = Files::new(server.address);
    std::fs::create_dir(files.path("slabwise-steer")).expect("the folder is new");
    let mut steer = files.start(command("ExecStart", &server, &files));
    wait_until("a page moves", SOON, || server.state().classes[0].pages > 10);
    server.state().automove = 1;
    let code = steer.end().code().expect("the steerer ends by itself");
    let prevented = UNIT.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus="));
    let prevented = prevented.expect("the unit has RestartPreventExitStatus");
    assert!(prevented.split(' ').any(|prevented| prevented == code.to_string()), "{code}");
    assert_eq!(server.state().automove, 1);
}
