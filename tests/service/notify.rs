//! Notifications of the service manager: readiness, the main process, reload and stop.

use super::manager::{Manager, TIMEOUT, assert_serves, user};
use crate::support::wait_until;
use rustix::process::{Signal, kill_process, test_kill_process};
use std::net::SocketAddr;
use std::path::Path;

/// Returns a free port of 127.0.0.1. Another process could take it before the server does, which the test then reports.
fn free_address() -> SocketAddr {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    socket.local_addr().expect("the socket is bound")
}

#[test]
fn the_service_manager_is_notified_of_readiness_reload_and_stop() {
    for options in [&[][..], &["-o", "drop_privileges"]] {
        let (manager, address) = (Manager::new(), free_address());
        let port = address.port().to_string();
        let arguments = [&["-l", "127.0.0.1", "-p", &port], user(), options].concat();
        let mut service = manager.start(&arguments, Vec::new());
        assert_eq!(manager.wait_until_ready(), service.id());
        assert_serves(address);

        service.signal(Signal::HUP);
        let reload = manager.notification();
        assert_eq!(reload[0], "RELOADING=1");
        let micros = reload[1].strip_prefix("MONOTONIC_USEC=").map(str::parse::<u64>);
        assert!(matches!(micros, Some(Ok(1..))), "{reload:?}");
        assert_eq!(manager.wait_until_ready(), service.id());

        service.signal(Signal::USR1);
        assert_eq!(manager.notification()[0], "STOPPING=1");
        assert!(service.wait().success(), "{options:?}: {}", manager.log());
    }
}

#[test]
fn a_daemon_notifies_the_service_manager_of_its_main_process() {
    let (manager, address) = (Manager::new(), free_address());
    let port = address.port().to_string();
    let arguments = [&["-d", "-l", "127.0.0.1", "-p", &port], user()].concat();
    let mut service = manager.start(&arguments, Vec::new());
    let main = manager.wait_until_ready();
    assert_ne!(main, service.id());
    assert!(service.wait().success(), "the process that was started exits");
    assert_serves(address);
    kill_process(main, Signal::TERM).expect("the main process runs");
    assert_eq!(manager.notification()[0], "STOPPING=1");
    // The daemon has no parent that waits for it, so a container without an init process keeps it as a zombie.
    let has_ended = || {
        test_kill_process(main).is_err()
            || std::fs::read_to_string(Path::new("/proc").join(main.to_string()).join("stat"))
                .is_ok_and(|stat| stat.contains(") Z "))
    };
    wait_until("the daemon ends", TIMEOUT, has_ended);
}

#[test]
fn a_server_without_a_service_manager_warns_and_serves() {
    let (manager, address) = (Manager::new(), free_address());
    std::fs::remove_file(manager.path("notify")).expect("the socket exists");
    let port = address.port().to_string();
    let arguments = [&["-l", "127.0.0.1", "-p", &port], user()].concat();
    let _service = manager.start(&arguments, Vec::new());
    manager.wait_for_log("NOTIFY_SOCKET: cannot notify the service manager");
    assert_serves(address);
}
