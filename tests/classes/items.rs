//! Items of mixed sizes. Every server gets the same ones.

use crate::support::{Client, Server};

const SEND_SIZE_BYTES: usize = 1 << 20;

/// Returns value lengths: most are near a few sizes, the rest are spread out.
pub fn mixed_value_lens(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(|number| match number % 10 {
        0..5 => 40 + (number * 7919) % 30,
        5..8 => 390 + (number * 104_729) % 24,
        8 => 1000 + (number * 1_299_709) % 400,
        _ => 100 + (number * 15_485_863) % 5000,
    })
}

/// Stores values of these lengths under keys of equal length and waits until the server has read them all.
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
    assert!(client.ask("version").starts_with("VERSION"), "the server has read every request");
    assert_eq!(client.stat("evictions"), 0, "no item was evicted");
}

/// Returns the number of pages in all classes, from `stats slabs`.
pub fn pages(client: &mut Client) -> u64 {
    client.class_numbers("total_pages").into_iter().sum()
}
