//! Checks that a server that is gone, silent or no memcached ends the observation with one error.

use slabwise_client::{Connector, ServerAddress, Timeouts};
use slabwise_observer::traffic::{Options, Traffic, TrafficError};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// The statistics of a busy server without items.
const STATS: &[u8] = b"STAT pid 7\r\nSTAT uptime 50\r\nSTAT time 1050\r\nSTAT cmd_get 9\r\n\
    STAT limit_maxbytes 8388608\r\nSTAT rusage_user 9.5\r\nSTAT rusage_system 1.0\r\nSTAT get_misses 1\r\n\
    STAT log_worker_dropped 0\r\nSTAT log_watcher_skipped 0\r\nSTAT log_worker_written 0\r\nEND\r\n";
const TIMEOUT: Duration = Duration::from_millis(300);

/// Observes a server, and returns the error that ends the observation.
fn error_of(address: &ServerAddress) -> TrafficError {
    let timeouts = Timeouts { connect: TIMEOUT, read: TIMEOUT, reply: 10 * TIMEOUT };
    let connector = Connector::new(address.clone(), timeouts);
    let traffic = Traffic::start(&connector, Options::default()).expect("a thread starts");
    loop {
        if let Some(error) = traffic.error() {
            assert!(traffic.error().is_none(), "there is one error");
            return error;
        }
        thread::yield_now();
    }
}

/// Starts a server that answers each line of each connection with `reply`, whose second argument is the number of the
/// request. Returns its address.
fn server(reply: fn(&str, u32) -> Vec<u8>) -> ServerAddress {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || serve(connection, reply));
        }
    });
    ServerAddress::Tcp(address.to_string())
}

fn serve(mut connection: TcpStream, reply: fn(&str, u32) -> Vec<u8>) {
    let input = connection.try_clone().expect("the socket can be shared");
    for (number, line) in (0..).zip(BufReader::new(input).lines()) {
        let Ok(line) = line else { return };
        if connection.write_all(&reply(&line, number)).is_err() {
            return;
        }
    }
}

/// The reply to `stats` commands. The processor time increases.
fn stats(line: &str, number: u32) -> Vec<u8> {
    match line {
        "stats" => {
            String::from_utf8_lossy(STATS).replace("9.5", &format!("{number}.5")).into_bytes()
        }
        _ => b"END\r\n".to_vec(),
    }
}

#[test]
fn a_closed_port_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    drop(listener);
    let error = error_of(&ServerAddress::Tcp(address.to_string()));
    assert!(error.to_string().contains("cannot connect"), "{error}");
}

#[test]
fn a_silent_server_is_an_error() {
    let error = error_of(&server(|_, _| vec![]));
    assert!(error.to_string().contains("timeout"), "{error}");
}

#[test]
fn another_protocol_is_an_error() {
    let error = error_of(&server(|_, _| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()));
    assert!(error.to_string().contains("HTTP/1.1 400"), "{error}");
}

#[test]
fn missing_statistics_are_an_error_that_names_them() {
    let error = error_of(&server(|_, _| b"END\r\n".to_vec()));
    assert!(error.to_string().contains("'pid'"), "{error}");
    // slabwise and memcached 1.6 can be watched, and report the processor time.
    let error = error_of(&server(|line, number| {
        String::from_utf8_lossy(&stats(line, number)).replace("rusage_user", "x").into_bytes()
    }));
    assert!(error.to_string().contains("'rusage_user'"), "{error}");
}

#[test]
fn a_refused_watch_is_an_error_with_its_reason() {
    let error = error_of(&server(|line, number| match line.starts_with("watch") {
        true => b"CLIENT_ERROR watch commands not allowed\r\n".to_vec(),
        false => stats(line, number),
    }));
    assert!(error.to_string().contains("without -W"), "{error}");
}

#[test]
fn garbage_after_watch_is_an_error() {
    let error = error_of(&server(|line, number| match line.starts_with("watch") {
        true => b"OK\r\n\xff\xfe garbage\r\n".to_vec(),
        false => stats(line, number),
    }));
    assert!(error.to_string().contains("garbage"), "{error}");
}
