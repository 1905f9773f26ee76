//! Tests of valid and invalid files.

use super::{FILE_SIZE_BYTES_MAX, Histogram, LINE_LEN_MAX, read};
use crate::chunk_sizes::error::AdvisorError;
use crate::chunk_sizes::sizes_seen::SizesSeen;
use slabwise_base::Random;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::Path;

const ITEM_SIZE_MAX: usize = 1 << 20;

fn parse(text: &[u8]) -> Result<SizesSeen, AdvisorError> {
    Histogram::new("sizes.txt", ITEM_SIZE_MAX).read(text)
}

fn bins(text: &str) -> Vec<(usize, u64)> {
    match parse(text.as_bytes()) {
        Ok(seen) => seen.bins().collect(),
        Err(error) => panic!("{text:?}: {error}"),
    }
}

#[test]
fn a_file_has_one_of_three_forms() {
    assert_eq!(bins("96 35\n120 4\n"), [(96, 35), (120, 4)]);
    assert_eq!(bins("size,count\r\n120,4\r\n96,35"), [(96, 35), (120, 4)]);
    assert_eq!(bins("# by hand\n\n96 1\n96 2\n1 0\n"), [(96, 3)]);
    assert_eq!(bins("\u{feff}96\n120\n96\n"), [(96, 2), (120, 1)]);
    let stats = bins("STAT 96 8\r\nEND\r\n");
    assert_eq!(stats, [(68, 2), (76, 2), (84, 2), (92, 2)]);
}

#[test]
fn the_error_of_an_invalid_line_names_the_file_and_the_line() {
    let long = "1".repeat(LINE_LEN_MAX + 1);
    let cases: [(&str, &str); 18] = [
        ("", "sizes.txt: has no items"),
        ("# nothing\n\n", "sizes.txt: has no items"),
        ("96 0\n", "sizes.txt: has no items"),
        ("END\n", "sizes.txt: has no items"),
        ("size,count\n", "sizes.txt: has no items"),
        ("96 35\n-5 3\n", "sizes.txt, line 2: size '-5' is negative"),
        ("96 35\n120\n", "line 2: the line has one number, a size, but line 1 has two numbers"),
        ("96\n120 4\n", "line 2: the line has two numbers, SIZE COUNT, but line 1 has one"),
        ("STAT 96 3\n128 4\n", "line 2: the line has two numbers"),
        ("STAT 97 3\n", "line 1: 97 is not a bin of `stats sizes`"),
        ("96 3\nEND\n", "line 2: 'END' in a file"),
        ("size\ncount\n96\n", "line 2: a second line without numbers"),
        ("96 3\nsize count\n", "line 2: a second line without numbers"),
        (
            "2000000 1\n",
            "line 1: an item of 2000000 bytes is above the largest item, 1048576 bytes",
        ),
        ("96 18446744073709551615\n", "line 1: the items up to here are more than"),
        ("1000000 200000000000\n1000000 200000000000\n", "line 2: the items up to here"),
        ("[\n  96,\n", "line 1: '[' looks like JSON"),
        (&long, "line 1: the line has more than 1024 bytes"),
    ];
    for (text, reason) in cases {
        let error = parse(text.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(reason), "{text:?}: {error}");
    }
}

#[test]
fn the_error_of_an_unreadable_file_names_the_file() {
    for (path, reason) in [
        ("/nowhere/sizes.txt", "/nowhere/sizes.txt: cannot be read: No such file"),
        ("/", "/: cannot be read: is a directory"),
        ("/dev/null", "/dev/null: has no items"),
        ("/dev/zero", "/dev/zero, line 1: the line has more than 1024 bytes"),
    ] {
        let error = read(Path::new(path), ITEM_SIZE_MAX).expect_err(path).to_string();
        assert!(error.contains(reason), "{path}: {error}");
    }
}

#[test]
fn an_infinite_file_is_an_error() {
    let endless = BufReader::with_capacity(1 << 20, Endless);
    let result = Histogram::new("sizes.txt", ITEM_SIZE_MAX).read(endless);
    let error = result.expect_err("the file has no end").to_string();
    assert!(error.contains(&format!("larger than {} MiB", FILE_SIZE_BYTES_MAX >> 20)), "{error}");
}

/// A source that returns comment lines without end.
struct Endless;

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(b'#');
        for line_end in buffer.iter_mut().step_by(LINE_LEN_MAX) {
            *line_end = b'\n';
        }
        Ok(buffer.len())
    }
}

#[test]
fn the_order_of_lines_does_not_matter() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut expected: BTreeMap<usize, u64> = BTreeMap::new();
        let mut text = String::new();
        for _ in 0..1 + random.below(200) {
            let (size, count) = (1 + random.below(300) as usize, 1 + random.below(1000));
            *expected.entry(size).or_default() += count;
            text.push_str(&format!("{size} {count}\n"));
        }
        assert_eq!(bins(&text), expected.into_iter().collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn random_bytes_do_not_panic() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let len = random.below(400);
        let byte = |random: &mut Random| match random.below(4) {
            0 => b'\n',
            1 => random.next_u64() as u8,
            _ => b"0123456789 ,#STAT"[random.below(17) as usize],
        };
        let bytes: Vec<u8> = (0..len).map(|_| byte(&mut random)).collect();
        if let Ok(seen) = parse(&bytes) {
            assert!(seen.item_count() > 0, "seed {seed}");
        }
    }
}
