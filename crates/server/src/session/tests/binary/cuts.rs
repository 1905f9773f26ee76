//! The replies to binary requests do not depend on how the input is split.

use super::super::super::testing::Fixture;
use super::packet::{arithmetic, packet, store};
use crate::passwords::testing::TemporaryFile;
use slabwise_base::Random;

/// Sends these pieces to a new server, whose options `change` changes, and returns the replies.
fn talk<'p>(change: &dyn Fn(&mut Fixture), pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
    let mut fixture = Fixture::new();
    change(&mut fixture);
    fixture.talk(pieces)
}

/// Checks that the replies are the same if the input is sent whole, byte by byte, or in two pieces.
fn check(change: &dyn Fn(&mut Fixture), input: &[u8], name: &str) {
    let whole = talk(change, [input]);
    assert!(talk(change, input.chunks(1)) == whole, "{name}: the input was sent byte by byte");
    let stride = 1 + input.len() / 60;
    for cut in (1..input.len()).step_by(stride) {
        let (head, tail) = input.split_at(cut);
        assert!(talk(change, [head, tail]) == whole, "{name}: the input was cut at byte {cut}");
    }
}

/// Returns a random request, valid or invalid. There are only three keys, so that requests affect each other.
fn request(random: &mut Random) -> Vec<u8> {
    let key = ["a", "b", "n"][random.below(3) as usize];
    let value_len = [0, 1, 10, 600][random.below(4) as usize];
    let opcode = random.below(0x26) as u8;
    let cas = [0, 0, 0, 1, 2][random.below(5) as usize];
    let exptime = [0, u32::MAX][random.below(2) as usize];
    let request = match opcode {
        _ if random.below(40) == 0 => packet(opcode).extras(b"odd").key(key),
        0x01..=0x03 | 0x11..=0x13 => store(opcode, key, &vec![b'7'; value_len]),
        0x05 | 0x06 | 0x15 | 0x16 => arithmetic(opcode, key, random.below(9), 5, exptime),
        0x07 | 0x08 | 0x0a | 0x0b | 0x17 | 0x18 | 0x20 => packet(opcode),
        0x0e | 0x0f | 0x19 | 0x1a => packet(opcode).key(key).value(&vec![b'1'; value_len]),
        // The subject is `items`, because the statistics without a subject contain the time.
        0x10 => packet(opcode).key("items"),
        0x1c..=0x1e | 0x23 | 0x24 => packet(opcode).extras(&[0, 0, 0, 9]).key(key),
        0x21 | 0x22 => packet(opcode).key("PLAIN").value(b"\0user\0pass"),
        _ => packet(opcode).key(key),
    };
    request.cas(cas).bytes()
}

#[test]
fn replies_to_random_batches_do_not_depend_on_splits() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let input: Vec<u8> = (0..12).flat_map(|_| request(&mut random)).collect();
        check(&|_| (), &input, &format!("seed {seed}"));
    }
}

#[test]
fn replies_with_sasl_do_not_depend_on_splits() {
    let file = TemporaryFile::new("user:pass\n");
    let with_sasl = |fixture: &mut Fixture| {
        fixture.settings.sasl_enabled = true;
        fixture.settings.sasl_password_file = Some(file.path().to_owned());
    };
    let login = packet(0x21).key("PLAIN").value(b"\0user\0pass").bytes();
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut input = if random.below(4) == 0 { Vec::new() } else { login.clone() };
        input.extend((0..8).flat_map(|_| request(&mut random)));
        check(&with_sasl, &input, &format!("seed {seed}"));
    }
}
