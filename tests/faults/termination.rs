//! Termination by a signal while clients are active.

use std::io::Write;

use super::fixture::Fixture;

#[test]
fn a_server_exits_on_sigterm_while_clients_send_requests() {
    let mut fixture = Fixture::start(64, &[]);
    let mut busy = Vec::new();
    for index in 0..8 {
        let mut client = fixture.server.connect();
        assert_eq!(client.set(&format!("key{index}"), &[b'v'; 1000]), "STORED");
        let mut writer = client.stream().try_clone().expect("a socket can be cloned");
        // This thread sends requests until the server has closed the connection.
        busy.push(std::thread::spawn(move || {
            let requests = format!("get key{index}\r\n").repeat(100).into_bytes();
            while writer.write_all(&requests).is_ok() {}
        }));
        // This thread reads replies until the server has closed the connection.
        busy.push(std::thread::spawn(move || {
            client.read_to_end().expect("the server closes the connection when it exits");
        }));
    }
    let mut uploader = fixture.server.connect();
    uploader.send(b"set half 0 0 100000\r\nonly the beginning");
    fixture.server.terminate();
    assert_eq!(fixture.server.wait_for_end(), Some(0), "the server exits with code 0 on SIGTERM");
    for thread in busy {
        thread.join().expect("a client gets no error except the end of its connection");
    }
}
