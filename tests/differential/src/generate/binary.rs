//! Random packets of the binary protocol.

use super::Generator;
use crate::keys::{KEYS, MISSING};
use crate::step::{After, Family, Part, Step};
use slabwise_protocol::binary::opcode;

/// The opcodes of valid commands, with the weights of their frequencies.
const OPCODES: [(usize, u8); 30] = [
    (6, opcode::GET),
    (4, opcode::GETQ),
    (4, opcode::GETK),
    (4, opcode::GETKQ),
    (8, opcode::SET),
    (4, opcode::SETQ),
    (3, opcode::ADD),
    (2, opcode::ADDQ),
    (3, opcode::REPLACE),
    (2, opcode::REPLACEQ),
    (3, opcode::APPEND),
    (2, opcode::APPENDQ),
    (3, opcode::PREPEND),
    (2, opcode::PREPENDQ),
    (3, opcode::DELETE),
    (2, opcode::DELETEQ),
    (5, opcode::INCREMENT),
    (3, opcode::INCREMENTQ),
    (5, opcode::DECREMENT),
    (3, opcode::DECREMENTQ),
    (4, opcode::TOUCH),
    (3, opcode::GAT),
    (2, opcode::GATQ),
    (2, opcode::GATK),
    (2, opcode::GATKQ),
    (1, opcode::NOOP),
    (1, opcode::VERSION),
    (1, opcode::STAT),
    (1, opcode::SASL_LIST_MECHS),
    (1, opcode::FLUSH),
];

/// A packet before it is written.
#[derive(Default)]
struct Packet {
    opcode: u8,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The length of the body in the head, if it is not the length of extras, key and value.
    body_len: Option<u32>,
}

impl Generator {
    /// Returns a random packet.
    pub(super) fn packet(&mut self) -> Step {
        let opcode = self.choices.weighted(&OPCODES);
        let key = match opcode {
            opcode::INCREMENT..=opcode::DECREMENT | opcode::INCREMENTQ..=opcode::DECREMENTQ => {
                self.number_key()
            }
            opcode::SET | opcode::SETQ => self.key(),
            opcode::ADD | opcode::ADDQ => self.absent_key(),
            _ => self.present_key(),
        };
        let mut packet = self.valid_packet(opcode, key);
        let mut after = After::Marker;
        if self.choices.one_in(20) {
            after = self.spoil(&mut packet);
        }
        self.write(packet, key, after)
    }

    /// Returns a packet that flushes all items.
    pub(super) fn flush_packet(&mut self) -> Step {
        let opcode = self.choices.one_of(&[opcode::FLUSH, opcode::FLUSHQ]);
        let extras = vec![0; self.choices.one_of(&[0, 4])];
        self.write(Packet { opcode, extras, ..Packet::default() }, 0, After::Marker)
    }

    fn valid_packet(&mut self, opcode: u8, key: usize) -> Packet {
        let name = if self.choices.one_in(30) { MISSING } else { KEYS[key] };
        let mut packet = Packet { opcode, key: name.to_vec(), ..Packet::default() };
        match opcode {
            opcode::SET..=opcode::REPLACE | opcode::SETQ..=opcode::REPLACEQ => {
                self.present[key] |= !matches!(opcode, opcode::REPLACE | opcode::REPLACEQ);
                let client_flags = self.choices.one_of(&[0, 0, 5, u32::MAX]);
                packet.extras = client_flags.to_be_bytes().to_vec();
                packet.extras.extend(self.exptime_number().to_be_bytes());
                packet.value = self.value(key);
                if name == MISSING {
                    packet.key = KEYS[key].to_vec();
                }
            }
            opcode::APPEND | opcode::PREPEND | opcode::APPENDQ | opcode::PREPENDQ => {
                packet.value = self.value(key);
            }
            opcode::INCREMENT | opcode::DECREMENT | opcode::INCREMENTQ | opcode::DECREMENTQ => {
                packet.key = KEYS[key].to_vec();
                let exptime = self.choices.one_of(&[0, 0, 100_000, u32::MAX, u32::MAX]);
                packet.extras = self.plain_number().to_be_bytes().to_vec();
                packet.extras.extend(self.plain_number().to_be_bytes());
                packet.extras.extend(exptime.to_be_bytes());
            }
            opcode::TOUCH | opcode::GAT | opcode::GATQ | opcode::GATK | opcode::GATKQ => {
                packet.extras = self.exptime_number().to_be_bytes().to_vec();
            }
            opcode::DELETE | opcode::DELETEQ => self.present[key] = false,
            opcode::FLUSH => {
                packet.key.clear();
                packet.extras = 100_000u32.to_be_bytes().to_vec();
            }
            opcode::STAT => {
                let subjects = ["", "", "reset", "settings", "garbage", "sizes x", "detail x"];
                packet.key = self.choices.one_of(&subjects).into();
            }
            opcode::NOOP | opcode::VERSION | opcode::SASL_LIST_MECHS => packet.key.clear(),
            _ => {}
        }
        packet
    }

    /// Makes a packet invalid. Returns the way in which its reply ends.
    fn spoil(&mut self, packet: &mut Packet) -> After {
        match self.choices.below(12) {
            0 => packet.extras = vec![0; self.choices.one_of(&[0, 4, 8, 20, 21, 255])],
            1 => packet.key.clear(),
            2 if self.choices.one_in(4) => packet.key = vec![b'z'; 3000],
            2 => packet.key = self.long_key(),
            3 => packet.value = self.value(3),
            4 => packet.body_len = Some(self.choices.below(8) as u32),
            5 => packet.body_len = Some(self.choices.one_of(&[1 << 20, 1 << 30, (1 << 30) + 1])),
            6 => packet.body_len = Some(u32::MAX),
            7 => packet.opcode = self.choices.one_of(&[opcode::QUIT, opcode::QUITQ]),
            8 => {
                *packet = Packet { opcode: packet.opcode, ..Packet::default() };
                packet.opcode = self.choices.one_of(&[opcode::QUIT, opcode::QUITQ]);
            }
            9 => {
                packet.opcode = self.choices.one_of(&[0x1b, 0x1f, 0x25, 0x30, 0x80, 0xff]);
                if self.choices.percent(50) {
                    *packet = Packet { opcode: packet.opcode, ..Packet::default() };
                    return After::Marker;
                }
            }
            10 => packet.opcode = self.choices.one_of(&[opcode::SASL_AUTH, opcode::SASL_STEP]),
            _ => packet.opcode = (self.choices.number() & 0x3f) as u8,
        }
        if matches!(packet.opcode, opcode::FLUSH | opcode::FLUSHQ) {
            packet.opcode = opcode::NOOP;
        }
        After::Finish
    }

    /// Returns the step that sends a packet.
    fn write(&mut self, packet: Packet, key: usize, mut after: After) -> Step {
        let magic = if self.choices.one_in(2000) { 0x81 } else { 0x80 };
        if magic != 0x80 {
            after = After::Finish;
        }
        let Packet { opcode, extras, key: name, value, body_len } = packet;
        let len = u32::try_from(extras.len() + name.len() + value.len());
        let body_len = body_len.unwrap_or(len.expect("a generated body is small"));
        let key_len = u16::try_from(name.len()).expect("a generated key is short");
        let extras_len = u8::try_from(extras.len()).expect("generated extras are short");
        let unused = if self.choices.one_in(100) { 0x77 } else { 0 };
        let mut head = vec![magic, opcode];
        head.extend(key_len.to_be_bytes());
        head.extend([extras_len, unused, unused, unused]);
        head.extend(body_len.to_be_bytes());
        head.extend((self.choices.number() as u32 & 0x7fff_ffff).to_be_bytes());
        let cas = match self.choices.below(10) {
            0..3 => self.cas_part(key),
            3 => Part::Bytes((self.choices.below(20) as u64).to_be_bytes().to_vec()),
            _ => Part::Bytes(vec![0; 8]),
        };
        let body = [extras, name, value].concat();
        let parts = vec![Part::Bytes(head), cas, Part::Bytes(body)];
        Step { parts, key: Some(key), after, ..Step::new(Family::Binary, Vec::new()) }
    }
}
