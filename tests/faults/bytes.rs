//! Malformed and incomplete requests of the text protocol.

use super::fixture::Fixture;

const CONNECTIONS: usize = 200;

/// SplitMix64, a seeded random number generator.
pub struct Random(u64);

impl Random {
    pub fn from_environment() -> Random {
        let seed = std::env::var("FAULT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(20_261_121);
        // Cargo shows this line only if the test fails.
        println!("FAULT_SEED={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("less than a usize")
    }
}

#[test]
fn random_bytes() {
    let fixture = Fixture::start(64, &[]);
    let mut random = Random::from_environment();
    for _ in 0..CONNECTIONS {
        let noise: Vec<u8> = (0..random.below(16 * 1024)).map(|_| random.next() as u8).collect();
        send_and_disconnect(&fixture, &noise);
    }
    fixture.recovers();
}

#[test]
fn random_words_of_the_protocol() {
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
    fixture.recovers();
}

pub fn send_and_disconnect(fixture: &Fixture, bytes: &[u8]) {
    let mut client = fixture.server.connect();
    // The server may close the connection before it has read everything.
    let _ = client.try_send(bytes);
    client.finish_sending();
    client.read_to_end().expect("the server closes the connection after the client's end");
}

#[test]
fn every_prefix_of_a_command() {
    let fixture = Fixture::start(64, &[]);
    let whole =
        b"set key 5 0 10\r\n0123456789\r\nget key\r\ncas key 0 0 1 1\r\nx\r\nincr key 1\r\n";
    send_every_prefix(&fixture, whole);
}

/// Sends every proper prefix of a request, first from clients that disconnect at once.
pub fn send_every_prefix(fixture: &Fixture, whole: &[u8]) {
    let begin = |length| {
        let mut client = fixture.server.connect();
        client.send(&whole[..length]);
        client
    };
    for length in 0..whole.len() {
        drop(begin(length));
    }
    // Then all prefixes at the same time, on connections that stay open while others are served.
    let held: Vec<_> = (0..whole.len()).map(begin).collect();
    fixture.serves_others();
    drop(held);
    fixture.recovers();
}

#[test]
fn lines_that_never_end() {
    let fixture = Fixture::start(64, &[]);
    let line = vec![b'x'; 1 << 20];
    let keys = b"get ".iter().copied().chain(b"key ".repeat(1 << 18)).collect::<Vec<_>>();
    for _ in 0..20 {
        send_and_disconnect(&fixture, &line);
        send_and_disconnect(&fixture, &keys);
    }
    fixture.recovers();
}

#[test]
fn gigabyte_values_announced_but_not_sent() {
    let fixture = Fixture::start(64, &[]);
    let held: Vec<_> = (0..50)
        .map(|index| {
            let mut client = fixture.server.connect();
            client.send(format!("set key{index} 0 0 1073741824\r\nthe beginning").as_bytes());
            client
        })
        .collect();
    fixture.serves_others();
    drop(held);
    fixture.recovers();
}
