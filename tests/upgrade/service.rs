//! An upgrade below a service manager: it is notified that the new process is ready, and of its main process. The command
//! for a reload in `deploy/systemd/slabwise.service`, run as systemd would run it.

use super::setup::{Items, Setup, TIMEOUT, assert_filled, fill};
use crate::support::{Client, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

const UNIT: &str = include_str!("../../deploy/systemd/slabwise.service");

#[test]
fn the_service_manager_is_notified_of_the_new_main_process() {
    for extended in ["", ",drop_privileges"] {
        let mut setup = Setup::new(Items::Nameless, &[], extended);
        let path = setup.path("notify");
        let notifications = UnixDatagram::bind(&path).expect("the folder is writable");
        notifications.set_read_timeout(Some(TIMEOUT)).expect("the timeout is not zero");
        setup.set_variable("NOTIFY_SOCKET", &path.display().to_string());
        let receive = || {
            let mut buffer = [0; 4096];
            let count = notifications.recv(&mut buffer).expect("a process notifies");
            String::from_utf8(buffer[..count].to_vec()).expect("a notification is text")
        };
        let mut server = setup.start();
        let is_ready = |text: &str, server: &crate::support::Server| {
            let main = format!("MAINPID={}", server.id().as_raw_pid());
            text.starts_with("READY=1\n") && text.lines().any(|line| line == main)
        };
        let first = receive();
        assert!(is_ready(&first, &server), "{first}");
        fill(&mut server.connect(), 100);
        for number in 1..=2 {
            let next = setup.upgrade(&format!("log{number}"));
            assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
            // The old process, which is the main process, names its successor. A service manager may ignore the notification
            // of a process that is not the main process yet.
            let mut texts = [receive(), receive()];
            texts.sort_unstable();
            assert_eq!(texts[0], format!("MAINPID={}", next.id().as_raw_pid()));
            assert!(is_ready(&texts[1], &next), "{texts:?}");
            server = next;
        }
        assert_filled(&mut server.connect(), 100);
    }
}

/// Returns the unit's command for a reload, with `program` as the installed program. Its log has the name `reload_log`.
fn reload(setup: &Setup, program: &Path, main: Pid) -> Command {
    let script = UNIT.lines().find_map(|line| line.strip_prefix("ExecReload=/bin/sh -c \""));
    let script = script.and_then(|it| it.strip_suffix('"')).expect("the unit has ExecReload");
    let control = setup.path("control").display().to_string();
    assert!(script.contains("/run/slabwise/control"), "{script}");
    let script = script
        .replace("/usr/bin/slabwise", &program.display().to_string())
        .replace("/run/slabwise/control", &control);
    let mut command = Command::new("/bin/sh");
    let log = File::create(setup.path("reload_log")).expect("the folder is writable");
    command.args(["-c", &script]).env("MAINPID", main.to_string()).stderr(log);
    command.env("CONF", setup.write_conf()).env("NOTIFY_SOCKET", setup.path("notify"));
    command
}

/// A process that no parent waits for. Dropping this value kills it.
struct Daemon(Pid);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

#[test]
fn a_reload_of_the_unit_reads_files_again_or_starts_the_replaced_program() {
    let mut setup = Setup::new(Items::Nameless, &["-v"], "");
    let path = setup.path("notify");
    let notifications = UnixDatagram::bind(&path).expect("the folder is writable");
    notifications.set_read_timeout(Some(TIMEOUT)).expect("the timeout is not zero");
    setup.set_variable("NOTIFY_SOCKET", &path.display().to_string());
    let mut server = setup.start();
    fill(&mut server.connect(), 100);

    let same = Path::new(env!("CARGO_BIN_EXE_slabwise"));
    let status = reload(&setup, same, server.id()).status().expect("the shell exists");
    assert!(status.success(), "{}", setup.log("reload_log"));
    wait_until("the server reads its files", TIMEOUT, || setup.log("log").contains("SIGHUP"));

    let newer = setup.path("slabwise");
    std::fs::copy(same, &newer).expect("the folder is writable");
    let status = reload(&setup, &newer, server.id()).status().expect("the shell exists");
    assert!(status.success(), "{}", setup.log("reload_log"));
    let next = loop {
        let mut buffer = [0; 4096];
        let count = notifications.recv(&mut buffer).expect("the new process is announced");
        let text = String::from_utf8(buffer[..count].to_vec()).expect("a notification is text");
        let main = text.lines().find_map(|line| line.strip_prefix("MAINPID=")?.parse().ok());
        match main.and_then(Pid::from_raw) {
            Some(main) if main != server.id() => break Daemon(main),
            _ => {}
        }
    };
    assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
    let running = std::fs::read_link(format!("/proc/{}/exe", next.0)).expect("the server runs");
    assert_eq!(running, newer);
    assert_filled(&mut Client::connect(server.address()), 100);
    std::fs::write(setup.write_conf(), "--no-such-option\n").expect("the folder is writable");
    kill_process(next.0, Signal::HUP).expect("the server runs");
    wait_until("the new process logs", TIMEOUT, || setup.log("reload_log").contains("SIGHUP"));
}
