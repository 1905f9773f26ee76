//! Termination by a signal while clients are active.

use std::io::Write;

use super::fixture::Fixture;

#[test]
fn sigterm_under_load_exits_cleanly() {
    let mut fixture = Fixture::start(64, &[]);
    let mut busy = Vec::new();
    for index in 0..8 {
        let mut client = fixture.server.connect();
        assert_eq!(client.set(&format!("key{index}"), &[b'v'; 1000]), "STORED");
        let mut writer = client.stream().try_clone().expect("a socket can be cloned");
        // Sends requests until the server is gone.
        busy.push(std::thread::spawn(move || {
            let requests = format!("get key{index}\r\n").repeat(100).into_bytes();
            while writer.write_all(&requests).is_ok() {}
        }));
        // Reads replies until the server is gone.
        busy.push(std::thread::spawn(move || {
            client.read_to_end().expect("the connection ends with the server");
        }));
    }
    let mut half = fixture.server.connect();
    half.send(b"set half 0 0 100000\r\nonly the beginning");
    fixture.server.terminate();
    assert_eq!(fixture.server.wait_for_end(), Some(0), "the server exits cleanly on SIGTERM");
    for thread in busy {
        thread.join().expect("a client sees nothing but the end of its connection");
    }
}
