//! A graceful stop while clients are at it.

use std::thread;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::Client;

const WRITERS: usize = 4;
/// Stored by each writer before the stop is asked for.
const STORES_MIN: usize = 500;

fn value(writer: usize, number: usize) -> Vec<u8> {
    format!("{writer}:{number};").repeat(1 + number % 40).into_bytes()
}

/// Stores one key after the other until the server is gone; returns how many were acknowledged.
fn write(mut client: Client, writer: usize, begun: &std::sync::mpsc::Sender<()>) -> usize {
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
            begun.send(()).expect("the test waits");
        }
    }
    unreachable!("the server ends first")
}

#[test]
fn all_that_was_acknowledged_is_there() {
    let file = MemoryFile::new();
    let server = file.start(&["-m", "256"]);
    let large = vec![b'l'; 900_000];
    assert_eq!(server.connect().set("large", &large), "STORED");
    // An upload that never ends, and a reader that never reads: it holds pins.
    let mut half = server.connect();
    half.send(b"set half 0 0 800000\r\nonly the beginning");
    let mut deaf = server.connect();
    deaf.send("get large\r\n".repeat(200).as_bytes());
    let (begun, begins) = std::sync::mpsc::channel();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, begun) = (server.connect(), begun.clone());
            thread::spawn(move || write(client, writer, &begun))
        })
        .collect();
    (0..WRITERS).for_each(|_| begins.recv().expect("every writer gets that far"));
    stop_gracefully(server);
    let stored: Vec<usize> =
        writers.into_iter().map(|writer| writer.join().expect("a writer ends well")).collect();

    let server = file.start(&["-m", "256"]);
    let mut client = server.connect();
    for (writer, &count) in stored.iter().enumerate() {
        assert!(count > STORES_MIN);
        for number in 0..count {
            let found = client.get(&format!("{writer}-{number}"));
            assert_eq!(found, Some(value(writer, number)), "{writer}-{number} of {count}");
        }
    }
    assert_eq!(client.get("half"), None);
    assert_eq!(client.get("large"), Some(large));
}
