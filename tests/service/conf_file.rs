//! The file of `-o conf_file`: the command lines of the units, an existing file of memcached, errors, and SIGHUP.

use super::manager::{Manager, TIMEOUT, arguments_of_unit, assert_serves, user};
use crate::support::{Client, wait_until};
use rustix::process::Signal;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The file of Debian's memcached package.
const MEMCACHED_CONF: &str = "/usr/share/memcached/memcached.conf.default";

/// Writes a file for a server on a free port. The user is in the file, as in memcached's.
fn conf(options: &str) -> String {
    let user = user().join(" ");
    format!("# a comment\n-d\n{options}\n-l 127.0.0.1\n{user}\n")
}

/// Replaces the path of a unit's file by another one.
fn with_file(arguments: Vec<String>, file: &str, other: &Path) -> Vec<String> {
    let replaced = arguments.iter().map(|it| it.replace(file, &other.display().to_string()));
    let replaced: Vec<String> = replaced.collect();
    assert_ne!(replaced, arguments, "the unit names {file}");
    replaced
}

#[test]
fn the_command_lines_of_the_units_start_servers_side_by_side() {
    let units = [
        ("slabwise.service", "", "/etc/slabwise.conf"),
        ("slabwise@.service", "one", "/etc/slabwise/one.conf"),
        ("slabwise@.service", "two", "/etc/slabwise/two.conf"),
    ];
    let mut running = Vec::new();
    for (unit, instance, file) in units {
        let manager = Manager::new();
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = socket.local_addr().expect("the socket is bound");
        let path = manager.write_conf(&conf("-m 64"));
        let arguments = with_file(arguments_of_unit(unit, instance), file, &path);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let service = manager.start(&arguments, vec![socket.into()]);
        assert_eq!(manager.wait_until_ready(), service.id(), "-d has no effect in a file");
        running.push((address, manager, service));
    }
    for (address, ..) in &running {
        assert_serves(*address);
    }
}

#[test]
fn the_file_of_memcacheds_package_starts_the_server() {
    if !Path::new(MEMCACHED_CONF).exists() {
        return println!("skipped: Debian's package memcached is not installed (run ./test)");
    }
    let manager = Manager::new();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = socket.local_addr().expect("the socket is bound");
    // A memcached of this machine may use the port and the pid file that the file names.
    let pid_file = manager.path("pid").display().to_string();
    let file = format!("conf_file={MEMCACHED_CONF}");
    let service = manager.start(&["-o", &file, "-P", &pid_file], vec![socket.into()]);
    assert_eq!(manager.wait_until_ready(), service.id());
    assert_serves(address);
    let mut client = Client::connect(address);
    assert_eq!(client.stat("limit_maxbytes"), 64 << 20);
    assert!(manager.log().contains(":12: logfile has no effect"), "{}", manager.log());
}

#[test]
fn the_command_line_replaces_values_of_the_file() {
    let manager = Manager::new();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = socket.local_addr().expect("the socket is bound");
    let path = manager.write_conf(&conf("-m 100 -t 2"));
    let file = format!("conf_file={}", path.display());
    let _service = manager.start(&["-m", "70", "-o", &file], vec![socket.into()]);
    manager.wait_until_ready();
    let mut client = Client::connect(address);
    assert_eq!(client.stat("limit_maxbytes"), 70 << 20);
    assert_eq!(client.stat("threads"), 2);
}

#[test]
fn an_error_names_the_file_and_the_line() {
    for (options, expected) in [
        ("-m x", "slabwise.conf:3: -m: takes a whole number"),
        ("--memory 64", "slabwise.conf:3: "),
        ("-o conf_file=/other", "slabwise.conf:3: -o conf_file cannot be in a file"),
        ("-D 'x", "slabwise.conf:3: a quotation mark is not closed"),
    ] {
        let manager = Manager::new();
        let path = manager.write_conf(&conf(options));
        let file = format!("conf_file={}", path.display());
        let mut service = manager.start(&["-o", &file], Vec::new());
        assert_eq!(service.wait().code(), Some(64), "{options}");
        let log = manager.log();
        assert!(log.contains(expected) && log.lines().count() == 1, "{options}: {log}");
    }
    let manager = Manager::new();
    let mut service = manager.start(&["-o", "conf_file=/nonexistent/slabwise.conf"], Vec::new());
    assert_eq!(service.wait().code(), Some(64));
    assert!(
        manager.log().contains("-o conf_file=/nonexistent/slabwise.conf: No such file"),
        "{}",
        manager.log()
    );
}

#[test]
fn sighup_applies_a_changed_memory_limit() {
    for options in ["-m 64", "-m 64 -o drop_privileges"] {
        let manager = Manager::new();
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = socket.local_addr().expect("the socket is bound");
        let path = manager.write_conf(&conf(options));
        let file = format!("conf_file={}", path.display());
        let service = manager.start(&["-v", "-o", &file], vec![socket.into()]);
        manager.wait_until_ready();
        let reload = |text: &str| {
            manager.write_conf(&conf(text));
            service.signal(Signal::HUP);
            assert_eq!(manager.notification()[0], "RELOADING=1");
            manager.wait_until_ready();
        };
        let limit = || Client::connect(address).stat("limit_maxbytes") >> 20;
        assert_eq!(limit(), 64);
        reload(&options.replace("-m 64", "-m 80"));
        assert_eq!(limit(), 80);
        assert!(manager.log().contains("SIGHUP: -m is now 80 (MiB)"), "{}", manager.log());

        // A limit that a command has set stays if the file has the same -m as before.
        assert_eq!(Client::connect(address).ask("cache_memlimit 96"), "OK");
        reload(&options.replace("-m 64", "-m 80"));
        assert_eq!(limit(), 96);

        reload(&options.replace("-m 64", "-m 72 -c 100 -o idle_timeout=9"));
        assert_eq!(limit(), 72);
        let expected = "these options change when the server starts again: -c, -o idle_timeout";
        assert!(manager.log().contains(expected), "{}", manager.log());

        // Invalid options and limits leave the old ones active.
        reload(&options.replace("-m 64", "-m x"));
        assert!(manager.log().contains("the old options stay active"), "{}", manager.log());
        reload(&options.replace("-m 64", "-m 1000000"));
        assert!(manager.log().contains("for which addresses are reserved"), "{}", manager.log());
        assert_eq!(limit(), 72);
        // The same limit is tried again, as it may be possible now.
        reload(&options.replace("-m 64", "-m 1000000"));
        let refusals = manager.log().matches("for which addresses are reserved").count();
        assert_eq!(refusals, 2, "{}", manager.log());
    }
}

#[test]
fn a_user_in_the_file_that_is_not_root_is_ignored_with_a_warning() {
    let manager = Manager::new();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = socket.local_addr().expect("the socket is bound");
    // `-u root` also lets root start the server. Then nothing is ignored.
    let path = manager.write_conf("-u no-such-user\n");
    let file = format!("conf_file={}", path.display());
    if rustix::process::getuid().is_root() {
        let mut service = manager.start(&["-o", &file], vec![socket.into()]);
        assert_eq!(service.wait().code(), Some(1));
        assert!(
            manager.log().contains("-u no-such-user: there is no such user"),
            "{}",
            manager.log()
        );
        return;
    }
    let _service = manager.start(&["-o", &file], vec![socket.into()]);
    manager.wait_until_ready();
    assert_serves(address);
    wait_until("the server warns", TIMEOUT, || {
        manager
            .log()
            .contains("-u no-such-user has no effect, because only root can change the user")
    });
}

#[test]
fn sighup_changes_the_size_of_the_memory_file_or_says_why_not() {
    for options in ["-m 64", "-m 64 -o drop_privileges"] {
        let manager = Manager::new();
        let folder = tempfile::tempdir_in("/dev/shm").expect("a temporary folder can be created");
        // The server changes its user.
        let everyone = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everyone).expect("the folder is ours");
        let memory = folder.path().join("memory");
        let options = format!("{options} -e {}", memory.display());
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = socket.local_addr().expect("the socket is bound");
        let path = manager.write_conf(&conf(&options));
        let file = format!("conf_file={}", path.display());
        let service = manager.start(&["-v", "-o", &file], vec![socket.into()]);
        manager.wait_until_ready();
        let reload = |mib: u64| {
            manager.write_conf(&conf(&options.replace("-m 64", &format!("-m {mib}"))));
            service.signal(Signal::HUP);
            assert_eq!(manager.notification()[0], "RELOADING=1");
            manager.wait_until_ready();
        };
        let limit = || Client::connect(address).stat("limit_maxbytes") >> 20;
        let block_mib =
            || std::fs::metadata(&memory).expect("the file exists").blocks() * 512 / (1 << 20);
        for mib in [80, 32] {
            reload(mib);
            assert_eq!(limit(), mib);
            let expected = format!("SIGHUP: -m is now {mib} (MiB)");
            assert!(manager.log().contains(&expected), "{}", manager.log());
            wait_until("the file follows the limit", TIMEOUT, || block_mib() == mib);
        }
        // The addresses suffice for this limit, but the RAM disk does not.
        let (room, huge) = (rustix::fs::statvfs(folder.path()).expect("it exists"), 60_000);
        if (room.f_bfree * room.f_frsize) >> 20 > huge {
            return println!("not tested further: the RAM disk has room for {huge} MiB");
        }
        reload(huge);
        let log = manager.log();
        let expected = "the old memory limit stays active, as -m is 60000 (MiB): a limit of ";
        assert!(log.contains(expected) && log.contains("free space on it"), "{log}");
        assert_eq!((limit(), block_mib()), (32, 32));
    }
}
