//! Page moves that a client requests with `slabs reassign`, and a reader that blocks such a move.

use socket2::SockRef;
use std::time::Duration;

use super::{Client, Server, wait_until};

/// The time within which a reader and a page move must become blocked.
const DEADLINE: Duration = Duration::from_secs(20);

/// The server's reply to a request for a page move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveReply {
    /// The requested move has started.
    Started,
    /// The request was refused, because another move is running.
    Busy,
}

/// Requests that a page of the class moves to the page pool.
pub fn request_page_move(client: &mut Client, class: u64) -> MoveReply {
    match client.ask(&format!("slabs reassign {class} 0")).as_str() {
        "OK" => MoveReply::Started,
        "BUSY currently processing reassign request" => MoveReply::Busy,
        refusal => panic!("the server moves a page of class {class}, but replied {refusal:?}"),
    }
}

/// Returns the number of the class that holds an item.
pub fn class_of(client: &mut Client, key: &str) -> u64 {
    let reply = client.ask(&format!("me {key}"));
    let class = reply.split(' ').find_map(|field| field.strip_prefix("cls=")?.parse().ok());
    class.unwrap_or_else(|| panic!("the reply to `me {key}` shows the class, but is {reply:?}"))
}

/// Returns a client that requests a value many times, and stops reading in the middle of a value. If the value has at
/// least 16 KiB, the server pins the item until the connection closes.
pub fn stalled_reader(server: &Server, key: &str) -> Client {
    const COPIES: usize = 5_000;
    const READ_BYTES: usize = 10_000;
    let mut reader = server.connect();
    // With a small buffer the output is blocked soon.
    let socket = SockRef::from(reader.stream());
    socket.set_recv_buffer_size(16 << 10).expect("a socket accepts a buffer size");
    reader.send(format!("get {key}\r\n").repeat(COPIES).as_bytes());
    assert_eq!(reader.read_exact(READ_BYTES).len(), READ_BYTES);
    let mut other = server.connect();
    // Before its output is blocked, the server unpins the item after each value. No other client's output is blocked.
    wait_until("the output to the reader is blocked", DEADLINE, || other.is_output_blocked());
    reader
}

/// Requests page moves from the class until a move is blocked, because a reader pins an item on the page.
pub fn start_blocked_move(client: &mut Client, class: u64) {
    /// The number of checks after which a running move counts as blocked. A move without pinned items takes less time.
    const CHECKS: usize = 50;
    wait_until("a page move is blocked by the reader's pin", DEADLINE, || {
        request_page_move(client, class);
        (0..CHECKS).all(|_| client.stat("slab_reassign_running") == 1)
    });
}
