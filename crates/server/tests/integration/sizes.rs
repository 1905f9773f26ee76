//! The item size limit `-I` and the memory limit with `-M`: refused values, and values that are stored.

use crate::support::Server;
use slabwise_base::memcached;
use std::io::{Read, Write};

/// The bytes of an item other than its value, in memcached's count, with a key of one byte.
const OVERHEAD_BYTES: usize = memcached::beside_value_bytes(1);

fn set(server: &Server, value_len: usize) -> &'static str {
    let mut client = server.connect();
    client.send(format!("set k 0 0 {value_len}\r\n"));
    client.send(vec![b'x'; value_len]);
    client.send("\r\n");
    match client.read_line().as_str() {
        "STORED\r\n" => "stored",
        "SERVER_ERROR object too large for cache\r\n" => "too large",
        other => panic!("a value of {value_len} bytes: {other}"),
    }
}

#[test]
fn the_largest_value_is_the_same_as_in_memcached() {
    for (limit, limit_bytes) in [("512k", 512 << 10), ("1m", 1 << 20), ("2m", 2 << 20)] {
        for preset in [&[][..], &["-o", "preset=memcached"]] {
            let args = [&["-m", "64", "-I", limit], preset].concat();
            let server = Server::start(&args);
            let value_len_max = limit_bytes - OVERHEAD_BYTES;
            assert_eq!(set(&server, value_len_max), "stored", "{args:?}");
            assert_eq!(set(&server, value_len_max + 1), "too large", "{args:?}");
            let mut client = server.connect();
            // After the failed set, the server has deleted the old value, so that no client reads it.
            client.ask("get k\r\n", "END\r\n");
            assert_eq!(client.stat("stats", "store_too_large"), "1");
            assert_eq!(
                client.stat("stats", "delete_hits"),
                "0",
                "a failed set does not count as a delete"
            );
        }
    }
}

#[test]
fn a_value_of_a_hundred_megabytes_round_trips() {
    let server = Server::start(&["-m", "300", "-I", "128m"]);
    let value: Vec<u8> = (0..100_000_000u32).map(|n| (n ^ (n >> 13)) as u8).collect();
    let mut client = server.connect();
    let mut writer = client.split();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(format!("set k 0 0 {}\r\n", value.len()).as_bytes()).expect("sent");
            writer.write_all(&value).expect("the server reads");
            writer.write_all(b"\r\nget k\r\n").expect("the server reads");
        });
        client.expect("STORED\r\n");
        client.expect(format!("VALUE k 0 {}\r\n", value.len()));
        let mut received = vec![0; value.len()];
        client.split().read_exact(&mut received).expect("the server answers");
        assert!(received == value, "the returned value differs");
        client.expect("\r\nEND\r\n");
    });
}

#[test]
fn without_eviction_a_full_cache_refuses_stores_and_keeps_its_items() {
    let server = Server::start(&["-M", "-m", "8"]);
    let mut client = server.connect();
    let value = vec![b'x'; 100_000];
    let mut stored = 0;
    loop {
        client.send(format!("set k{stored} 0 0 100000\r\n"));
        client.send(&value);
        client.send("\r\n");
        match client.read_line().as_str() {
            "STORED\r\n" => stored += 1,
            "SERVER_ERROR out of memory storing object\r\n" => break,
            other => panic!("{other}"),
        }
        assert!(stored < 100, "8 MB hold no 100 values of 100,000 bytes");
    }
    assert!(stored > 50, "{stored} values in 8 MB");
    assert_eq!(client.stat("stats", "curr_items"), stored.to_string());
    assert_eq!(client.stat("stats", "evictions"), "0");
    assert_eq!(client.stat("stats", "store_no_memory"), "1");
}
