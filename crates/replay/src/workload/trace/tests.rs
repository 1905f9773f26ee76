use super::{TraceFormat, TraceReader};
use crate::workload::{Op, Request, WorkloadError};
use slabwise_base::{Cost, KeyHasher, Random};
use std::io::{BufReader, Cursor, Read};

/// Returns a record of slabwise's format with a cost of 10 units.
fn record(key: u64, value_len: u32, op: u8, reserved: u8) -> Vec<u8> {
    let mut bytes = key.to_le_bytes().to_vec();
    bytes.extend(value_len.to_le_bytes());
    bytes.extend([op, reserved, 10, 0]);
    bytes
}

/// Returns a record of oracleGeneral. `next` is the number of the record of the next request for the key.
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

/// Returns all records before the end or the error, and the text of the error.
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
                assert!(reader.next_record().is_none(), "no record follows an error");
                return (records, error.to_string());
            }
        }
    }
    (records, String::new())
}

fn read(file: &[u8]) -> (Vec<Request>, String) {
    read_as("t", file, None)
}

/// Reads a file in three forms, and checks that the records are equal: uncompressed, compressed with zstd, and
/// compressed as two frames after a skippable frame.
#[track_caller]
fn read_in_all_forms(name: &str, file: &[u8]) -> Vec<Request> {
    let (records, error) = read_as(name, file, None);
    assert_eq!(error, "");
    let (first, second) = file.split_at(file.len() / 2);
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec();
    let frames = [skipped, compressed(first), compressed(second)].concat();
    assert_eq!(read_as(name, &compressed(file), None), (records.clone(), String::new()));
    assert_eq!(read_as(name, &frames, None), (records.clone(), String::new()));
    records
}

/// Checks that reading the file returns this number of records and then an error with this reason.
#[track_caller]
fn assert_broken(file: &[u8], records: usize, reason: &str) {
    let (read, text) = read(file);
    assert_eq!(read.len(), records, "{text}");
    let place = format!("record {records} (at byte {} of", records * 16);
    assert!(text.contains(&place) && text.contains(reason), "{text}");
}

/// Returns the hash of a key, which is the key of its request.
fn key(text: &str) -> u64 {
    KeyHasher::new(0).hash(text.as_bytes())
}

fn request(op: Op, text: &str, value_len: u32) -> Request {
    Request { key: key(text), value_len, op, cost: None }
}

#[test]
fn a_record_of_slabwise_has_an_operation_and_a_cost() {
    let mut bytes = [record(u64::MAX, 5, 0, 0), record(2, 0, 1, 0), record(3, u32::MAX, 2, 0)];
    bytes[1][14..].copy_from_slice(&300u16.to_le_bytes());
    bytes[2][14..].fill(0);
    let records = read_in_all_forms("t", &bytes.concat());
    let expected = [(u64::MAX, 5, Op::Get), (2, 0, Op::Set), (3, u32::MAX, Op::Delete)];
    let mut expected =
        expected.map(|(key, value_len, op)| Request { key, value_len, op, cost: None });
    expected[0].cost = Some(Cost::from_units(10));
    expected[1].cost = Some(Cost::from_units(300));
    assert_eq!(records, expected);
    assert_eq!(read_in_all_forms("t", &[]), []);
    // The bytes of these keys look like text, but the detection must not take the records for text.
    for key in [10, u64::from_le_bytes(*b"a 12\nb 3"), u64::from_le_bytes(*b"\n\n\n\n\n\n\n\n")] {
        assert_eq!(read_in_all_forms("t", &record(key, 7, 0, 0))[0].key, key);
    }
}

#[test]
fn a_file_whose_name_contains_oracle_general_has_this_format() {
    let bytes = [
        oracle_record(7, 100, 2),
        oracle_record(u64::MAX, u32::MAX, i64::MAX),
        oracle_record(7, 0, -1),
    ];
    let expected = [(7, 100), (u64::MAX, u32::MAX), (7, 0)];
    let expected =
        expected.map(|(key, value_len)| Request { key, value_len, op: Op::Get, cost: None });
    for name in ["w.oracleGeneral.bin.zst", "w.oracleGeneral", "W.ORACLEGENERAL.zst"] {
        assert_eq!(read_in_all_forms(name, &bytes.concat()), expected);
    }
    let with_format = read_as("t", &bytes.concat(), Some(TraceFormat::OracleGeneral));
    assert_eq!(with_format, (expected.to_vec(), String::new()));
    // Reading a file with the wrong format is an error.
    assert_broken(&bytes.concat(), 0, "op 100");
    let mut random = Random::new(1);
    let slabwise_records: Vec<u8> =
        (0..100).flat_map(|_| record(random.next_u64(), 9, 0, 0)).collect();
    let (records, text) = read_as("x.oracleGeneral", &slabwise_records, None);
    assert!(
        records.len() < 10 && text.contains("oracleGeneral trace, or not"),
        "{records:?} {text}"
    );
}

#[test]
fn an_invalid_record_is_an_error_with_its_number() {
    let good: Vec<u8> = (0..10_000).flat_map(|key| record(key, 1, 0, 0)).collect();
    let good_and = |rest: Vec<u8>| compressed(&[good.clone(), rest].concat());
    assert_broken(&good_and(record(1, 1, 3, 0)), 10_000, "op 3");
    assert_broken(&good_and(record(1, 1, 0, 9)), 10_000, "reserved");
    assert_broken(&good_and(vec![0; 15]), 10_000, "15 bytes remain");
    assert_broken(b"\x28\xb5\x2f\xfd\x08\0\0\0\0\0\0\0\0\0\0", 0, "read error");
    assert_broken(b"\x28\xb5\x2f\xfd", 0, "truncated");
    assert_broken(b"\x28\0\x2f", 0, "3 bytes remain");
}

#[test]
fn a_truncated_file_has_an_error_after_its_records() {
    // Random keys cannot be compressed, so the compressed file has many blocks.
    let mut random = Random::new(1);
    let bytes: Vec<u8> = (0..50_000).flat_map(|_| record(random.next_u64(), 1, 0, 0)).collect();
    let mut file = compressed(&bytes);
    file.truncate(file.len() / 2);
    let (records, text) = read(&file);
    assert!(records.len() > 1_000, "{}", records.len());
    assert!(text.contains(&format!("record {}", records.len())), "{text}");
    assert!(text.contains("truncated"), "{text}");
    let lines: String = (0..50_000).map(|_| format!("{} 1\n", random.next_u64())).collect();
    let mut file = compressed(lines.as_bytes());
    file.truncate(file.len() / 2);
    let (records, text) = read(&file);
    assert!(records.len() > 1_000 && text.contains("truncated"), "{} {text}", records.len());
    assert!(text.contains(&format!("line {}", records.len() + 1)), "{text}");
}

#[test]
fn a_key_of_twitter_may_contain_commas() {
    let file = "0,nz:u:ee,9,213,65,get,0\n0,nz:u:ee,9,213,65,gets,0\n1,a,1,0,2,get,0\r\n\
        2,a,1,30,2,set,600\n2,a,1,31,2,add,6\n2,a,1,32,2,replace,6\n2,a,1,33,2,cas,6\n2,a,1,34,2,append,6\n\
        2,a,1,35,2,prepend,6\n2,a,1,8,2,incr,6\n2,a,1,8,2,decr,6\n3,k,with,commas,12,77,4,delete,0";
    let mut expected = vec![
        request(Op::Get, "nz:u:ee", 213),
        request(Op::Get, "nz:u:ee", 213),
        request(Op::Get, "a", 0),
    ];
    expected.extend([30, 31, 32, 33, 34, 35, 8, 8].map(|len| request(Op::Set, "a", len)));
    expected.push(request(Op::Delete, "k,with,commas", 77));
    assert_eq!(read_in_all_forms("cluster52", file.as_bytes()), expected);
}

#[test]
fn a_request_of_kvcache_is_repeated_op_count_times() {
    let rows =
        "7,GET,100,3,20\n8,GET_LEASE,0,1,20\n8,SET_LEASE,50,1,20\n7,DELETE,0,1,20\n9,GET,1,0,2\n";
    let expected = [
        request(Op::Get, "7", 100),
        request(Op::Get, "7", 100),
        request(Op::Get, "7", 100),
        request(Op::Get, "8", 0),
        request(Op::Set, "8", 50),
        request(Op::Delete, "7", 0),
    ];
    let file = format!("key,op,size,op_count,key_size\n{rows}");
    assert_eq!(read_in_all_forms("t", file.as_bytes()), expected);
    let without_header = read_as("t", rows.as_bytes(), Some(TraceFormat::Kvcache));
    assert_eq!(without_header, (expected.to_vec(), String::new()));
    let others = "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n5,k,9,GET,2,300,2,0\n6,k,9,SET,1,301,0,0\n";
    let expected =
        [request(Op::Get, "k", 300), request(Op::Get, "k", 300), request(Op::Set, "k", 301)];
    assert_eq!(read_in_all_forms("t", others.as_bytes()), expected);
}

#[test]
fn a_line_with_a_key_and_a_size_is_a_get() {
    let file = "# from a log\n\nuser:1 100\n17\t4294967295\r\nb  0  \n";
    let expected = [("user:1", 100), ("17", u32::MAX), ("b", 0)];
    assert_eq!(
        read_in_all_forms("t", file.as_bytes()),
        expected.map(|(k, len)| request(Op::Get, k, len))
    );
}

#[test]
fn a_comma_separates_key_and_size_and_a_header_is_skipped() {
    let expected = [("a", 1), ("b,c", 2), ("d", 3)];
    for file in ["key,size\na,1\nb,c,2\nd, 3\n", "a,1\nb,c,2\nd 3\n", "a 1\r\nb,c 2\r\nd,3\r\n"] {
        let found = read_in_all_forms("t", file.as_bytes());
        assert_eq!(found, expected.map(|(key, len)| request(Op::Get, key, len)), "{file:?}");
    }
}

#[test]
fn a_key_before_white_space_may_contain_several_commas() {
    let expected = [("a,b,c", 1), ("d", 2)];
    let found = read_in_all_forms("t", b"a,b,c 1\nd 2\n");
    assert_eq!(found, expected.map(|(key, len)| request(Op::Get, key, len)));
}

#[test]
fn an_invalid_line_is_an_error_with_its_number() {
    use TraceFormat::{KeySize, Kvcache, Twitter};
    let long = format!("a 1\n{} 1\n", "k".repeat(70_000));
    for (format, file, line, reason) in [
        (KeySize, "a 1\nb\n", 2, "not a key and a size"),
        (KeySize, "a 1\nb 2 3\n", 2, "not a key and a size"),
        (KeySize, "a 1\nb -2\n", 2, "size '-2' is not a number of bytes"),
        (KeySize, "a 4294967296\n", 1, "up to 4294967295"),
        (KeySize, long.as_str(), 2, "longer than 65536 bytes"),
        (
            Twitter,
            "0,a,1,2,3,get,0\n0,a,1,2,3,look,0\n",
            2,
            "unknown operation 'look': expected one of get",
        ),
        (Twitter, "0,a,1,2,3,get\n", 1, "fewer than 7 columns"),
        (Twitter, "0,,1,2,3,get,0\n", 1, "key is empty"),
        (Twitter, "0,a,1,x,3,get,0\n", 1, "size 'x'"),
        (Kvcache, "key,op,op_count\n", 1, "no column 'size'"),
        (Kvcache, "key,op,size\na,GET\n", 2, "too few columns"),
        (Kvcache, "key,op,size\na,PEEK,1\n", 2, "operation 'PEEK'"),
        (Kvcache, "a,GET,1,many,2\n", 1, "op_count 'many' is not a number"),
        (Twitter, "0,\x01,1,2,3,\x02,0\n", 1, "operation '\\x02'"),
    ] {
        let (records, text) = read_as("t", file.as_bytes(), Some(format));
        let place = format!("t: line {line}: ");
        assert!(text.starts_with(&place) && text.contains(reason), "{file:?}: {text}");
        assert!(records.len() < line, "{file:?}: {records:?}");
    }
}

#[test]
fn text_of_an_unknown_format_is_an_error() {
    for file in ["hello\n", "one,two,three\n1,2,3\n", "a b c\n"] {
        let (records, text) = read(file.as_bytes());
        assert!(records.is_empty() && text.contains("--format"), "{file:?}: {text}");
    }
}

#[test]
fn an_infinite_trace_or_line_needs_bounded_memory() {
    let endless = |bytes: &'static [u8]| BufReader::new(Cycle { bytes, at: 0 });
    let mut reader = TraceReader::new("t", endless(b"k 12\n"), None).expect("the trace is text");
    for _ in 0..200_000 {
        assert!(reader.next_record().expect("the trace has no end").is_ok());
    }
    let format = Some(TraceFormat::KeySize);
    let mut reader = TraceReader::new("t", endless(b"kkkk"), format)
        .expect("an explicit format needs no detection");
    let text = reader
        .next_record()
        .expect("the reader returns an error")
        .expect_err("the line is too long")
        .to_string();
    assert!(text.contains("longer than"), "{text}");
    let counted: &[u8] = b"key,op,size,op_count\nk,GET,1,18446744073709551615\n";
    let mut reader = TraceReader::new("t", Cursor::new(counted), None)
        .expect("the trace has a header of kvcache");
    assert!((0..100_000).all(|_| matches!(reader.next_record(), Some(Ok(_)))));
}

/// Repeats bytes infinitely.
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
