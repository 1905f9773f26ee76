//! An upgrade below a service manager: it is notified that the new process is ready, and of its main process.

use super::setup::{Items, Setup, TIMEOUT, assert_filled, fill};
use std::os::unix::net::UnixDatagram;

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
