//! A server for misbehaving clients, and the checks that follow the misbehaviour.

use std::time::Duration;

use crate::support::{Client, Server, is_memcached, under_test, wait_until};

/// How long a server may take to release the resources of a closed connection.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(20);
/// Descriptors that a server may open in addition to its connections, such as a log.
const DESCRIPTORS_SPARE: usize = 8;
const MIB: u64 = 1 << 20;
/// Buffers that a server may keep for later connections.
const RESIDENT_SPARE_BYTES: u64 = 48 * MIB;

/// A server, and its memory and descriptors before the misbehaviour.
pub struct Fixture {
    pub server: Server,
    memory_limit_bytes: u64,
    resident_bytes: u64,
    descriptor_count: usize,
}

impl Fixture {
    /// Starts a server with this item memory limit and these extra flags.
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

    /// True if the server is memcached, which has different limits in a few cases.
    pub fn is_memcached(&self) -> bool {
        is_memcached(&under_test())
    }

    /// Asserts that other clients are served and memory is bounded while clients misbehave.
    pub fn serves_others(&self) {
        let mut clients: Vec<Client> = (0..4).map(|_| self.server.connect()).collect();
        for round in 0..250 {
            for client in &mut clients {
                serve_one(client, round);
            }
        }
        self.is_bounded();
    }

    /// Asserts that resident memory is below the item memory limit plus a fixed allowance.
    pub fn is_bounded(&self) {
        let limit = self.resident_bytes + self.memory_limit_bytes + RESIDENT_SPARE_BYTES;
        let resident = self.server.resident_bytes();
        assert!(resident <= limit, "{resident} bytes are resident, {limit} are allowed");
    }

    /// Asserts that a new client is served and the descriptors of the closed connections are released.
    pub fn recovers(&self) {
        self.serves_others();
        let limit = self.descriptor_count + DESCRIPTORS_SPARE;
        wait_until("the descriptors are closed", RECOVERY_DEADLINE, || {
            self.server.descriptor_count() <= limit
        });
    }
}

/// Sends a few requests and checks every reply.
fn serve_one(client: &mut Client, round: usize) {
    let value = format!("value of round {round}");
    // With full memory a small item may be refused or evicted, but the reply must arrive.
    let stored = client.set("probe", value.as_bytes());
    let found = client.get("probe");
    match stored.as_str() {
        "STORED" => assert!(found.is_none_or(|found| found.starts_with(b"value of round "))),
        refusal => assert_eq!(refusal, "SERVER_ERROR out of memory storing object"),
    }
    assert!(client.ask("version").starts_with("VERSION "));
}
