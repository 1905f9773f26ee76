//! What a confined server does with files after its start: it reads password files and certificates again, and removes or
//! writes files when it stops.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Resource, Signal, getrlimit};
use slabwise_client::process::{user_arguments, wait};

use super::logged_server::{LoggedServer, Setup};
use crate::support::certificates::Authority;
use crate::support::{Server, ServerCommand, built_slabwise, wait_until};

/// The time for which a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// True if the server accepts this password of the user `user`.
fn accepts(server: &LoggedServer, password: &str) -> bool {
    server.connect().set("login", format!("user {password}").as_bytes()) == "STORED"
}

#[test]
fn a_replaced_password_file_is_read_again() {
    let setup = Setup::confined();
    let file = setup.path_text("passwords");
    fs::write(&file, "user:old\n").expect("the directory is writable");
    let server = setup.start(&["-Y", &file]);
    assert!(accepts(&server, "old"));
    // The new file is another file with the same name, as editors write it.
    let new = server.setup.path("new");
    fs::write(&new, "user:new\n").expect("the directory is writable");
    fs::rename(&new, &file).expect("the directory is writable");
    server.signal(Signal::HUP);
    wait_until("the server reads the new file", DEADLINE, || accepts(&server, "new"));
    assert!(!accepts(&server, "old"));
}

/// Writes a certificate and its key as two versions of the files in `folder`, and makes links to the first version, as
/// certbot does.
fn write_versions(setup: &Setup) {
    let authority = Authority::new("ours");
    for folder in ["archive", "live"] {
        fs::create_dir(setup.path(folder)).expect("the directory is writable");
    }
    for version in [1, 2] {
        let identity = authority.server();
        for (name, text) in [("chain", &identity.chain), ("key", &identity.key)] {
            let file = setup.path(&format!("archive/{name}{version}.pem"));
            fs::write(file, text).expect("the directory is writable");
        }
    }
    link_version(setup, 1);
}

/// Makes the links in the folder `live` point to this version of the files.
fn link_version(setup: &Setup, version: u32) {
    for name in ["chain", "key"] {
        let link = setup.path(&format!("live/{name}.pem"));
        let new = setup.path("live/new");
        symlink(format!("../archive/{name}{version}.pem"), &new)
            .expect("the directory is writable");
        fs::rename(new, link).expect("the directory is writable");
    }
}

#[test]
fn certificates_behind_links_are_read_again() {
    let setup = Setup::confined();
    write_versions(&setup);
    let options = format!(
        "ssl_chain_cert={},ssl_key={}",
        setup.path_text("live/chain.pem"),
        setup.path_text("live/key.pem")
    );
    let server = setup.start(&["-Z", "-o", &options]);
    let assert_reload = |message: &str| {
        let count = || server.setup.log().matches(message).count();
        let before = count();
        server.signal(Signal::HUP);
        wait_until(message, DEADLINE, || count() > before);
    };
    assert_reload("reloaded the certificates");
    for name in ["chain", "key"] {
        let old = server.setup.path(&format!("archive/{name}1.pem"));
        fs::remove_file(old).expect("the file exists");
    }
    // The links lead to no file now, so this message shows that the server does read the files.
    assert_reload("No such file or directory");
    link_version(&server.setup, 2);
    assert_reload("reloaded the certificates");
}

#[test]
fn a_stop_removes_the_pid_file() {
    let setup = Setup::confined();
    let file = setup.path_text("pid");
    let mut server = setup.start(&["-P", &file]);
    assert!(server.setup.path("pid").exists());
    server.terminate();
    assert_eq!(server.wait_for_end(), Some(0));
    assert!(!server.setup.path("pid").exists(), "{}", server.setup.log());
}

#[test]
fn a_stop_removes_the_unix_socket() {
    let setup = Setup::confined();
    let (path, text) = (setup.path("socket"), setup.path_text("socket"));
    let command = setup.command(&["-s", &text, "-A"]);
    let mut child = command.spawn(&setup.path("ports")).expect("the process can be started");
    let mut client = None;
    wait_until("the server listens", DEADLINE, || {
        client = UnixStream::connect(&path).ok();
        client.is_some()
    });
    let mut client = client.expect("the client is connected");
    client.write_all(b"version\r\nshutdown\r\n").expect("the server reads the commands");
    let mut reply = String::new();
    client.read_to_string(&mut reply).expect("the server closes the connection");
    assert!(reply.starts_with("VERSION "), "{reply}");
    assert!(wait(&mut child).expect("the server stops").success(), "{}", setup.log());
    assert!(!path.exists(), "{}", setup.log());
}

#[test]
fn a_graceful_stop_saves_the_items() {
    let setup = Setup::confined();
    let (file, pid_file) = (setup.path_text("memory"), setup.path_text("pid"));
    let flags = ["-m", "64", "-e", &file, "-P", &pid_file];
    let mut server = setup.start(&flags);
    assert_eq!(server.connect().set("key", b"value"), "STORED");
    server.signal(Signal::USR1);
    assert_eq!(server.wait_for_end(), Some(0), "{}", server.setup.log());
    let LoggedServer { setup, .. } = server;
    let server = setup.start(&flags);
    assert_eq!(server.connect().get("key").as_deref(), Some(&b"value"[..]));
}

/// The text file with the pattern of the paths of core files.
const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

#[test]
fn a_crash_writes_a_core_file() {
    let pattern = fs::read_to_string(CORE_PATTERN).expect("the file /proc is mounted");
    if pattern.contains(['|', '/']) || getrlimit(Resource::Core).maximum == Some(0) {
        return println!("skipped: core files are not written to the working directory: {pattern}");
    }
    let setup = Setup::confined();
    let folder = setup.path_text("");
    // The shell changes the working directory.
    let command = ServerCommand::new("sh")
        .with(&["-c", "cd \"$0\" && exec \"$@\"", &folder, &built_slabwise().program()])
        .with(&["-l", "127.0.0.1", "-p", "-1", "-o", "drop_privileges,debug_commands", "-r"])
        .with(user_arguments());
    let mut server = Server::start(&command);
    server.connect().send(b"debugconfine abort\r\n");
    assert_eq!(server.wait_for_signal(), Some(Signal::ABORT.as_raw()));
    let entries = fs::read_dir(folder).expect("the directory exists");
    let core = entries
        .map(|entry| entry.expect("the directory is readable"))
        .find(|entry| entry.file_name().to_string_lossy().starts_with("core"))
        .expect("the kernel has written a core file");
    assert!(core.metadata().expect("the file exists").len() > 0);
}
