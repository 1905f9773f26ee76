//! The messages of a handover, as text: the first line is the name of the message, and each further line is a field
//! `name=value`. The fields have a fixed order. Numbers are decimal.
//!
//! A message has exactly one text, so the parser accepts only what the other process can have composed: it composes the
//! parsed message again and compares.

use crate::config::Protocol;
use crate::os::channel::DESCRIPTORS_MAX;
use std::str::Lines;

/// The version of the messages. A process hands over only to a process with the same version.
pub const VERSION: u32 = 1;

/// The maximum length of a reason, in bytes. Longer ones are cut.
const REASON_LEN_MAX: usize = 2000;

/// A message of either process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// New process: the first message.
    Hello { version: u32 },
    /// Old process: what it can hand over. The messages `Socket` and one `Memory` follow.
    Offer(Offer),
    /// Old process: a listening socket, as the only descriptor.
    Socket(SocketKind),
    /// Old process: the arena, and the file to which the state will be written, as descriptors.
    Memory,
    /// New process: the old process should pause, and send the connections and the state.
    Collect,
    /// Old process: idle connections of one protocol, as descriptors.
    Connections { protocol: Protocol, count: usize },
    /// Old process: the state is in the file, and no further connection follows.
    State { len_bytes: u64, connections: u64 },
    /// New process: it has built the index, and waits for `Take`.
    Ready,
    /// Old process: from now on the new process serves.
    Take,
    /// New process: it serves.
    Serving { process: u32 },
    /// Either process ends the handover for this reason. The old process continues to serve.
    Abort { reason: String },
}

/// What the old process can hand over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub version: u32,
    /// `-m` at the start of the old process.
    pub start_limit_bytes: u64,
    /// The memory limit now.
    pub memory_limit_bytes: u64,
    pub items: u64,
    /// The number of messages `Socket` that follow.
    pub sockets: u64,
    /// True if a service manager has opened the sockets.
    pub are_passed: bool,
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
            Message::Hello { version } => format!("hello\nversion={version}\n"),
            Message::Offer(offer) => format!(
                "offer\nversion={}\nstart_limit_bytes={}\nmemory_limit_bytes={}\nitems={}\nsockets={}\nare_passed={}\n{}",
                offer.version,
                offer.start_limit_bytes,
                offer.memory_limit_bytes,
                offer.items,
                offer.sockets,
                u8::from(offer.are_passed),
                offer.layout
            ),
            Message::Socket(kind) => format!("socket\nkind={}\n", name_of(&SocketKind::ALL, kind)),
            Message::Memory => "memory\n".to_owned(),
            Message::Collect => "collect\n".to_owned(),
            Message::Connections { protocol, count } => {
                format!("connections\nprotocol={}\ncount={count}\n", name_of(&PROTOCOLS, protocol))
            }
            Message::State { len_bytes, connections } => {
                format!("state\nlen_bytes={len_bytes}\nconnections={connections}\n")
            }
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
            "hello" => Message::Hello { version: fields.number("version")? },
            "offer" => Message::Offer(parse_offer(text, &mut fields)?),
            "socket" => Message::Socket(named(&SocketKind::ALL, fields.value("kind")?)?),
            "memory" => Message::Memory,
            "collect" => Message::Collect,
            "connections" => Message::Connections {
                protocol: named(&PROTOCOLS, fields.value("protocol")?)?,
                count: fields.number("count")?,
            },
            "state" => Message::State {
                len_bytes: fields.number("len_bytes")?,
                connections: fields.number("connections")?,
            },
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

fn parse_offer(text: &str, fields: &mut Fields<'_>) -> Option<Offer> {
    let offer = Offer {
        version: fields.number("version")?,
        start_limit_bytes: fields.number("start_limit_bytes")?,
        memory_limit_bytes: fields.number("memory_limit_bytes")?,
        items: fields.number("items")?,
        sockets: fields.number("sockets")?,
        are_passed: fields.number::<u8>("are_passed")? == 1,
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
    use super::{Message, Offer, PROTOCOLS, SocketKind, VERSION};
    use slabwise_base::Random;

    /// Returns one message of each form.
    fn messages() -> Vec<Message> {
        let offer = Offer {
            version: VERSION,
            start_limit_bytes: 1 << 32,
            memory_limit_bytes: 1 << 33,
            items: u64::MAX,
            sockets: 0,
            are_passed: true,
            layout: "format=5\nchunk_sizes=64,128\n".to_owned(),
        };
        let mut all = vec![
            Message::Hello { version: VERSION },
            Message::Offer(Offer { layout: String::new(), are_passed: false, ..offer.clone() }),
            Message::Offer(offer),
            Message::Memory,
            Message::Collect,
            Message::State { len_bytes: 0, connections: 7 },
            Message::Ready,
            Message::Take,
            Message::Serving { process: 1 },
            Message::abort("the new server\nfails: é"),
            Message::abort(&"é".repeat(3000)),
        ];
        all.extend(SocketKind::ALL.map(|(kind, _)| Message::Socket(kind)));
        all.extend(PROTOCOLS.map(|(protocol, _)| Message::Connections { protocol, count: 64 }));
        all
    }

    #[test]
    fn every_message_is_parsed_as_it_was_composed() {
        for message in messages() {
            assert_eq!(Message::parse(message.compose().as_bytes()), Some(message));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in [
            "",
            "\n",
            "hello",
            "hello\n",
            "hello\nversion=1",
            "hello\nversion=+1\n",
            "hello\nversion=01\n",
            "hello\nversion=1\n\n",
            "hello\r\nversion=1\n",
            "take\n ",
            "connections\nprotocol=auto\ncount=65\n",
            "connections\nprotocol=auto\ncount=0\n",
            "connections\ncount=1\nprotocol=auto\n",
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
