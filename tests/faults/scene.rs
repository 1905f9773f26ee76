//! A server to misbehave against, and what must hold when the misbehaviour is over.

use std::time::Duration;

use crate::support::{Client, Server, is_memcached, under_test, wait_until};

/// How long a server may take to let go of what a client left behind.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(20);
/// Descriptors that a server may keep beside its connections' (a log, a spare).
const DESCRIPTORS_SPARE: usize = 8;
const MIB: u64 = 1 << 20;
/// Buffers that a server may keep for its next clients.
const RESIDENT_SPARE_BYTES: u64 = 48 * MIB;

/// A server, and what it held before anybody misbehaved.
pub struct Scene {
    pub server: Server,
    memory_limit_bytes: u64,
    resident_bytes: u64,
    descriptor_count: usize,
}

impl Scene {
    /// Starts a server with so much item memory and more flags.
    pub fn start(memory_limit_mib: u64, flags: &[&str]) -> Scene {
        let limit = memory_limit_mib.to_string();
        let command = under_test().with(&["-m", &limit]).with(flags);
        let server = Server::start(&command);
        serve_one(&mut server.connect(), 0);
        Scene {
            memory_limit_bytes: memory_limit_mib * MIB,
            resident_bytes: server.resident_bytes(),
            descriptor_count: server.descriptor_count(),
            server,
        }
    }

    /// Whether the server is memcached itself: a few limits differ.
    pub fn is_memcached(&self) -> bool {
        is_memcached(&under_test())
    }

    /// Asserts what must hold while a client misbehaves: others are served, in bounded memory.
    pub fn serves_others(&self) {
        let mut clients: Vec<Client> = (0..4).map(|_| self.server.connect()).collect();
        for round in 0..250 {
            for client in &mut clients {
                serve_one(client, round);
            }
        }
        self.is_bounded();
    }

    /// Asserts that memory is within its limit and a fixed allowance.
    pub fn is_bounded(&self) {
        let limit = self.resident_bytes + self.memory_limit_bytes + RESIDENT_SPARE_BYTES;
        let resident = self.server.resident_bytes();
        assert!(resident <= limit, "{resident} bytes are resident, {limit} are allowed");
    }

    /// Asserts what must hold afterwards: a fresh client is served, the misbehaving ones forgotten.
    pub fn recovers(&self) {
        self.serves_others();
        let limit = self.descriptor_count + DESCRIPTORS_SPARE;
        wait_until("the descriptors are closed", RECOVERY_DEADLINE, || {
            self.server.descriptor_count() <= limit
        });
    }
}

/// A few requests of which every answer is known.
fn serve_one(client: &mut Client, round: usize) {
    let value = format!("value of round {round}");
    // Under full memory a small item may be refused or evicted, but the answer comes.
    let stored = client.set("witness", value.as_bytes());
    let found = client.get("witness");
    match stored.as_str() {
        "STORED" => assert!(found.is_none_or(|found| found.starts_with(b"value of round "))),
        refusal => assert_eq!(refusal, "SERVER_ERROR out of memory storing object"),
    }
    assert!(client.ask("version").starts_with("VERSION "));
}
