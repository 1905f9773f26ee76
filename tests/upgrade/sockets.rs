//! What a handover keeps: connections, sockets, items and times.

use super::setup::{HELLO, Items, Setup, assert_filled, fill};
use crate::support::Client;
use std::os::unix::net::UnixStream;

#[test]
fn an_upgrade_keeps_items_connections_and_addresses() {
    for (items, extended) in [
        (Items::Nameless, ""),
        (Items::File, ""),
        (Items::Nameless, ",drop_privileges"),
        (Items::File, ",drop_privileges"),
        (Items::Nameless, ",io=auto"),
    ] {
        println!("{items:?}{extended}");
        let setup = Setup::new(items, &[], extended);
        let mut server = setup.start();
        let mut client = server.connect();
        fill(&mut client, 2_000);
        client.send(b"set flagged 77 600 5\r\nvalue\r\ngets flagged\r\n");
        assert_eq!(client.read_line(), "STORED");
        let flagged = [client.read_line(), client.read_line(), client.read_line()];
        assert_eq!(client.ask("flush_all 600"), "OK");
        // Three upgrades: each process hands over what it has received.
        for number in 1..=3 {
            let next = setup.upgrade(&format!("log{number}"));
            assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
            assert_eq!(next.address(), server.address());
            client.send(b"gets flagged\r\n");
            let kept = [client.read_line(), client.read_line(), client.read_line()];
            assert_eq!(kept, flagged, "{items:?}{extended}, upgrade {number}");
            client = next.connect();
            assert_filled(&mut client, 2_000);
            assert_eq!(client.set("new", b"value"), "STORED");
            server = next;
        }
        drop(client);
        server.terminate();
        assert_eq!(server.wait_for_end(), Some(0));
        assert!(!setup.path("control").exists(), "a stop removes the control socket");
    }
}

#[test]
fn clients_stay_authenticated_and_others_must_still_authenticate() {
    let passwords = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    std::fs::write(&passwords, "ana:letmein\n").expect("the file is ours");
    let path = passwords.path().to_str().expect("the path is UTF-8").to_owned();
    let setup = Setup::new(Items::Nameless, &["-Y", &path], "");
    let mut server = setup.start();
    let login = |client: &mut Client| assert_eq!(client.set("any", b"ana letmein"), "STORED");
    let (mut known, mut unknown) = (server.connect(), server.connect());
    login(&mut known);
    assert_eq!(known.set("key", b"value"), "STORED");
    for number in 1..=2 {
        let next = setup.upgrade(&format!("log{number}"));
        assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
        assert_eq!(known.get("key").as_deref(), Some(&b"value"[..]));
        server = next;
    }
    assert_eq!(unknown.ask("get key"), "CLIENT_ERROR unauthenticated");
    let mut other = server.connect();
    login(&mut other);
    assert_eq!(other.get("key").as_deref(), Some(&b"value"[..]));
}

#[test]
fn counters_of_stats_continue() {
    for items in [Items::Nameless, Items::File] {
        let setup = Setup::new(items, &[], "");
        let mut server = setup.start();
        let mut client = server.connect();
        fill(&mut client, 50);
        assert_filled(&mut client, 40);
        assert_eq!(client.get("absent"), None);
        let names = [
            "cmd_get",
            "cmd_set",
            "get_hits",
            "get_misses",
            "total_items",
            "total_connections",
            "curr_connections",
            "curr_items",
        ];
        for number in 1..=2 {
            let before = names.map(|name| client.stat(name));
            let bytes = client.stat("bytes_read");
            let next = setup.upgrade(&format!("log{number}"));
            assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
            assert_eq!(names.map(|name| client.stat(name)), before, "{names:?}");
            assert!(client.stat("bytes_read") > bytes, "the bytes of later commands are added");
            assert_eq!(client.get("absent"), None);
            server = next;
        }
        assert_eq!(client.stat("get_misses"), 3);
    }
}

#[test]
fn ten_upgrades_in_turn_with_and_without_privileges_keep_every_item() {
    let setup = Setup::new(Items::Nameless, &[], ",debug_commands");
    let mut server = setup.start();
    let mut client = server.connect();
    fill(&mut client, 3_000);
    for number in 0..10 {
        // Processes with other options follow each other. Deletes and stores change the lists of free chunks.
        let flags: &[&str] =
            if number % 2 == 0 { &["-o", "drop_privileges"] } else { &["-t", "2"] };
        let next = setup.upgrade_with(flags, &format!("log{number}"));
        assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
        let deleted = format!("key{}", 100 * number);
        assert_eq!(client.ask(&format!("delete {deleted}")), "DELETED", "upgrade {number}");
        fill(&mut client, 3_000);
        assert_filled(&mut client, 3_000);
        assert_eq!(client.ask("debugcheck"), "OK", "upgrade {number}");
        server = next;
    }
}

#[test]
fn a_connection_within_a_request_is_closed_and_others_are_not() {
    let setup = Setup::new(Items::Nameless, &[], "");
    let mut server = setup.start();
    let (mut idle, mut within) = (server.connect(), server.connect());
    within.send(b"set unfinished 0 0 100\r\nthe beginning");
    assert_eq!(idle.set("key", b"value"), "STORED");
    let next = setup.upgrade("log1");
    assert_eq!(server.wait_for_end(), Some(0));
    assert_eq!(idle.get("key").as_deref(), Some(&b"value"[..]));
    assert_eq!(within.try_read_line().ok().flatten(), None, "the connection is closed");
    assert_eq!(next.connect().get("unfinished"), None);
}

#[test]
fn a_unix_socket_and_its_file_are_handed_over() {
    let setup = Setup::new(Items::Nameless, &[], "");
    let path = setup.path("socket");
    let setup_unix = ["-s", path.to_str().expect("the path is UTF-8")];
    let command = |first: &[&str], log: &str| {
        let control = format!("upgradable,control={}", setup.path("control").display());
        std::process::Command::new(env!("CARGO_BIN_EXE_slabwise"))
            .args(first)
            .args(slabwise_client::process::user_arguments())
            .args(setup_unix)
            .args(["-o", &control])
            .stderr(std::fs::File::create(setup.path(log)).expect("the folder is writable"))
            .spawn()
            .expect("the program exists")
    };
    let mut old = command(&[], "log");
    let connects = || UnixStream::connect(&path).is_ok();
    crate::support::wait_until("the server listens", super::setup::TIMEOUT, connects);
    let mut new = command(&["upgrade"], "log1");
    assert!(old.wait().expect("the child is ours").success(), "{}", setup.log("log"));
    assert!(connects(), "the file is there: {}", setup.log("log1"));
    new.kill().expect("the child is ours");
    new.wait().expect("the child is ours");
}

/// Asserts that the server stores a value for this client.
fn assert_serves(mut client: Client) {
    assert_eq!(client.set("served", b"value"), "STORED");
}

#[test]
fn connections_during_the_pause_wait_in_the_queue() {
    let setup = Setup::new(Items::Nameless, &[], "");
    let mut server = setup.start();
    let address = server.address();
    let peer = super::setup::Peer::connect(&setup);
    peer.send(HELLO);
    peer.receive("memory");
    peer.send("collect\n");
    peer.receive("state");
    // The server pauses now.
    let waiting = Client::connect(address);
    drop(peer);
    assert_serves(waiting);
    let next = setup.upgrade("log1");
    assert_eq!(server.wait_for_end(), Some(0));
    assert_serves(next.connect());
}

#[test]
fn connections_beyond_the_new_limit_are_closed() {
    for extended in ["", ",io=auto"] {
        let setup = Setup::new(Items::Nameless, &["-t", "1"], extended);
        let mut server = setup.start();
        let mut clients: Vec<Client> = (0..40).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.set("key", b"value"), "STORED"));
        let next = setup.upgrade_with(&["-c", "20"], "log1");
        assert_eq!(server.wait_for_end(), Some(0), "{}", setup.log("log"));
        let is_open = |client: &mut Client| {
            client.try_send(b"mn\r\n").is_ok()
                && matches!(client.try_read_line(), Ok(Some(line)) if line == b"MN")
        };
        clients.retain_mut(is_open);
        assert!((1..=20).contains(&clients.len()), "{} connections are open", clients.len());
        drop(clients);
        let is_accepted = || is_open(&mut next.connect());
        crate::support::wait_until("connections are free", super::setup::TIMEOUT, is_accepted);
    }
}
