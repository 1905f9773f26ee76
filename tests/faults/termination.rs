//! The end of a server in the middle of its work.

use std::io::Write;

use super::scene::Scene;

#[test]
fn sigterm_in_the_middle() {
    let mut scene = Scene::start(64, &[]);
    let mut busy = Vec::new();
    for index in 0..8 {
        let mut client = scene.server.connect();
        assert_eq!(client.set(&format!("key{index}"), &[b'v'; 1000]), "STORED");
        let mut writer = client.stream().try_clone().expect("a socket can be cloned");
        // Keeps asking until the server is gone.
        busy.push(std::thread::spawn(move || {
            let requests = format!("get key{index}\r\n").repeat(100).into_bytes();
            while writer.write_all(&requests).is_ok() {}
        }));
        // Reads until then, too.
        busy.push(std::thread::spawn(move || {
            client.read_to_end().expect("the connection ends with the server");
        }));
    }
    let mut half = scene.server.connect();
    half.send(b"set half 0 0 100000\r\nonly the beginning");
    scene.server.terminate();
    assert_eq!(scene.server.wait_for_end(), Some(0), "SIGTERM ends the server cleanly");
    for thread in busy {
        thread.join().expect("a client meets nothing but the end of its connection");
    }
}
