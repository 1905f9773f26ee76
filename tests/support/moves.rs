//! Page moves requested over a connection, and a slow reader that blocks them.

use std::time::Duration;

use super::{Client, Server, wait_until};

const DEADLINE: Duration = Duration::from_secs(20);

/// The server's reply to a request for a page move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveReply {
    /// The move has started.
    Started,
    /// Another move is running.
    Busy,
}

/// Requests that a page of the class moves to the page pool.
pub fn request_page_move(client: &mut Client, class: u64) -> MoveReply {
    match client.ask(&format!("slabs reassign {class} 0")).as_str() {
        "OK" => MoveReply::Started,
        "BUSY currently processing reassign request" => MoveReply::Busy,
        refusal => panic!("a page of class {class} cannot be moved: {refusal}"),
    }
}

/// Returns the number of the class that holds an item.
pub fn class_of(client: &mut Client, key: &str) -> u64 {
    let shown = client.ask(&format!("me {key}"));
    let class = shown.split(' ').find_map(|field| field.strip_prefix("cls=")?.parse().ok());
    class.unwrap_or_else(|| panic!("me {key} got the unexpected reply {shown:?}"))
}

/// Returns a client that requests a value of at least 16 KiB many times, reads a little and stops mid-value.
pub fn stalled_reader(server: &Server, key: &str) -> Client {
    const COPIES: usize = 5_000;
    const READ_BYTES: usize = 10_000;
    let mut reader = server.connect();
    reader.send(format!("get {key}\r\n").repeat(COPIES).as_bytes());
    assert_eq!(reader.read_exact(READ_BYTES).len(), READ_BYTES);
    reader
}

/// Requests pages of the class until a move stays unfinished because a reader pins an item on the page.
pub fn start_blocked_move(client: &mut Client, class: u64) {
    /// A page without pinned items is empty long before it has been checked this often.
    const CHECKS: usize = 50;
    wait_until("a move is blocked", DEADLINE, || {
        request_page_move(client, class);
        (0..CHECKS).all(|_| client.stat("slab_reassign_running") == 1)
    });
}
