//! Watchers over sockets: any worker sends lines to its watchers at once, the lines contain the reasons of closed
//! connections, and watchers never block the server.

use crate::support::{Client, Server, directory, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connection that is a watcher, and the reader of its lines.
struct Watcher {
    client: Client<TcpStream>,
    lines: BufReader<TcpStream>,
}

impl Watcher {
    fn new(server: &Server, kinds: &str) -> Watcher {
        let mut client = server.connect();
        client.ask(format!("watch {kinds}\r\n"), "OK\r\n");
        let lines = BufReader::new(client.split());
        Watcher { client, lines }
    }

    fn read_line(&mut self) -> String {
        read_line(&mut self.lines)
    }

    fn read_event(&mut self) -> (String, u64) {
        untimed(&self.read_line())
    }
}

fn read_line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).expect("the server sends a line");
    line.strip_suffix('\n').expect("a whole line").to_owned()
}

/// Returns a log line without its time and number, and its number.
fn untimed(line: &str) -> (String, u64) {
    let mut words = line.splitn(3, ' ');
    let time = words.next().and_then(|word| word.strip_prefix("ts=")).expect("a time");
    assert!(time.parse::<f64>().is_ok_and(|seconds| seconds > 1.0e9), "{line}");
    let number = words.next().and_then(|word| word.strip_prefix("gid=")).expect("a number");
    (words.next().expect("an event").to_owned(), number.parse().expect("a number"))
}

#[test]
fn a_watcher_on_any_worker_is_notified_at_once() {
    let server = Server::start(&["-t", "4"]);
    let mut watchers: Vec<_> = (0..8).map(|_| Watcher::new(&server, "fetchers")).collect();
    for round in 0..20 {
        let mut client = server.connect();
        client.ask(format!("get key{round}\r\n"), "END\r\n");
        for watcher in &mut watchers {
            let (event, number) = watcher.read_event();
            assert!(event.starts_with(&format!("type=item_get key=key{round} ")), "{event}");
            assert_eq!(number, round + 1);
        }
    }
}

#[test]
fn log_lines_of_all_workers_are_in_number_order() {
    let server = Server::start(&["-t", "4", "-o", "watcher_logbuf_size=10000"]);
    let mut watcher = Watcher::new(&server, "fetchers");
    let (clients, rounds) = (6, 200);
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let mut client = server.connect();
            std::thread::spawn(move || {
                for _ in 0..rounds {
                    client.ask("get a b c\r\n", "END\r\n");
                }
            })
        })
        .collect();
    for expected in 1..=clients * rounds * 3 {
        let (_, number) = watcher.read_event();
        assert_eq!(number, expected);
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn connection_events_include_the_reason_of_the_close() {
    let server = Server::start(&["-t", "2", "-o", "idle_timeout=1"]);
    let mut watcher = Watcher::new(&server, "connevents");
    let mut ends = |request: &str, leaves: bool, reason: &str| {
        let mut client = server.connect();
        let port = client.split().local_addr().expect("an address").port();
        let (opened, _) = watcher.read_event();
        let expected = format!("type=conn_new rip=127.0.0.1 rport={port} transport=tcp cfd=");
        let descriptor = opened.strip_prefix(&expected).expect("this client's line").to_owned();
        client.send(request);
        if leaves {
            client.half_close();
        }
        let (closed, _) = watcher.read_event();
        let expected = format!(
            "type=conn_close rip=127.0.0.1 rport={port} transport=tcp reason={reason} \
             cfd={descriptor}"
        );
        assert_eq!(closed, expected);
    };
    ends("quit\r\n", false, "normal");
    ends("", true, "normal");
    ends("set half 0 0 100\r\nof a value", true, "normal");
    ends("GET / HTTP/1.1\r\n", false, "error");
    ends(&"x".repeat(10_000), false, "error");
    // The server closes the idle client, but not the watcher, to which the idle timeout does not apply.
    ends("version\r\n", false, "idle_timeout");
}

#[test]
fn a_slow_watcher_uses_bounded_memory_and_blocks_no_other_client() {
    let server = Server::start(&["-t", "2", "-o", "watcher_logbuf_size=64"]);
    let mut slow = Watcher::new(&server, "fetchers mutations");
    let mut client = server.connect();
    let before = server.resident_bytes();
    let key = "k".repeat(200);
    let request = format!("get {key}\r\n").repeat(500);
    let skipped = |server: &Server| {
        let text = server.connect().stat("stats", "log_watcher_skipped");
        text.parse::<u64>().expect("a number")
    };
    let mut rounds = 0;
    while skipped(&server) == 0 || rounds < 100 {
        client.ask(&request, "END\r\n".repeat(500));
        rounds += 1;
        assert!(rounds < 10_000, "the kernel's buffers do not fill up");
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} more bytes are resident");
    // When the slow watcher reads again, it receives each line or, in place of skipped lines, their number.
    let total = rounds * 500;
    let mut next = 1;
    while next <= total {
        let line = slow.read_line();
        match line.strip_prefix("skipped=") {
            Some(count) => next += count.parse::<u64>().expect("a number"),
            None => {
                assert_eq!(untimed(&line).1, next);
                next += 1;
            }
        }
    }
    client.ask("get last\r\n", "END\r\n");
    assert_eq!(slow.read_event().1, total + 1);
}

#[test]
fn a_watchers_input_is_ignored_and_it_has_no_idle_timeout() {
    let server = Server::start(&["-t", "1", "-o", "idle_timeout=1"]);
    let mut noisy = Watcher::new(&server, "mutations");
    let mut writer = noisy.client.split();
    writer.write_all(&b"set a 0 0 1\r\nx\r\nquit\r\n".repeat(50_000)).expect("it is all read");
    let watchers = || server.connect().stat("stats", "log_watchers");
    assert_eq!(watchers(), "1");
    // Meanwhile the server disconnects another idle client, which is no watcher.
    let mut idle = server.connect();
    assert_eq!(idle.read_to_end(), b"");
    assert_eq!(watchers(), "1");
    let mut client = server.connect();
    client.send("stats conns\r\n");
    assert!(client.read_until_end().contains(":state conn_watch\r\n"));
    client.ask("set b 0 0 1\r\nx\r\n", "STORED\r\n");
    let (event, _) = noisy.read_event();
    assert!(event.starts_with("type=item_store key=b "), "{event}");
    noisy.client.half_close();
    assert_eq!(noisy.lines.read_to_end(&mut Vec::new()).ok(), Some(0));
    wait_until("the watcher is removed", || watchers() == "0");
}

#[test]
fn watchers_connect_and_disconnect_under_load() {
    let server = Server::start(&["-t", "4", "-m", "8", "-o", "watcher_logbuf_size=8"]);
    let address = server.address();
    let workers = (0..4).map(|thread| {
        std::thread::spawn(move || {
            let mut client = Client::tcp(address);
            for round in 0..300 {
                let key = format!("k{thread}-{}", round % 50);
                let set = format!("set {key} 0 0 9000\r\n{}\r\n", "x".repeat(9_000));
                client.ask(&set, "STORED\r\n");
                client.ask("get a b c d e f g h\r\ndelete absent\r\n", "END\r\nNOT_FOUND\r\n");
            }
        })
    });
    let watchers = (0..6).map(|thread| {
        std::thread::spawn(move || {
            for round in 0..60 {
                let mut socket = TcpStream::connect(address).expect("the server listens");
                socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
                let kinds = "fetchers mutations evictions connevents deletions sysevents";
                socket.write_all(format!("watch {kinds}\r\n").as_bytes()).expect("it is read");
                let mut lines = BufReader::new(socket);
                assert_eq!(read_line(&mut lines), "OK\r");
                // Some watchers disconnect with unread lines, so the kernel resets their connections.
                for _ in 0..(thread + round) % 40 {
                    let line = read_line(&mut lines);
                    assert!(line.starts_with("ts=") || line.starts_with("skipped="), "{line}");
                }
            }
        })
    });
    let threads: Vec<_> = workers.chain(watchers).collect();
    // The watchers that are still connected wait for events. One more client causes events until all watchers end.
    let mut client = server.connect();
    while !threads.iter().all(|thread| thread.is_finished()) {
        client.ask("get z\r\n", "END\r\n");
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    wait_until("all watchers are removed", || client.stat("stats", "log_watchers") == "0");
}

#[test]
fn evictions_by_any_thread_reach_the_watcher() {
    let server = Server::start(&["-t", "2", "-m", "8"]);
    let mut watcher = Watcher::new(&server, "evictions");
    let mut client = server.connect();
    let mut text = String::new();
    for number in 0..2_000 {
        text += &format!("set n,{number} 0 0 10000 noreply\r\n{}\r\n", "x".repeat(10_000));
    }
    client.ask(&(text + "version\r\n"), "VERSION 1.6.45\r\n");
    let (event, _) = watcher.read_event();
    assert!(event.starts_with("type=eviction key=n%2C"), "{event}");
    assert!(event.contains(" fetch=no ttl=-1 la="), "{event}");
    assert!(event.ends_with(" size=10000"), "{event}");
}

#[test]
fn clients_of_a_socket_file_are_local() {
    let directory = directory();
    let path = directory.path().join("socket");
    let text = path.to_str().expect("text").to_owned();
    let _server = Server::start_with(directory, &["-s", &text]);
    let mut watcher = UnixStream::connect(&path).expect("the server listens");
    watcher.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
    watcher.write_all(b"watch connevents\r\n").expect("the server reads");
    let mut lines = BufReader::new(watcher);
    assert_eq!(read_line(&mut lines), "OK\r");
    let mut client = Client::unix(&path);
    client.ask("version\r\n", "VERSION 1.6.45\r\n");
    drop(client);
    let (opened, _) = untimed(&read_line(&mut lines));
    assert!(opened.starts_with("type=conn_new rip=unix rport=0 transport=local cfd="), "{opened}");
    let (closed, _) = untimed(&read_line(&mut lines));
    let start = "type=conn_close rip=unix rport=0 transport=local reason=normal cfd=";
    assert!(closed.starts_with(start), "{closed}");
}
