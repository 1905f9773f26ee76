//! A graceful stop while clients store items.

use std::thread;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::Client;

const WRITERS: usize = 4;
/// The number of stores by each writer before the stop.
const STORES_MIN: usize = 500;

fn value(writer: usize, number: usize) -> Vec<u8> {
    format!("{writer}:{number};").repeat(1 + number % 40).into_bytes()
}

/// Stores one key after another until the server stops. Returns the number of acknowledged stores.
fn write(mut client: Client, writer: usize, started: &std::sync::mpsc::Sender<()>) -> usize {
    for number in 0.. {
        let value = value(writer, number);
        let mut bytes = format!("set {writer}-{number} 0 0 {}\r\n", value.len()).into_bytes();
        bytes.extend_from_slice(&value);
        bytes.extend_from_slice(b"\r\n");
        let sent = client.try_send(&bytes).is_ok();
        match sent.then(|| client.try_read_line()) {
            Some(Ok(Some(line))) => assert_eq!(line, b"STORED"),
            _ => return number,
        }
        if number == STORES_MIN {
            started.send(()).expect("the test waits");
        }
    }
    unreachable!("the server ends first")
}

#[test]
fn a_graceful_stop_under_load_keeps_acknowledged_stores() {
    let file = MemoryFile::new();
    let server = file.start(&["-m", "256"]);
    let large = vec![b'l'; 900_000];
    assert_eq!(server.connect().set("large", &large), "STORED");
    // An upload that never ends, and a reader that never reads and so holds pins.
    let mut unfinished = server.connect();
    unfinished.send(b"set unfinished 0 0 800000\r\nonly the beginning");
    let mut never_reads = server.connect();
    never_reads.send("get large\r\n".repeat(200).as_bytes());
    let (started, starts) = std::sync::mpsc::channel();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, started) = (server.connect(), started.clone());
            thread::spawn(move || write(client, writer, &started))
        })
        .collect();
    (0..WRITERS).for_each(|_| starts.recv().expect("every writer reaches its minimum"));
    stop_gracefully(server);
    let stored: Vec<usize> =
        writers.into_iter().map(|writer| writer.join().expect("no writer panics")).collect();

    let server = file.start(&["-m", "256"]);
    let mut client = server.connect();
    for (writer, &count) in stored.iter().enumerate() {
        assert!(count > STORES_MIN);
        for number in 0..count {
            let found = client.get(&format!("{writer}-{number}"));
            assert_eq!(found, Some(value(writer, number)), "{writer}-{number} of {count}");
        }
    }
    assert_eq!(client.get("unfinished"), None);
    assert_eq!(client.get("large"), Some(large));
}
