//! Random packets on a few shared keys: slabwise and memcached must send the same replies.

use super::connected_server::ConnectedServer;
use super::packet::{DO_NOT_CREATE, Packet, arithmetic, extend, keyed, packet, store, touch};
use crate::support::{stock_memcached, under_test};

/// The number of random requests.
const STEPS: usize = 6_000;

/// SplitMix64, a seeded random number generator.
struct Random(u64);

impl Random {
    /// Makes a generator with the seed in `BINARY_SEED`, or with a fixed seed.
    fn from_environment() -> Random {
        let seed = std::env::var("BINARY_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(20_261_122);
        // Cargo shows the output of a test only if the test fails.
        println!("BINARY_SEED={seed}");
        Random(seed)
    }

    /// Returns a random number from 0 to `bound` - 1.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((bits ^ (bits >> 31)) % bound as u64)
            .expect("a number below a usize fits into a usize")
    }

    /// Returns one of the values.
    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// The key whose values are numbers. The test appends nothing to these values. memcached increments any value that
/// starts with a number and a space; slabwise increments only values that are short enough for a number.
const NUMBER: &str = "n";

/// Returns a random request on one of three keys.
fn request(random: &mut Random, step: usize) -> Packet {
    let key = random.one_of(&["a", "b", NUMBER]);
    let text_key = if key == NUMBER { "a" } else { key };
    let value_len = match key {
        // memcached 1.6.18 parses some values of 19 digits as negative numbers, depending on the bytes after the value.
        // So no value of a number has 19 digits.
        NUMBER => random.one_of(&[1, 2, 18, 30]),
        _ => random.one_of(&[0, 1, 2, 30, 3_000, 40_000]),
    };
    // The value contains no spaces. For an increment of a value of spaces, memcached reads bytes of an earlier value.
    let value = vec![random.one_of(b"123456789x"); value_len];
    let opcode = random.one_of(&[
        0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x09, 0x0a, 0x0c, 0x0d, 0x0e, 0x0f, 0x11, 0x12,
        0x13, 0x14, 0x15, 0x16, 0x19, 0x1a, 0x1c, 0x1d, 0x1e, 0x23, 0x24,
    ]);
    let request = match opcode {
        _ if random.below(100) == 0 => keyed(opcode, key).extras(b"odd"),
        _ if random.below(300) == 0 => packet(0x08),
        0x01..=0x03 | 0x11..=0x13 => store(opcode, key, &value),
        0x05 | 0x06 | 0x15 | 0x16 => {
            let exptime = random.one_of(&[0, 0, 1_000, DO_NOT_CREATE]);
            arithmetic(
                opcode,
                NUMBER,
                random.below(2_000) as u64,
                random.below(2_000) as u64,
                exptime,
            )
        }
        0x0a => packet(opcode),
        0x0e | 0x0f | 0x19 | 0x1a => extend(opcode, text_key, &value[..value_len.min(100)]),
        0x1c..=0x1e | 0x23 | 0x24 => touch(opcode, key, random.one_of(&[0, 1_000, 2_592_001])),
        _ => keyed(opcode, key),
    };
    match random.below(4) {
        0 if step > 0 => request.cas_of(step - 1 - random.below(step.min(4))),
        _ => request,
    }
}

#[test]
fn random_packets_get_the_same_replies_as_from_memcached() {
    let mut random = Random::from_environment();
    let mut slabwise = ConnectedServer::start(&under_test().with(&["-m", "256"]));
    let mut memcached = ConnectedServer::start(&stock_memcached().with(&["-m", "256"]));
    for step in 0..STEPS {
        let request = request(&mut random, step);
        let [mut expected, mut actual] =
            [&mut memcached, &mut slabwise].map(|server| server.step(&request));
        // A decrement that makes a number shorter pads the number with spaces. memcached does so only if no other
        // client uses the item. So spaces at the end of a value are not compared.
        for reply in expected.replies.iter_mut().chain(&mut actual.replies) {
            reply.value.truncate(reply.value.trim_ascii_end().len());
        }
        assert_eq!(actual, expected, "step {step}: {request:?}");
    }
}
