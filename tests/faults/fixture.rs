//! A server for misbehaving clients, and the checks that run during and after the misbehaviour.

use std::time::Duration;

use crate::support::{Client, Server, is_memcached, under_test, wait_until};

/// The time within which a server must release the resources of a closed connection.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(20);
/// The number of descriptors that a server may open besides its connections, for example for a log.
const DESCRIPTORS_SPARE: usize = 8;
const MIB: u64 = 1 << 20;
/// The memory that a server may keep for later connections, such as buffers, in bytes.
const RESIDENT_SPARE_BYTES: u64 = 48 * MIB;

/// A server, with its memory and descriptors before the misbehaviour.
pub struct Fixture {
    pub server: Server,
    /// The limit of item memory (`-m`), in bytes.
    memory_limit_bytes: u64,
    /// The resident memory before the misbehaviour, in bytes.
    resident_bytes: u64,
    /// The number of open descriptors before the misbehaviour.
    descriptor_count: usize,
}

impl Fixture {
    /// Starts a server with this limit of item memory and these additional flags.
    pub fn start(memory_limit_mib: u64, flags: &[&str]) -> Fixture {
        let limit = memory_limit_mib.to_string();
        let command = under_test().with(&["-m", &limit]).with(flags);
        let server = Server::start(&command);
        serve_one(&mut server.connect(), 0);
        Fixture {
            memory_limit_bytes: memory_limit_mib * MIB,
            resident_bytes: server.resident_bytes(),
            descriptor_count: server.descriptor_count(),
            server,
        }
    }

    /// True if the server under test is memcached, whose limits differ from slabwise's in a few tests.
    pub fn is_memcached(&self) -> bool {
        is_memcached(&under_test())
    }

    /// Asserts that the server serves four other clients, and that its memory is bounded.
    pub fn check_others_are_served(&self) {
        let mut clients: Vec<Client> = (0..4).map(|_| self.server.connect()).collect();
        for round in 0..250 {
            for client in &mut clients {
                serve_one(client, round);
            }
        }
        self.check_memory_is_bounded();
    }

    /// Asserts that the resident memory has grown by at most the limit of item memory and a fixed allowance.
    pub fn check_memory_is_bounded(&self) {
        let limit = self.resident_bytes + self.memory_limit_bytes + RESIDENT_SPARE_BYTES;
        let resident = self.server.resident_bytes();
        assert!(resident <= limit, "at most {limit} bytes are resident, not {resident}");
    }

    /// Asserts that the server closes the descriptors of ended connections, and then serves new clients. At the limit of
    /// connections it serves none before.
    pub fn check_recovery(&self) {
        let limit = self.descriptor_count + DESCRIPTORS_SPARE;
        wait_until(
            "the server closes the descriptors of ended connections",
            RECOVERY_DEADLINE,
            || self.server.descriptor_count() <= limit,
        );
        self.check_others_are_served();
    }
}

/// Sends a few requests, and checks each reply.
fn serve_one(client: &mut Client, round: usize) {
    let value = format!("value of round {round}");
    // If memory is full, the server may refuse or evict the item, but it must reply.
    let stored = client.set("probe", value.as_bytes());
    let found = client.get("probe");
    match stored.as_str() {
        "STORED" => assert!(found.is_none_or(|found| found.starts_with(b"value of round "))),
        refusal => assert_eq!(refusal, "SERVER_ERROR out of memory storing object"),
    }
    assert!(client.ask("version").starts_with("VERSION "));
}
