//! Upgrades that are refused: the running server serves on.

use super::setup::{Items, Peer, Setup, assert_filled, fill};

#[test]
fn other_versions_layouts_and_messages_are_refused() {
    let setup = Setup::new(Items::Nameless, &[], "");
    let server = setup.start();
    let mut client = server.connect();
    fill(&mut client, 100);
    for (flags, reason) in [
        (&["-o", "page_size=16k"][..], "page_size_bytes"),
        (&["-f", "1.5"], "chunk_sizes"),
        (&["-e", "/dev/shm/slabwise-test-no-file"], "-e"),
        (&["-o", "control=/dev/shm/slabwise-test-no-control"], "no server"),
    ] {
        let status = setup.spawn_upgrade(flags, "log1").wait().expect("the child is ours");
        let log = setup.log("log1");
        assert!(!status.success() && log.contains(reason), "{flags:?}: {log}");
        assert_filled(&mut client, 100);
    }
    for (message, reason) in [
        ("hello\noldest=1\nnewest=1\n", "versions 3 to 3 of the handover, and the new one 1 to 1"),
        ("collect\n", "invalid message"),
        ("no message", "invalid message"),
    ] {
        let peer = Peer::connect(&setup);
        peer.send(message);
        let (text, _) = peer.receive("abort");
        assert!(text.contains(reason), "{message:?}: {text}");
        assert_filled(&mut client, 100);
    }
    // A plain start does not take the control socket of a running server.
    let mut plain = std::process::Command::new(env!("CARGO_BIN_EXE_slabwise"))
        .args(slabwise_client::process::user_arguments())
        .args(["-l", "127.0.0.1", "-p", "-1", "-o"])
        .arg(format!("upgradable,control={}", setup.path("control").display()))
        .spawn()
        .expect("the program exists");
    assert!(!plain.wait().expect("the child is ours").success());
    assert_filled(&mut server.connect(), 100);
}

#[test]
fn another_host_with_the_same_port_is_refused() {
    let http = Setup::free_port();
    let setup = Setup::new(Items::Nameless, &["-o", &format!("http=127.0.0.1:{http}")], "");
    let server = setup.start();
    let mut client = server.connect();
    fill(&mut client, 100);
    let port = server.address().port().to_string();
    let other_http = format!("http=127.0.0.2:{http},http_insecure");
    let wide_http = format!("http=0.0.0.0:{http},http_insecure");
    for (flags, reason) in [
        (&["-l", "0.0.0.0", "-p", &port][..], "cannot listen on 0.0.0.0"),
        (&["-o", &wide_http], "-o http=0.0.0.0"),
    ] {
        let status = setup.spawn_upgrade(flags, "log1").wait().expect("the child is ours");
        let log = setup.log("log1");
        assert!(!status.success() && log.contains(reason), "{flags:?}: {log}");
        assert!(log.contains("uses this port with another host, choose another port"), "{log}");
        assert_filled(&mut client, 100);
    }
    // An address that is free beside the old one is no conflict.
    let next = setup.upgrade_with(&["-o", &other_http], "log1");
    assert_filled(&mut next.connect(), 100);
}

#[test]
fn the_control_socket_is_for_this_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let setup = Setup::new(Items::Nameless, &[], "");
    let _server = setup.start();
    let about = std::fs::metadata(setup.path("control")).expect("the socket has a file");
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    if !rustix::process::getuid().is_root() {
        return println!("not tested: only root can connect as another user");
    }
    // Root may connect to the socket of another user, which the kernel reports.
    let mut folder = std::fs::metadata(setup.path("")).expect("the folder exists").permissions();
    folder.set_mode(0o777);
    std::fs::set_permissions(setup.path(""), folder).expect("the folder is ours");
    let path = setup.path("other");
    let mut other = std::process::Command::new(env!("CARGO_BIN_EXE_slabwise"))
        .args(["-u", "nobody", "-l", "127.0.0.1", "-p", "-1", "-o"])
        .arg(format!("upgradable,control={}", path.display()))
        .stderr(std::fs::File::create(setup.path("log2")).expect("the folder is writable"))
        .spawn()
        .expect("the program exists");
    crate::support::wait_until("the server listens", super::setup::TIMEOUT, || path.exists());
    let control = format!("control={}", path.display());
    let status = setup.spawn_upgrade(&["-o", &control], "log1").wait().expect("the child is ours");
    let log = setup.log("log1");
    assert!(!status.success() && log.contains("run both as the same user"), "{log}");
    assert!(other.try_wait().expect("the child is ours").is_none(), "it serves on");
    other.kill().expect("the child is ours");
    other.wait().expect("the child is ours");
}
