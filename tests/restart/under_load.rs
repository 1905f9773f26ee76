//! A graceful stop while clients store items. The next server must have every item whose store was acknowledged.

use std::thread;

use super::memory_file::{MemoryFile, stop_gracefully};
use crate::support::Client;

/// The number of clients that store items.
const WRITERS: usize = 4;
/// The minimum number of stores by each writer before the test stops the server.
const STORES_MIN: usize = 500;

/// Returns the value of an item.
fn value(writer: usize, number: usize) -> Vec<u8> {
    format!("{writer}:{number};").repeat(1 + number % 40).into_bytes()
}

/// Stores one key after another until the server closes the connection. Returns the number of acknowledged stores.
/// Notifies `started` after the minimum number of stores.
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
            started.send(()).expect("the test's thread receives the notification");
        }
    }
    unreachable!("the server closes the connection before the numbers end")
}

#[test]
fn a_graceful_stop_keeps_every_acknowledged_store() {
    let file = MemoryFile::new();
    let server = file.start(&["-m", "256"]);
    let large = vec![b'l'; 900_000];
    assert_eq!(server.connect().set("large", &large), "STORED");
    // One client never completes its upload. Another client never reads its replies, so the server keeps pins for it.
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
    (0..WRITERS)
        .for_each(|_| starts.recv().expect("each writer stores the minimum number of items"));
    stop_gracefully(server);
    let stored: Vec<usize> = writers
        .into_iter()
        .map(|writer| writer.join().expect("the server acknowledged each store of a writer"))
        .collect();

    let server = file.start(&["-m", "256"]);
    let mut client = server.connect();
    for (writer, &count) in stored.iter().enumerate() {
        assert!(count > STORES_MIN);
        for number in 0..count {
            let found = client.get(&format!("{writer}-{number}"));
            assert_eq!(
                found,
                Some(value(writer, number)),
                "item {number} of the {count} items that writer {writer} stored"
            );
        }
    }
    assert_eq!(client.get("unfinished"), None);
    assert_eq!(client.get("large"), Some(large));
}
