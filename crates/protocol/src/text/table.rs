//! Every command, as data: its name, how many words may follow, from how many words on the last may
//! be `noreply`, and what it becomes.

use super::retrieval::Form;
use super::words::Words;
use super::{Refusal, admin, stats, storage};
use crate::{Admin, Debug, Direction, Request};
use std::ops::RangeInclusive;

pub(super) struct Command {
    name: &'static [u8],
    pub(super) word_counts: RangeInclusive<usize>,
    /// With fewer words, a last `noreply` is something else: a key.
    pub(super) noreply_from: usize,
    pub(super) shape: Shape,
}

/// What a command's words mean.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Retrieval(Form),
    Storage(storage::Verb),
    Arithmetic(Direction),
    Other(for<'a> fn(&Words<'a>) -> Result<Request<'a>, Refusal>),
}

impl Shape {
    pub(super) fn request<'a>(self, words: &Words<'a>) -> Result<Request<'a>, Refusal> {
        match self {
            Shape::Retrieval(_) => unreachable!("a retrieval's words are keys, read one by one"),
            Shape::Storage(verb) => storage::store(verb, words),
            Shape::Arithmetic(direction) => storage::arithmetic(direction, words),
            Shape::Other(read) => read(words),
        }
    }
}

const fn row(
    name: &'static str,
    word_counts: RangeInclusive<usize>,
    noreply_from: usize,
    shape: Shape,
) -> Command {
    Command { name: name.as_bytes(), word_counts, noreply_from, shape }
}

const ANY: usize = usize::MAX;
const NEVER: usize = usize::MAX;

/// In order of how often they are sent: the search starts at the top.
static COMMANDS: [Command; 30] = [
    row("get", 1..=ANY, NEVER, Shape::Retrieval(Form { with_cas: false, touches: false })),
    row("set", 4..=5, 1, Shape::Storage(storage::Verb::Set)),
    row("gets", 1..=ANY, NEVER, Shape::Retrieval(Form { with_cas: true, touches: false })),
    row("delete", 1..=3, 2, Shape::Other(storage::delete)),
    row("incr", 2..=3, 1, Shape::Arithmetic(Direction::Increment)),
    row("decr", 2..=3, 1, Shape::Arithmetic(Direction::Decrement)),
    row("add", 4..=5, 1, Shape::Storage(storage::Verb::Add)),
    row("cas", 5..=6, 1, Shape::Storage(storage::Verb::Cas)),
    row("touch", 2..=3, 1, Shape::Other(storage::touch)),
    row("gat", 1..=ANY, NEVER, Shape::Retrieval(Form { with_cas: false, touches: true })),
    row("gats", 1..=ANY, NEVER, Shape::Retrieval(Form { with_cas: true, touches: true })),
    row("replace", 4..=5, 1, Shape::Storage(storage::Verb::Replace)),
    row("append", 4..=5, 1, Shape::Storage(storage::Verb::Append)),
    row("prepend", 4..=5, 1, Shape::Storage(storage::Verb::Prepend)),
    // get's name before 2004; some clients' libraries still know it.
    row("bget", 1..=ANY, NEVER, Shape::Retrieval(Form { with_cas: false, touches: false })),
    row("version", 0..=ANY, NEVER, Shape::Other(|_| Ok(Request::Version))),
    row("quit", 0..=ANY, NEVER, Shape::Other(|_| Ok(Request::Quit))),
    row("stats", 0..=ANY, NEVER, Shape::Other(stats::stats)),
    row("flush_all", 0..=2, 1, Shape::Other(admin::flush_all)),
    row("verbosity", 1..=2, 1, Shape::Other(admin::verbosity)),
    row("cache_memlimit", 1..=2, 1, Shape::Other(admin::memory_limit)),
    row("shutdown", 0..=ANY, NEVER, Shape::Other(admin::shutdown)),
    row("slabs", 1..=ANY, 1, Shape::Other(admin::slabs)),
    row("lru", 1..=ANY, 1, Shape::Other(admin::lru)),
    row("lru_crawler", 1..=ANY, NEVER, Shape::Other(admin::crawler)),
    row("refresh_certs", 0..=ANY, NEVER, Shape::Other(admin::refresh_certificates)),
    row("watch", 0..=ANY, NEVER, Shape::Other(admin::watch)),
    row("debugtime", 1..=1, NEVER, Shape::Other(admin::debug_time)),
    row("debugitem", 2..=2, NEVER, Shape::Other(admin::debug_item)),
    row(
        "misbehave",
        0..=0,
        NEVER,
        Shape::Other(|_| Ok(Request::Admin(Admin::Debug(Debug::Misbehave)))),
    ),
];

pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}
