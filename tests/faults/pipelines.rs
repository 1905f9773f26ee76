//! Clients that send many requests at once. The server may read only a limited part of the requests before it serves
//! them.

use std::io::Write;
use std::net::TcpStream;

use rustix::process::Signal;

use super::bytes::Random;
use super::fixture::Fixture;
use crate::support::Client;

/// The number of clients.
const CLIENTS: usize = 1_000;
/// The number of bytes that each client sends, or as many as its socket accepts.
const SENT_LEN: usize = 100_000;
const MIB: u64 = 1 << 20;

#[test]
fn requests_that_arrive_at_once_take_a_limited_amount_of_memory() {
    // The budget for requests and replies is 32 MiB. If the server read 64 KiB of each client, it would need 62 MiB.
    const BYTES_MAX: u64 = 48 * MIB;
    let fixture = Fixture::start(64, &["-c", "2000", "-t", "1"]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| fixture.server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("mn"), "MN");
    }
    let before = fixture.server.resident_bytes();
    // The server does not run until all requests have arrived, so that it finds all of them at once.
    fixture.server.signal(Signal::STOP);
    let request = format!("get {}\r\n", "k".repeat(240));
    let requests = request.repeat(SENT_LEN / request.len()).into_bytes();
    for client in &clients {
        let mut stream: &TcpStream = client.stream();
        stream.set_nonblocking(true).expect("a socket can be made non-blocking");
        // The socket may accept only a part.
        let _ = stream.write(&requests);
    }
    fixture.server.signal(Signal::CONT);
    for client in &mut clients {
        client.stream().set_nonblocking(false).expect("a socket can be made blocking");
        assert_eq!(client.read_line(), "END", "the server serves every client");
    }
    let peak = fixture.server.peak_resident_bytes() - before;
    println!("{} MiB were resident in addition", peak / MIB);
    assert!(peak <= BYTES_MAX, "{peak} bytes were resident in addition to {before}");
    drop(clients);
    fixture.check_recovery();
}

#[test]
fn values_of_all_sizes_in_one_pipeline_are_stored_whole() {
    // Sizes around those at which the server changes how it receives a value.
    const LENS: [usize; 9] = [0, 10, 300, 4_000, 4_096, 32_000, 40_000, 65_536, 200_000];
    let mut random = Random::from_environment();
    let fixture = Fixture::start(64, &["-t", "1"]);
    let mut client = fixture.server.connect();
    for pipeline in 0..60 {
        let values: Vec<Vec<u8>> = (0..12)
            .map(|_| {
                let len = LENS[random.below(LENS.len())] + random.below(20);
                let first = random.below(256);
                (0..len).map(|at| (first + at + (at >> 8)) as u8).collect()
            })
            .collect();
        let mut requests = Vec::new();
        for (index, value) in values.iter().enumerate() {
            requests.extend(format!("set k{index} 0 0 {}\r\n", value.len()).bytes());
            requests.extend_from_slice(value);
            requests.extend_from_slice(b"\r\n");
        }
        client.send(&requests);
        for index in 0..values.len() {
            assert_eq!(client.read_line(), "STORED", "pipeline {pipeline}, request {index}");
        }
        for (index, value) in values.iter().enumerate() {
            let found = client.get(&format!("k{index}"));
            assert!(found.as_ref() == Some(value), "pipeline {pipeline}, key k{index} differs");
        }
    }
    fixture.check_recovery();
}
