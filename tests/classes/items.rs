//! Items of mixed sizes. Every server in these tests stores the same items.

use crate::support::{Client, Server};

/// The client sends the collected requests when they have more than this number of bytes.
const SEND_SIZE_BYTES: usize = 1 << 20;

/// Returns the lengths of values: 90 % are near 55, 400 or 1,200 bytes, and 10 % are spread from 100 to 5,099 bytes.
pub fn mixed_value_lens(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(|number| match number % 10 {
        0..5 => 40 + (number * 7919) % 30,
        5..8 => 390 + (number * 104_729) % 24,
        8 => 1000 + (number * 1_299_709) % 400,
        _ => 100 + (number * 15_485_863) % 5000,
    })
}

/// Stores values of these lengths under keys of ten bytes, and waits until the server has stored all of them.
pub fn store(server: &Server, value_lens: impl Iterator<Item = usize>) {
    let mut client = server.connect();
    let mut bytes = Vec::new();
    for (number, value_len) in value_lens.enumerate() {
        let head = format!("set k{number:09} 0 0 {value_len} noreply\r\n");
        bytes.extend_from_slice(head.as_bytes());
        bytes.resize(bytes.len() + value_len, b'v');
        bytes.extend_from_slice(b"\r\n");
        if bytes.len() > SEND_SIZE_BYTES {
            client.send(&bytes);
            bytes.clear();
        }
    }
    client.send(&bytes);
    assert!(
        client.ask("version").starts_with("VERSION"),
        "the server answers after it has served all stores"
    );
    assert_eq!(client.stat("evictions"), 0, "all items fit into the server's memory");
}

/// Returns the number of pages that all classes own together, from `stats slabs`.
pub fn pages(client: &mut Client) -> u64 {
    client.class_numbers("total_pages").into_iter().sum()
}
