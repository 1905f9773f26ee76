//! Page moves, asked for over a connection, and a reader that is in their way.

use std::time::Duration;

use super::{Client, Server, wait_until};

const DEADLINE: Duration = Duration::from_secs(20);

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A move has begun.
    Begun,
    /// One is under way already.
    Busy,
}

/// Asks for a page of a class to go to the free pages.
pub fn ask_for_page(client: &mut Client, class: u64) -> Asked {
    match client.ask(&format!("slabs reassign {class} 0")).as_str() {
        "OK" => Asked::Begun,
        "BUSY currently processing reassign request" => Asked::Busy,
        refusal => panic!("a page of class {class} cannot be moved: {refusal}"),
    }
}

/// The number of the class that an item lies in.
pub fn class_of(client: &mut Client, key: &str) -> u64 {
    let shown = client.ask(&format!("me {key}"));
    let class = shown.split(' ').find_map(|field| field.strip_prefix("cls=")?.parse().ok());
    class.unwrap_or_else(|| panic!("me {key} was answered {shown:?}"))
}

/// A client that asks for a value of 16 KiB or more again and again, begins to read and stops in the middle.
pub fn stopped_reader(server: &Server, key: &str) -> Client {
    const COPIES: usize = 5_000;
    const READ_BYTES: usize = 10_000;
    let mut reader = server.connect();
    reader.send(format!("get {key}\r\n").repeat(COPIES).as_bytes());
    assert_eq!(reader.read_exact(READ_BYTES).len(), READ_BYTES);
    reader
}

/// Asks for pages of the class until a move does not come to an end: a reader holds what lies there.
pub fn begin_move_that_is_held(client: &mut Client, class: u64) {
    /// A page that nobody holds is empty long before it has been looked at so often.
    const LOOKS: usize = 50;
    wait_until("a move is held up", DEADLINE, || {
        ask_for_page(client, class);
        (0..LOOKS).all(|_| client.stat("slab_reassign_running") == 1)
    });
}
