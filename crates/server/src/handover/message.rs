//! The messages of a handover, as text: the first line is the name of the message, and each further line is a field
//! `name=value`. The fields have a fixed order. Numbers are decimal.
//!
//! A message has exactly one text, so the parser accepts only what the other process can have composed: it composes the
//! parsed message again and compares.

use crate::config::{Protocol, Settings};
use crate::os::channel::DESCRIPTORS_MAX;
use std::str::Lines;

/// The newest version of the messages that this program speaks. The messages `hello` and `abort` are the same in all
/// versions.
pub const VERSION: u32 = 3;
/// The oldest version of the messages that this program speaks.
pub const VERSION_OLDEST: u32 = 3;

/// Returns the version that two processes use: the newest one that both speak. `None`: there is none. The arguments are the
/// oldest and the newest version of the other process.
pub fn common_version(oldest: u32, newest: u32) -> Option<u32> {
    let common = VERSION.min(newest);
    (common >= VERSION_OLDEST.max(oldest)).then_some(common)
}

/// The maximum length of a reason, in bytes. Longer ones are cut.
const REASON_LEN_MAX: usize = 2000;

/// A message of either process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// New process: the first message, with the oldest and the newest version of the messages that it speaks.
    Hello { oldest: u32, newest: u32 },
    /// Old process: what it can hand over. The messages `Socket` and one `Memory` follow.
    Offer(Offer),
    /// Old process: a listening socket, as the only descriptor.
    Socket(SocketKind),
    /// Old process: the arena, and the file to which the state will be written, as descriptors.
    Memory,
    /// New process: it has mapped the arena. The old process should pause, and send the connections and the state.
    Collect,
    /// Old process: idle connections of one protocol, as descriptors. With `has_logged_in`, their clients have authenticated.
    Connections { protocol: Protocol, has_logged_in: bool, count: usize },
    /// Old process: counters of `stats`, as lines that `counters.rs` composes.
    Counters { lines: String },
    /// Old process: the state is in the file, and no further connection follows.
    State(StateParts),
    /// New process: it has the index, and waits for `Take`.
    Ready,
    /// Old process: from now on the new process serves.
    Take,
    /// New process: it serves.
    Serving { process: u32 },
    /// Either process ends the handover for this reason. The old process continues to serve.
    Abort { reason: String },
}

/// The lengths of the parts of the state, and the number of connections that were sent before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateParts {
    pub text_len_bytes: u64,
    /// 0 if the new process must rebuild the index.
    pub image_len_bytes: u64,
    pub connections: u64,
}

/// What the old process can hand over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub version: u32,
    /// The memory limit for which the memory was laid out: `-m` of the first process.
    pub start_limit_bytes: u64,
    /// `-m` of the old process.
    pub option_limit_bytes: u64,
    /// The memory limit now.
    pub memory_limit_bytes: u64,
    pub items: u64,
    /// The seed of the hash of keys.
    pub hash_seed: u64,
    /// The version of the format in which the index is handed over.
    pub index_format: u32,
    /// The largest number of buckets of a stripe of the index.
    pub index_buckets: u32,
    /// The largest number of overflow buckets of a stripe of the index.
    pub index_overflow_buckets: u32,
    /// The number of messages `Socket` that follow.
    pub sockets: u64,
    /// True if a service manager has opened the sockets.
    pub are_passed: bool,
    pub logins: Logins,
    /// The lines of [`Engine::layout`](slabwise_engine::Engine::layout).
    pub layout: String,
}

/// The kinds of listening sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// TCP, or a Unix socket.
    Stream,
    Datagram,
    Http,
    Control,
}

/// How the clients of a server must authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logins {
    /// Not at all.
    None,
    /// By a `set` command (`-Y`).
    Text,
    /// By SASL (`-S`).
    Sasl,
}

impl Logins {
    const ALL: [(Logins, &'static str); 3] =
        [(Logins::None, "none"), (Logins::Text, "text"), (Logins::Sasl, "sasl")];

    pub fn of(settings: &Settings) -> Logins {
        match (&settings.auth_file, settings.sasl_enabled) {
            (Some(_), _) => Logins::Text,
            (None, true) => Logins::Sasl,
            (None, false) => Logins::None,
        }
    }
}

impl SocketKind {
    const ALL: [(SocketKind, &'static str); 4] = [
        (SocketKind::Stream, "stream"),
        (SocketKind::Datagram, "datagram"),
        (SocketKind::Http, "http"),
        (SocketKind::Control, "control"),
    ];
}

const PROTOCOLS: [(Protocol, &str); 3] =
    [(Protocol::Auto, "auto"), (Protocol::Ascii, "ascii"), (Protocol::Binary, "binary")];

fn name_of<T: PartialEq>(names: &[(T, &'static str)], value: &T) -> &'static str {
    names.iter().find(|(other, _)| other == value).map_or("", |&(_, name)| name)
}

fn named<T: Copy>(names: &[(T, &'static str)], text: &str) -> Option<T> {
    names.iter().find(|&&(_, name)| name == text).map(|&(value, _)| value)
}

impl Message {
    /// Returns an `Abort` with this reason on one line.
    pub fn abort(reason: &str) -> Message {
        let mut reason: String =
            reason.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
        while reason.len() > REASON_LEN_MAX {
            reason.pop();
        }
        Message::Abort { reason }
    }

    /// Returns the number of descriptors that come with the message.
    pub fn descriptor_count(&self) -> usize {
        match self {
            Message::Socket(_) => 1,
            Message::Memory => 2,
            Message::Connections { count, .. } => *count,
            _ => 0,
        }
    }

    /// Returns the text of the message.
    pub fn compose(&self) -> String {
        match self {
            Message::Hello { oldest, newest } => {
                format!("hello\noldest={oldest}\nnewest={newest}\n")
            }
            Message::Offer(offer) => compose_offer(offer),
            Message::Socket(kind) => format!("socket\nkind={}\n", name_of(&SocketKind::ALL, kind)),
            Message::Memory => "memory\n".to_owned(),
            Message::Collect => "collect\n".to_owned(),
            Message::Connections { protocol, has_logged_in, count } => format!(
                "connections\nprotocol={}\nhas_logged_in={}\ncount={count}\n",
                name_of(&PROTOCOLS, protocol),
                u8::from(*has_logged_in)
            ),
            Message::Counters { lines } => format!("counters\n{lines}"),
            Message::State(StateParts { text_len_bytes, image_len_bytes, connections }) => format!(
                "state\ntext_len_bytes={text_len_bytes}\nimage_len_bytes={image_len_bytes}\n\
                 connections={connections}\n"
            ),
            Message::Ready => "ready\n".to_owned(),
            Message::Take => "take\n".to_owned(),
            Message::Serving { process } => format!("serving\nprocess={process}\n"),
            Message::Abort { reason } => format!("abort\nreason={reason}\n"),
        }
    }

    /// Parses a message. Returns `None` unless [`Message::compose`] returns exactly these bytes for some message within the
    /// limits.
    pub fn parse(bytes: &[u8]) -> Option<Message> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut fields = Fields(text.lines());
        let message = match fields.0.next()? {
            "hello" => Message::Hello {
                oldest: fields.number("oldest")?,
                newest: fields.number("newest")?,
            },
            "offer" => Message::Offer(parse_offer(text, &mut fields)?),
            "socket" => Message::Socket(named(&SocketKind::ALL, fields.value("kind")?)?),
            "memory" => Message::Memory,
            "collect" => Message::Collect,
            "connections" => Message::Connections {
                protocol: named(&PROTOCOLS, fields.value("protocol")?)?,
                has_logged_in: fields.number::<u8>("has_logged_in")? == 1,
                count: fields.number("count")?,
            },
            // The lines belong to `counters.rs`.
            "counters" => Message::Counters { lines: text.strip_prefix("counters\n")?.to_owned() },
            "state" => Message::State(StateParts {
                text_len_bytes: fields.number("text_len_bytes")?,
                image_len_bytes: fields.number("image_len_bytes")?,
                connections: fields.number("connections")?,
            }),
            "ready" => Message::Ready,
            "take" => Message::Take,
            "serving" => Message::Serving { process: fields.number("process")? },
            "abort" => Message::abort(fields.value("reason")?),
            _ => return None,
        };
        let is_possible = match &message {
            Message::Connections { count, .. } => (1..=DESCRIPTORS_MAX).contains(count),
            _ => true,
        };
        (is_possible && message.compose().as_bytes() == bytes).then_some(message)
    }
}

fn compose_offer(offer: &Offer) -> String {
    let Offer {
        version,
        start_limit_bytes,
        option_limit_bytes,
        memory_limit_bytes,
        items,
        hash_seed,
        index_format,
        index_buckets,
        index_overflow_buckets,
        sockets,
        are_passed,
        logins,
        layout,
    } = offer;
    format!(
        "offer\nversion={version}\nstart_limit_bytes={start_limit_bytes}\n\
         option_limit_bytes={option_limit_bytes}\nmemory_limit_bytes={memory_limit_bytes}\nitems={items}\nhash_seed={hash_seed}\n\
         index_format={index_format}\nindex_buckets={index_buckets}\n\
         index_overflow_buckets={index_overflow_buckets}\nsockets={sockets}\nare_passed={}\nlogins={}\n{layout}",
        u8::from(*are_passed),
        name_of(&Logins::ALL, logins)
    )
}

fn parse_offer(text: &str, fields: &mut Fields<'_>) -> Option<Offer> {
    let offer = Offer {
        version: fields.number("version")?,
        start_limit_bytes: fields.number("start_limit_bytes")?,
        option_limit_bytes: fields.number("option_limit_bytes")?,
        memory_limit_bytes: fields.number("memory_limit_bytes")?,
        items: fields.number("items")?,
        hash_seed: fields.number("hash_seed")?,
        index_format: fields.number("index_format")?,
        index_buckets: fields.number("index_buckets")?,
        index_overflow_buckets: fields.number("index_overflow_buckets")?,
        sockets: fields.number("sockets")?,
        are_passed: fields.number::<u8>("are_passed")? == 1,
        logins: named(&Logins::ALL, fields.value("logins")?)?,
        layout: String::new(),
    };
    // The layout is the rest of the text. Its lines belong to the engine.
    let head = Message::Offer(offer.clone()).compose();
    Some(Offer { layout: text.strip_prefix(&head)?.to_owned(), ..offer })
}

/// The lines that are not parsed yet.
struct Fields<'t>(Lines<'t>);

impl<'t> Fields<'t> {
    fn value(&mut self, name: &str) -> Option<&'t str> {
        self.0.next()?.strip_prefix(name)?.strip_prefix('=')
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Option<T> {
        self.value(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Logins, Message, Offer, PROTOCOLS, SocketKind, StateParts, VERSION, VERSION_OLDEST,
        common_version,
    };
    use crate::config::Protocol;
    use slabwise_base::Random;

    /// Returns one message of each form.
    fn messages() -> Vec<Message> {
        let offer = Offer {
            version: VERSION,
            start_limit_bytes: 1 << 32,
            option_limit_bytes: 1 << 31,
            memory_limit_bytes: 1 << 33,
            items: u64::MAX,
            hash_seed: 1,
            index_format: 1,
            index_buckets: 8,
            index_overflow_buckets: 0,
            sockets: 0,
            are_passed: true,
            logins: Logins::Sasl,
            layout: "format=5\nchunk_sizes=64,128\n".to_owned(),
        };
        let mut all = vec![
            Message::Hello { oldest: 1, newest: VERSION },
            Message::Offer(Offer { layout: String::new(), are_passed: false, ..offer.clone() }),
            Message::Offer(offer),
            Message::Memory,
            Message::Collect,
            Message::Counters { lines: String::new() },
            Message::Counters { lines: "get_misses=1\n".to_owned() },
            Message::State(StateParts { text_len_bytes: 10, image_len_bytes: 0, connections: 7 }),
            Message::Ready,
            Message::Take,
            Message::Serving { process: 1 },
            Message::abort("the new server\nfails: é"),
            Message::abort(&"é".repeat(3000)),
        ];
        all.extend(SocketKind::ALL.map(|(kind, _)| Message::Socket(kind)));
        all.extend(PROTOCOLS.map(|(protocol, _)| {
            let has_logged_in = protocol == Protocol::Binary;
            Message::Connections { protocol, has_logged_in, count: 64 }
        }));
        all
    }

    #[test]
    fn every_message_is_parsed_as_it_was_composed() {
        for message in messages() {
            assert_eq!(Message::parse(message.compose().as_bytes()), Some(message));
        }
    }

    #[test]
    fn two_processes_use_the_newest_version_that_both_speak() {
        assert_eq!(common_version(VERSION_OLDEST, VERSION), Some(VERSION));
        assert_eq!(common_version(1, VERSION + 5), Some(VERSION));
        assert_eq!(common_version(VERSION + 1, VERSION + 5), None);
        assert_eq!(common_version(1, VERSION_OLDEST - 1), None);
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in [
            "",
            "\n",
            "hello",
            "hello\n",
            "hello\noldest=1\nnewest=1",
            "hello\noldest=+1\nnewest=1\n",
            "hello\noldest=01\nnewest=1\n",
            "hello\noldest=1\nnewest=1\n\n",
            "hello\r\noldest=1\nnewest=1\n",
            "take\n ",
            "connections\nprotocol=auto\nhas_logged_in=0\ncount=65\n",
            "connections\nprotocol=auto\nhas_logged_in=0\ncount=0\n",
            "connections\nhas_logged_in=0\ncount=1\nprotocol=auto\n",
            "connections\nprotocol=auto\nhas_logged_in=2\ncount=1\n",
            "socket\nkind=tcp\n",
            "abort\n",
            "offer\nversion=1\nstart_limit_bytes=1\nmemory_limit_bytes=1\nitems=1\nsockets=1\nare_passed=2\n",
        ] {
            assert_eq!(Message::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert_eq!(Message::parse(b"\xff"), None);
    }

    #[test]
    fn a_changed_message_is_refused_or_is_another_message() {
        let mut random = Random::new(7);
        let all = messages();
        for _ in 0..20_000 {
            let mut bytes = all[random.below(all.len() as u64) as usize].compose().into_bytes();
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[at] = random.next_u64() as u8,
                1 => bytes.truncate(at),
                _ => bytes.insert(at, b"0\n=9a"[random.below(5) as usize]),
            }
            if let Some(message) = Message::parse(&bytes) {
                assert_eq!(message.compose().as_bytes(), bytes, "seed 7");
            }
        }
    }
}
