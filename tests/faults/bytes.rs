//! Bytes that are no requests, or not whole ones.

use super::scene::Scene;

const CONNECTIONS: usize = 200;

/// SplitMix64: a seeded source of bytes.
pub struct Random(u64);

impl Random {
    pub fn from_environment() -> Random {
        let seed = std::env::var("FAULT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(20_261_121);
        // Shown only when the test fails.
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
    let scene = Scene::start(64, &[]);
    let mut random = Random::from_environment();
    for _ in 0..CONNECTIONS {
        let noise: Vec<u8> = (0..random.below(16 * 1024)).map(|_| random.next() as u8).collect();
        send_and_hang_up(&scene, &noise);
    }
    scene.recovers();
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
    let scene = Scene::start(64, &[]);
    let mut random = Random::from_environment();
    for _ in 0..CONNECTIONS {
        let words = (0..random.below(2000)).map(|_| WORDS[random.below(WORDS.len())]);
        let babble = words.collect::<Vec<_>>().concat();
        send_and_hang_up(&scene, babble.as_bytes());
    }
    scene.recovers();
}

pub fn send_and_hang_up(scene: &Scene, bytes: &[u8]) {
    let mut client = scene.server.connect();
    // The server may close as soon as it has seen enough.
    let _ = client.try_send(bytes);
    client.finish_sending();
    client.read_to_end().expect("the server closes when nothing more can come");
}

#[test]
fn half_a_command() {
    let scene = Scene::start(64, &[]);
    let whole =
        b"set key 5 0 10\r\n0123456789\r\nget key\r\ncas key 0 0 1 1\r\nx\r\nincr key 1\r\n";
    send_every_beginning(&scene, whole);
}

/// Sends each beginning of a request and no more, first by clients that leave at once.
pub fn send_every_beginning(scene: &Scene, whole: &[u8]) {
    let begin = |length| {
        let mut client = scene.server.connect();
        client.send(&whole[..length]);
        client
    };
    for length in 0..whole.len() {
        drop(begin(length));
    }
    // The same, held open while others work.
    let held: Vec<_> = (0..whole.len()).map(begin).collect();
    scene.serves_others();
    drop(held);
    scene.recovers();
}

#[test]
fn lines_that_never_end() {
    let scene = Scene::start(64, &[]);
    let line = vec![b'x'; 1 << 20];
    let keys = b"get ".iter().copied().chain(b"key ".repeat(1 << 18)).collect::<Vec<_>>();
    for _ in 0..20 {
        send_and_hang_up(&scene, &line);
        send_and_hang_up(&scene, &keys);
    }
    scene.recovers();
}

#[test]
fn a_gigabyte_announced_and_silence() {
    let scene = Scene::start(64, &[]);
    let held: Vec<_> = (0..50)
        .map(|index| {
            let mut client = scene.server.connect();
            client.send(format!("set key{index} 0 0 1073741824\r\nthe beginning").as_bytes());
            client
        })
        .collect();
    scene.serves_others();
    drop(held);
    scene.recovers();
}
