//! Shows that a campaign finds a server that lies: real clients and the checker, a real slabwise, and between them a
//! proxy that passes everything through, except that it sometimes lies in the text protocol.
//!
//! ```text
//!   clients --> proxy --> slabwise
//!           <-- lies <--
//! ```
//!
//! A reply that a cache may send, such as a miss for a stored key, is not a lie. The test without lies shows that the
//! proxy itself causes no failure.

use crate::checker::Checker;
use crate::client::Client;
use crate::coverage;
use crate::keys::{Keys, Lengths};
use crate::kinds::Kind;
use crate::server::{Configuration, Host};
use crate::value::{HEAD_LEN, Values};
use crate::world::{Endpoint, World};
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// What the proxy does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Nothing.
    None,
    /// A get has the first value that it had for the key.
    OldValue,
    /// A get has the value of another key.
    ValueOfOtherKey,
    /// A get has a value with one wrong bit.
    WrongBit,
    /// A set is confirmed, but the old item stays.
    LostSet,
    /// A delete is confirmed, but the item stays.
    LostDelete,
    /// An append is confirmed, but its part is missing.
    LostAppend,
    /// An increment or decrement has the result of an earlier one.
    OldNumber,
    /// A cas is confirmed although the item has another CAS value.
    AcceptedCas,
    /// An item does not expire.
    LostTtl,
    /// Every set that has a reply is refused.
    RefusedSet,
    /// A touch has an error that no server sends.
    UnknownError,
}

/// The proxy lies once in this number of opportunities.
const LIE_ONE_IN: u64 = 5;

/// A text request.
struct Request {
    words: Vec<String>,
    /// The value with its line end, or nothing.
    value: Vec<u8>,
}

impl Request {
    /// Reads a request. Returns `None` at the end of the connection.
    fn read(from: &mut impl BufRead) -> io::Result<Option<Request>> {
        let line = read_line(from)?;
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let Some(verb) = words.first() else { return Ok(None) };
        let has_value = ["set", "add", "replace", "cas", "append", "prepend"];
        let len = if has_value.contains(&verb.as_str()) { number(&words[4]) + 2 } else { 0 };
        let mut value = vec![0; len];
        from.read_exact(&mut value)?;
        Ok(Some(Request { words, value }))
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = (self.words.join(" ") + "\r\n").into_bytes();
        bytes.extend_from_slice(&self.value);
        bytes
    }
}

/// A reply to a text request.
struct Reply {
    /// The words of a VALUE line, and the value.
    hits: Vec<(Vec<String>, Vec<u8>)>,
    /// The last line.
    line: String,
}

impl Reply {
    fn read(from: &mut impl BufRead) -> io::Result<Reply> {
        let mut reply = Reply { hits: Vec::new(), line: read_line(from)? };
        while reply.line.starts_with("VALUE ") {
            let words: Vec<String> = reply.line.split_whitespace().map(str::to_owned).collect();
            let mut value = vec![0; number(&words[3]) + 2];
            from.read_exact(&mut value)?;
            value.truncate(value.len() - 2);
            reply.hits.push((words, value));
            reply.line = read_line(from)?;
        }
        Ok(reply)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (words, value) in &self.hits {
            bytes.extend_from_slice((words.join(" ") + "\r\n").as_bytes());
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(self.line.as_bytes());
        bytes
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line).map(|_| line)
}

fn number(word: &str) -> usize {
    word.parse().expect("a length is a number")
}

/// Returns the kind of the key with this name.
fn kind(name: &str) -> Kind {
    let digits = name[1..].split(':').next().unwrap_or_default();
    Kind::of(number(digits) as u32)
}

/// The client flags and the value of an item.
type Item = (String, Vec<u8>);

/// A proxy before a server.
struct Proxy {
    lie: Lie,
    server: SocketAddr,
    opportunities: AtomicU64,
    /// The first item of each key that a reply had.
    first_items: Mutex<HashMap<String, Item>>,
    /// The first item of all.
    first_item: OnceLock<(String, Item)>,
    /// The first number of each key that a reply had, with its line end.
    first_numbers: Mutex<HashMap<String, String>>,
}

impl Proxy {
    /// Starts a proxy, and returns its address. It ends with the test process.
    fn start(lie: Lie, server: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let proxy = Arc::new(Proxy {
            lie,
            server,
            opportunities: AtomicU64::new(0),
            first_items: Mutex::default(),
            first_item: OnceLock::new(),
            first_numbers: Mutex::default(),
        });
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let proxy = Arc::clone(&proxy);
                // A connection that breaks is reported by the client.
                std::thread::spawn(move || proxy.serve(client));
            }
        });
        Ok(address)
    }

    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(self.server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut requests = BufReader::new(client.try_clone()?);
        // The first byte of a connection distinguishes the binary and the meta protocol, which have no lies.
        if matches!(requests.fill_buf()?, [0x80 | b'm', ..]) {
            return pass_through(requests, client, server);
        }
        let mut server = BufReader::new(server);
        while let Some(request) = Request::read(&mut requests)? {
            if let Some(reply) = self.answer(request, &mut server)? {
                client.write_all(&reply.bytes())?;
            }
        }
        Ok(())
    }

    /// Returns the reply to a request, or `None` if the client wants none.
    fn answer(
        &self,
        mut request: Request,
        server: &mut BufReader<TcpStream>,
    ) -> io::Result<Option<Reply>> {
        if request.words.last().is_some_and(|word| word == "noreply") {
            server.get_mut().write_all(&request.bytes())?;
            return Ok(None);
        }
        let line = |text: &str| Ok(Some(Reply { hits: Vec::new(), line: format!("{text}\r\n") }));
        let key = request.words[1].clone();
        match (self.lie, request.words[0].as_str()) {
            (Lie::LostSet, "set") if self.is_chosen() => return line("STORED"),
            (Lie::RefusedSet, "set") => {
                // After this request, the server has carried out all quiet requests before.
                has_item(&key, server)?;
                return line("SERVER_ERROR out of memory storing object");
            }
            (Lie::UnknownError, "touch") if self.is_chosen() => return line("SERVER_ERROR busy"),
            (Lie::LostDelete, "delete") if has_item(&key, server)? && self.is_chosen() => {
                return line("DELETED");
            }
            (Lie::LostAppend, "append") if has_item(&key, server)? && self.is_chosen() => {
                return line("STORED");
            }
            (Lie::LostTtl, "set") => "0".clone_into(&mut request.words[3]),
            _ => {}
        }
        let mut reply = exchange(&request.bytes(), server)?;
        match (self.lie, request.words[0].as_str(), reply.line.as_str()) {
            (Lie::AcceptedCas, "cas", "EXISTS\r\n") if self.is_chosen() => return line("STORED"),
            (Lie::OldNumber, "incr" | "decr", text)
                if text.starts_with(|it| char::is_ascii_digit(&it)) =>
            {
                let mut numbers =
                    self.first_numbers.lock().expect("no thread panics with this lock");
                let first = numbers.entry(key).or_insert_with(|| text.to_owned()).clone();
                if self.is_chosen() {
                    reply.line = first;
                }
            }
            (_, "get", _) => {
                reply.hits.iter_mut().for_each(|(words, value)| self.change(words, value))
            }
            _ => {}
        }
        Ok(Some(reply))
    }

    /// Changes the words and the value of a hit, if it is a whole value that names its version.
    fn change(&self, words: &mut [String], value: &mut Vec<u8>) {
        let [_, key, flags, len] = words else { return };
        if kind(key) != Kind::Whole || value.len() < HEAD_LEN {
            return;
        }
        let item = || (flags.clone(), value.clone());
        let other = match self.lie {
            Lie::OldValue => {
                let mut items = self.first_items.lock().expect("no thread panics with this lock");
                items.entry(key.clone()).or_insert_with(item).clone()
            }
            Lie::ValueOfOtherKey => {
                let (other_key, other) = self.first_item.get_or_init(|| (key.clone(), item()));
                if other_key == key {
                    return;
                }
                other.clone()
            }
            Lie::WrongBit => {
                let mut other = item();
                other.1[value.len() / 2] ^= 1;
                other
            }
            _ => return,
        };
        if self.is_chosen() {
            (*flags, *value) = other;
            *len = value.len().to_string();
        }
    }

    fn is_chosen(&self) -> bool {
        self.opportunities.fetch_add(1, Ordering::Relaxed).is_multiple_of(LIE_ONE_IN)
    }
}

/// Sends a request that has a reply, and receives it.
fn exchange(request: &[u8], server: &mut BufReader<TcpStream>) -> io::Result<Reply> {
    server.get_mut().write_all(request)?;
    Reply::read(server)
}

fn has_item(key: &str, server: &mut BufReader<TcpStream>) -> io::Result<bool> {
    Ok(!exchange(format!("get {key}\r\n").as_bytes(), server)?.hits.is_empty())
}

/// Copies the bytes of both directions until the client disconnects.
fn pass_through(
    mut requests: BufReader<TcpStream>,
    mut client: TcpStream,
    mut server: TcpStream,
) -> io::Result<()> {
    let mut replies = server.try_clone()?;
    std::thread::spawn(move || io::copy(&mut replies, &mut client));
    io::copy(&mut requests, &mut server)?;
    server.shutdown(Shutdown::Both)
}

/// The number of clients. Each protocol has some.
const CLIENTS: usize = 6;
/// Many, so that some items are not replaced before they expire.
const KEYS: u32 = 40_000;
const MIB: u64 = 1 << 20;
/// The number of requests without a failure that shows that the proxy causes none.
const REQUESTS_HONEST: u64 = 50_000;
/// The time in which a lie must be found. A test ends as soon as it is, so only a failure takes this time.
const FOUND_NANOS_MAX: u64 = 120_000_000_000;
/// The time by which an item may outlive its expiry.
const EXPIRY_TOLERANCE_NANOS: u64 = 2_000_000_000;

/// What clients have found.
struct Found {
    failure: Option<String>,
    requests: u64,
    /// The problems of all requests together.
    problems: Vec<String>,
}

/// Lets clients use a server behind a proxy that lies, until the first failure, or until [`REQUESTS_HONEST`] requests
/// have no wrong reply although none is expected.
fn run(lie: Lie) -> Found {
    let test = std::env::current_exe().expect("this program has a path");
    let program = test.with_file_name("../slabwise");
    assert!(program.exists(), "{} is missing: run cargo build --bin slabwise", program.display());
    let configuration = Configuration {
        program,
        memory_mib: 64,
        item_size_max: MIB,
        arguments: vec!["-m".to_owned(), "64".to_owned()],
        has_memory_file: false,
        has_tls: false,
    };
    let mut host = Host::start(configuration).expect("the server starts");
    let address = Proxy::start(lie, host.address()).expect("the proxy starts");
    let seed = 1;
    let world = World::new(
        Checker::new(KEYS, Values::new(seed), EXPIRY_TOLERANCE_NANOS),
        Keys::new(KEYS, 0.9, seed),
        Lengths { len_max: 2000, large_one_in: u64::MAX, huge_one_in: u64::MAX },
        CLIENTS,
        None,
        Duration::from_secs(20),
        false,
    );
    world.set_endpoint(Endpoint { address: Some(address), ..Endpoint::default() });
    std::thread::scope(|scope| {
        for slot in 0..CLIENTS {
            let client = Client::new(&world, slot, slot as u64);
            scope.spawn(move || client.run());
        }
        let has_ended = || {
            world.has_failed()
                || world.clock.nanos() > FOUND_NANOS_MAX
                || matches!(lie, Lie::None | Lie::RefusedSet)
                    && world.counts.total() > REQUESTS_HONEST
        };
        while !has_ended() {
            world.pause(Duration::from_millis(5));
        }
        world.gate.end();
    });
    Found {
        failure: world.failures().into_iter().next(),
        requests: world.counts.total(),
        problems: coverage::problems(&world.counts, false),
    }
}

/// The problems of a reply that shows an item which should have been replaced, removed or expired.
const OUTDATED: &[&str] = &[
    "replaced",
    "expired",
    "no possible version has this short value",
    "requires an item",
    "was refused, but only version",
];

/// Asserts that the campaign finds the lie, for a reason that contains one of the texts.
fn assert_found(lie: Lie, expected: &[&str]) {
    let failure = run(lie).failure.expect("the campaign must find the lie");
    let problem = failure.lines().next().unwrap_or_default();
    assert!(problem.contains("wrong reply") || lie == Lie::UnknownError, "{failure}");
    assert!(expected.iter().any(|text| problem.contains(text)), "{failure}");
}

#[test]
fn without_a_lie_there_is_no_failure() {
    let found = run(Lie::None);
    assert_eq!(found.failure, None);
    assert!(found.requests > REQUESTS_HONEST, "only {} requests", found.requests);
    assert_eq!(found.problems, [] as [String; 0]);
}

#[test]
fn refused_sets_are_found() {
    let found = run(Lie::RefusedSet);
    assert_eq!(found.failure, None);
    let is_found = found.problems.iter().any(|problem| problem.contains("values were refused"));
    assert!(is_found, "{:?}", found.problems);
}

#[test]
fn an_unknown_error_is_found() {
    assert_found(Lie::UnknownError, &["unknown refusal (text): SERVER_ERROR busy"]);
}

#[test]
fn an_old_value_is_found() {
    assert_found(Lie::OldValue, OUTDATED);
}

#[test]
fn the_value_of_another_key_is_found() {
    assert_found(Lie::ValueOfOtherKey, &["the value is not one of key"]);
}

#[test]
fn a_wrong_bit_is_found() {
    assert_found(Lie::WrongBit, &["the value is not one of key"]);
}

#[test]
fn a_lost_set_is_found() {
    assert_found(Lie::LostSet, OUTDATED);
}

#[test]
fn a_lost_delete_is_found() {
    assert_found(Lie::LostDelete, OUTDATED);
}

#[test]
fn a_lost_append_is_found() {
    assert_found(Lie::LostAppend, &["is missing, although its request was complete"]);
}

#[test]
fn an_old_number_is_found() {
    assert_found(Lie::OldNumber, &["were seen or made before", "have the same result", "replaced"]);
}

#[test]
fn an_accepted_cas_is_found() {
    // If another store was open, the cas itself was possible, and only a later reply shows that it had no effect.
    assert_found(Lie::AcceptedCas, &[&["has succeeded, but version"], OUTDATED].concat());
}

#[test]
fn a_lost_ttl_is_found() {
    assert_found(Lie::LostTtl, OUTDATED);
}
