use super::{TraceFormat, TraceReader};
use crate::workload::{Op, Request, WorkloadError};
use slabwise_base::{Cost, KeyHasher, Random};
use std::io::{BufReader, Cursor, Read};

fn record(key: u64, value_len: u32, op: u8, reserved: u8) -> Vec<u8> {
    let mut bytes = key.to_le_bytes().to_vec();
    bytes.extend(value_len.to_le_bytes());
    bytes.extend([op, reserved, 10, 0]);
    bytes
}

fn oracle_record(key: u64, size: u32, next: i64) -> Vec<u8> {
    let mut bytes = 1_000u32.to_le_bytes().to_vec();
    bytes.extend(key.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(next.to_le_bytes());
    bytes
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap_or_else(|error| panic!("{error}"))
}

/// All records before the end or the error, and the error's text.
fn read_as(name: &str, file: &[u8], format: Option<TraceFormat>) -> (Vec<Request>, String) {
    let mut records = Vec::new();
    let mut reader = match TraceReader::new(name, Cursor::new(file.to_vec()), format) {
        Ok(reader) => reader,
        Err(error) => return (records, error.to_string()),
    };
    while let Some(record) = reader.next_record() {
        match record {
            Ok(record) => records.push(record),
            Err(error) => {
                assert!(matches!(error, WorkloadError::Trace { .. }), "{error}");
                assert!(reader.next_record().is_none(), "a broken trace goes on");
                return (records, error.to_string());
            }
        }
    }
    (records, String::new())
}

fn read(file: &[u8]) -> (Vec<Request>, String) {
    read_as("t", file, None)
}

/// The same whole, compressed, and compressed in two frames behind one to be skipped.
#[track_caller]
fn read_whole(name: &str, file: &[u8]) -> Vec<Request> {
    let (records, error) = read_as(name, file, None);
    assert_eq!(error, "");
    let (first, second) = file.split_at(file.len() / 2);
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec();
    let frames = [skipped, compressed(first), compressed(second)].concat();
    assert_eq!(read_as(name, &compressed(file), None), (records.clone(), String::new()));
    assert_eq!(read_as(name, &frames, None), (records.clone(), String::new()));
    records
}

#[track_caller]
fn assert_broken(file: &[u8], records: usize, reason: &str) {
    let (read, text) = read(file);
    assert_eq!(read.len(), records, "{text}");
    let place = format!("record {records} (at byte {} of", records * 16);
    assert!(text.contains(&place) && text.contains(reason), "{text}");
}

fn key(text: &str) -> u64 {
    KeyHasher::new(0).hash(text.as_bytes())
}

fn told(op: Op, text: &str, value_len: u32) -> Request {
    Request { key: key(text), value_len, op, cost: None }
}

#[test]
fn records_come_out_as_written() {
    let mut bytes = [record(u64::MAX, 5, 0, 0), record(2, 0, 1, 0), record(3, u32::MAX, 2, 0)];
    bytes[1][14..].copy_from_slice(&300u16.to_le_bytes());
    bytes[2][14..].fill(0);
    let records = read_whole("t", &bytes.concat());
    let expected = [(u64::MAX, 5, Op::Get), (2, 0, Op::Set), (3, u32::MAX, Op::Delete)];
    let mut expected =
        expected.map(|(key, value_len, op)| Request { key, value_len, op, cost: None });
    expected[0].cost = Some(Cost::from_units(10));
    expected[1].cost = Some(Cost::from_units(300));
    assert_eq!(records, expected);
    assert_eq!(read_whole("t", &[]), []);
    // Keys that begin as lines and words do.
    for key in [10, u64::from_le_bytes(*b"a 12\nb 3"), u64::from_le_bytes(*b"\n\n\n\n\n\n\n\n")] {
        assert_eq!(read_whole("t", &record(key, 7, 0, 0))[0].key, key);
    }
}

#[test]
fn records_of_oracle_general_are_told_by_the_file_s_name() {
    let bytes = [
        oracle_record(7, 100, 2),
        oracle_record(u64::MAX, u32::MAX, i64::MAX),
        oracle_record(7, 0, -1),
    ];
    let expected = [(7, 100), (u64::MAX, u32::MAX), (7, 0)];
    let expected =
        expected.map(|(key, value_len)| Request { key, value_len, op: Op::Get, cost: None });
    for name in ["w.oracleGeneral.bin.zst", "w.oracleGeneral", "W.ORACLEGENERAL.zst"] {
        assert_eq!(read_whole(name, &bytes.concat()), expected);
    }
    let asked = read_as("t", &bytes.concat(), Some(TraceFormat::OracleGeneral));
    assert_eq!(asked, (expected.to_vec(), String::new()));
    // Whoever takes one for the other is told at once.
    assert_broken(&bytes.concat(), 0, "op 100");
    let mut random = Random::new(1);
    let ours: Vec<u8> = (0..100).flat_map(|_| record(random.next_u64(), 9, 0, 0)).collect();
    let (records, text) = read_as("x.oracleGeneral", &ours, None);
    assert!(records.len() < 10 && text.contains("no oracleGeneral trace"), "{records:?} {text}");
}

#[test]
fn a_wrong_file_stops_at_the_record_that_shows_it() {
    let good: Vec<u8> = (0..10_000).flat_map(|key| record(key, 1, 0, 0)).collect();
    let then = |rest: Vec<u8>| compressed(&[good.clone(), rest].concat());
    assert_broken(&then(record(1, 1, 3, 0)), 10_000, "op 3");
    assert_broken(&then(record(1, 1, 0, 9)), 10_000, "reserved");
    assert_broken(&then(vec![0; 15]), 10_000, "15 bytes are left over");
    assert_broken(b"\x28\xb5\x2f\xfd\x08\0\0\0\0\0\0\0\0\0\0", 0, "cannot be read on");
    assert_broken(b"\x28\xb5\x2f\xfd", 0, "cut short");
    assert_broken(b"\x28\0\x2f", 0, "3 bytes are left over");
}

#[test]
fn a_file_cut_short_gives_what_it_has_and_then_says_so() {
    // Keys that do not compress, so that the file has many blocks to be cut between.
    let mut random = Random::new(1);
    let bytes: Vec<u8> = (0..50_000).flat_map(|_| record(random.next_u64(), 1, 0, 0)).collect();
    let mut file = compressed(&bytes);
    file.truncate(file.len() / 2);
    let (records, text) = read(&file);
    assert!(records.len() > 1_000, "{}", records.len());
    assert!(text.contains(&format!("record {}", records.len())), "{text}");
    assert!(text.contains("cut short"), "{text}");
    let lines: String = (0..50_000).map(|_| format!("{} 1\n", random.next_u64())).collect();
    let mut file = compressed(lines.as_bytes());
    file.truncate(file.len() / 2);
    let (records, text) = read(&file);
    assert!(records.len() > 1_000 && text.contains("cut short"), "{} {text}", records.len());
    assert!(text.contains(&format!("line {}", records.len() + 1)), "{text}");
}

#[test]
fn lines_of_twitter_come_out_by_operation_and_keys_may_hold_commas() {
    let file = "0,nz:u:ee,9,213,65,get,0\n0,nz:u:ee,9,213,65,gets,0\n1,a,1,0,2,get,0\r\n\
        2,a,1,30,2,set,600\n2,a,1,31,2,add,6\n2,a,1,32,2,replace,6\n2,a,1,33,2,cas,6\n2,a,1,34,2,append,6\n\
        2,a,1,35,2,prepend,6\n2,a,1,8,2,incr,6\n2,a,1,8,2,decr,6\n3,k,with,commas,12,77,4,delete,0";
    let mut expected =
        vec![told(Op::Get, "nz:u:ee", 213), told(Op::Get, "nz:u:ee", 213), told(Op::Get, "a", 0)];
    expected.extend([30, 31, 32, 33, 34, 35, 8, 8].map(|len| told(Op::Set, "a", len)));
    expected.push(told(Op::Delete, "k,with,commas", 77));
    assert_eq!(read_whole("cluster52", file.as_bytes()), expected);
}

#[test]
fn lines_of_kvcache_come_out_as_often_as_they_were_made() {
    let rows =
        "7,GET,100,3,20\n8,GET_LEASE,0,1,20\n8,SET_LEASE,50,1,20\n7,DELETE,0,1,20\n9,GET,1,0,2\n";
    let expected = [
        told(Op::Get, "7", 100),
        told(Op::Get, "7", 100),
        told(Op::Get, "7", 100),
        told(Op::Get, "8", 0),
        told(Op::Set, "8", 50),
        told(Op::Delete, "7", 0),
    ];
    let file = format!("key,op,size,op_count,key_size\n{rows}");
    assert_eq!(read_whole("t", file.as_bytes()), expected);
    // Without a header, the same columns.
    let asked = read_as("t", rows.as_bytes(), Some(TraceFormat::Kvcache));
    assert_eq!(asked, (expected.to_vec(), String::new()));
    let others = "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n5,k,9,GET,2,300,2,0\n6,k,9,SET,1,301,0,0\n";
    let expected = [told(Op::Get, "k", 300), told(Op::Get, "k", 300), told(Op::Set, "k", 301)];
    assert_eq!(read_whole("t", others.as_bytes()), expected);
}

#[test]
fn lines_of_keys_and_sizes_are_gets() {
    let file = "# from a log\n\nuser:1 100\n17\t4294967295\r\nb  0  \n";
    let expected = [("user:1", 100), ("17", u32::MAX), ("b", 0)];
    assert_eq!(read_whole("t", file.as_bytes()), expected.map(|(k, len)| told(Op::Get, k, len)));
}

#[test]
fn a_wrong_line_is_named_with_the_reason() {
    use TraceFormat::{KeySize, Kvcache, Twitter};
    let long = format!("a 1\n{} 1\n", "k".repeat(70_000));
    for (format, file, line, reason) in [
        (KeySize, "a 1\nb\n", 2, "not a key and a size"),
        (KeySize, "a 1\nb 2 3\n", 2, "not a key and a size"),
        (KeySize, "a 1\nb -2\n", 2, "size '-2' is no number of bytes"),
        (KeySize, "a 4294967296\n", 1, "up to 4294967295"),
        (KeySize, long.as_str(), 2, "longer than 65536 bytes"),
        (Twitter, "0,a,1,2,3,get,0\n0,a,1,2,3,look,0\n", 2, "operation 'look' is none of get"),
        (Twitter, "0,a,1,2,3,get\n", 1, "fewer than 7 columns"),
        (Twitter, "0,,1,2,3,get,0\n", 1, "key is empty"),
        (Twitter, "0,a,1,x,3,get,0\n", 1, "size 'x'"),
        (Kvcache, "key,op,op_count\n", 1, "no column 'size'"),
        (Kvcache, "key,op,size\na,GET\n", 2, "fewer columns"),
        (Kvcache, "key,op,size\na,PEEK,1\n", 2, "operation 'PEEK'"),
        (Kvcache, "a,GET,1,many,2\n", 1, "op_count 'many' is no number"),
        (Twitter, "0,\x01,1,2,3,\x02,0\n", 1, "operation '\\x02'"),
    ] {
        let (records, text) = read_as("t", file.as_bytes(), Some(format));
        let place = format!("t: line {line}: ");
        assert!(text.starts_with(&place) && text.contains(reason), "{file:?}: {text}");
        assert!(records.len() < line, "{file:?}: {records:?}");
    }
}

#[test]
fn text_of_no_format_is_refused_and_says_what_there_is() {
    for file in ["hello\n", "one,two,three\n1,2,3\n", "a b c\n"] {
        let (records, text) = read(file.as_bytes());
        assert!(records.is_empty() && text.contains("--format"), "{file:?}: {text}");
    }
}

/// More than memory would hold, were it kept: requests come while it is read, and a line that never ends does not fill it.
#[test]
fn a_trace_without_an_end_is_read_as_a_stream() {
    let endless = |bytes: &'static [u8]| BufReader::new(Cycle { bytes, at: 0 });
    let mut reader = TraceReader::new("t", endless(b"k 12\n"), None).expect("text");
    for _ in 0..200_000 {
        assert!(reader.next_record().expect("it has no end").is_ok());
    }
    let format = Some(TraceFormat::KeySize);
    let mut reader = TraceReader::new("t", endless(b"kkkk"), format).expect("a format is given");
    let text = reader.next_record().expect("a fault").expect_err("no line").to_string();
    assert!(text.contains("longer than"), "{text}");
    let counted: &[u8] = b"key,op,size,op_count\nk,GET,1,18446744073709551615\n";
    let mut reader = TraceReader::new("t", Cursor::new(counted), None).expect("kvcache");
    assert!((0..100_000).all(|_| matches!(reader.next_record(), Some(Ok(_)))));
}

/// The same bytes for ever.
struct Cycle {
    bytes: &'static [u8],
    at: usize,
}

impl Read for Cycle {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        for byte in into.iter_mut() {
            *byte = self.bytes[self.at];
            self.at = (self.at + 1) % self.bytes.len();
        }
        Ok(into.len())
    }
}
