//! The connection limit `-c`, and many short connections.

use crate::support::{Client, Server, wait_until};
use std::net::TcpStream;

/// Returns a connection on which the server has answered a request, so the server counts the connection.
fn connected(server: &Server) -> Client<TcpStream> {
    let mut client = server.connect();
    client.send("get nothing\r\n");
    client.expect("END\r\n");
    client
}

fn stat(client: &mut Client<TcpStream>, name: &str) -> u64 {
    client.stat("stats", name).parse().expect("a number")
}

#[test]
fn at_the_limit_clients_get_an_error_and_are_closed() {
    let server = Server::start(&["-c", "3"]);
    let mut clients: Vec<_> = (0..3).map(|_| connected(&server)).collect();
    let mut turned_away = server.connect();
    assert_eq!(turned_away.read_to_end(), b"ERROR Too many open connections\r\n");
    assert_eq!(stat(&mut clients[0], "rejected_connections"), 1);
    clients.pop();
    wait_until("a connection is accepted again", || {
        let mut client = server.connect();
        client.half_close_after("get nothing\r\n") == b"END\r\n"
    });
}

#[test]
fn without_maxconns_fast_clients_wait_for_a_free_connection() {
    let server = Server::start(&["-c", "2", "-o", "no_maxconns_fast"]);
    let mut first = connected(&server);
    let second = connected(&server);
    let mut waiting = server.connect();
    waiting.send("get nothing\r\n");
    wait_until("accepting is paused", || stat(&mut first, "listen_disabled_num") >= 1);
    assert_eq!(stat(&mut first, "curr_connections"), 2);
    drop(second);
    waiting.expect("END\r\n");
}

#[test]
fn thousands_of_connections_are_released() {
    let server = Server::start(&["-t", "2", "-c", "4096"]);
    let mut watcher = connected(&server);
    let mut peak = 0;
    for _ in 0..5 {
        let clients: Vec<_> = (0..500).map(|_| connected(&server)).collect();
        peak = peak.max(stat(&mut watcher, "curr_connections"));
        // Half of the clients disconnect in the middle of a request.
        for (index, mut client) in clients.into_iter().enumerate() {
            if index % 2 == 0 {
                client.send("get half of a requ");
            }
        }
        wait_until("all connections are closed", || stat(&mut watcher, "curr_connections") == 1);
    }
    assert!(peak >= 501, "at most {peak} at the same time");
}
