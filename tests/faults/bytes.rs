//! Malformed and incomplete requests of the text protocol.

use super::fixture::Fixture;

/// The number of connections that send random input.
const CONNECTIONS: usize = 200;

/// SplitMix64, a seeded random number generator.
pub struct Random(u64);

impl Random {
    /// Makes a generator with the seed in `FAULT_SEED`, or with a fixed seed.
    pub fn from_environment() -> Random {
        let seed = std::env::var("FAULT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(20_261_121);
        // Cargo shows the output of a test only if the test fails.
        println!("FAULT_SEED={seed}");
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a random number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64)
            .expect("a number below a usize fits into a usize")
    }
}

#[test]
fn random_bytes_do_not_affect_other_clients() {
    let fixture = Fixture::start(64, &[]);
    let mut random = Random::from_environment();
    for _ in 0..CONNECTIONS {
        let noise: Vec<u8> = (0..random.below(16 * 1024)).map(|_| random.next() as u8).collect();
        send_and_disconnect(&fixture, &noise);
    }
    fixture.check_recovery();
}

#[test]
fn random_words_of_the_protocol_do_not_affect_other_clients() {
    const WORDS: &[&str] = &[
        "get",
        "gets",
        "gat",
        "set",
        "add",
        "cas",
        "append",
        "incr",
        "delete",
        "touch",
        "stats",
        "noreply",
        "key",
        "0",
        "1",
        "-1",
        "10",
        "100",
        "4294967296",
        "18446744073709551615",
        " ",
        " ",
        " ",
        " ",
        "\r\n",
        "\r\n",
        "\r\n",
        "\n",
        "\r",
        "\0",
        "items",
        "slabs",
        "sizes",
    ];
    let fixture = Fixture::start(64, &[]);
    let mut random = Random::from_environment();
    for _ in 0..CONNECTIONS {
        let words = (0..random.below(2000)).map(|_| WORDS[random.below(WORDS.len())]);
        let babble = words.collect::<Vec<_>>().concat();
        send_and_disconnect(&fixture, babble.as_bytes());
    }
    fixture.check_recovery();
}

/// Sends bytes, closes the sending direction, and waits until the server closes the connection.
pub fn send_and_disconnect(fixture: &Fixture, bytes: &[u8]) {
    let mut client = fixture.server.connect();
    // The send may fail, because the server may close the connection before it has read all bytes.
    let _ = client.try_send(bytes);
    client.finish_sending();
    client
        .read_to_end()
        .expect("the server closes the connection after the client has closed its side");
}

#[test]
fn a_client_that_stops_anywhere_in_a_command_does_not_affect_others() {
    let fixture = Fixture::start(64, &[]);
    let whole =
        b"set key 5 0 10\r\n0123456789\r\nget key\r\ncas key 0 0 1 1\r\nx\r\nincr key 1\r\n";
    send_every_prefix(&fixture, whole);
}

/// Sends every proper prefix of a request: first from clients that disconnect at once, then from clients that stay
/// connected while others are served.
pub fn send_every_prefix(fixture: &Fixture, whole: &[u8]) {
    let send_prefix = |length| {
        let mut client = fixture.server.connect();
        client.send(&whole[..length]);
        client
    };
    for length in 0..whole.len() {
        drop(send_prefix(length));
    }
    let open_clients: Vec<_> = (0..whole.len()).map(send_prefix).collect();
    fixture.check_others_are_served();
    drop(open_clients);
    fixture.check_recovery();
}

#[test]
fn lines_without_an_end_use_bounded_memory() {
    let fixture = Fixture::start(64, &[]);
    let line = vec![b'x'; 1 << 20];
    let keys = b"get ".iter().copied().chain(b"key ".repeat(1 << 18)).collect::<Vec<_>>();
    for _ in 0..20 {
        send_and_disconnect(&fixture, &line);
        send_and_disconnect(&fixture, &keys);
    }
    fixture.check_recovery();
}

#[test]
fn announced_values_of_a_gigabyte_that_are_not_sent_use_bounded_memory() {
    let fixture = Fixture::start(64, &[]);
    let open_clients: Vec<_> = (0..50)
        .map(|index| {
            let mut client = fixture.server.connect();
            client.send(format!("set key{index} 0 0 1073741824\r\nthe beginning").as_bytes());
            client
        })
        .collect();
    fixture.check_others_are_served();
    drop(open_clients);
    fixture.check_recovery();
}
