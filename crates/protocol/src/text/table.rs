//! Every command, as data: its name, what its family asks of a line, and what the line becomes.

use super::cost_wire::CostWire;
use super::refusal::Refusal;
use super::words::Words;
use super::{admin, stats, storage};
use crate::admin::{Admin, Debug};
use crate::request::{Direction, Request};

pub(super) struct Command {
    name: &'static [u8],
    pub(super) family: Family,
    pub(super) shape: Shape,
}

/// What is asked of a line before its command looks at it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Begins its line. With fewer words than this behind the name it is refused, whatever they are; a last
    /// `noreply` silences the rest.
    Keyed {
        /// Words behind the name, at least.
        words_min: usize,
    },
    /// Begins its line, and is always answered, whatever words follow.
    Question,
    /// May stand behind spaces, takes any words; a last `noreply` silences it.
    Order,
}

/// get, gets, gat or gats.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) with_cas: bool,
    /// Whether a lifetime stands before the keys.
    pub(super) touches: bool,
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
    pub(super) fn request<'a>(
        self,
        words: &Words<'a>,
        cost_wire: CostWire,
    ) -> Result<Request<'a>, Refusal> {
        match self {
            Shape::Retrieval(_) => unreachable!("a retrieval's words are keys, read one by one"),
            Shape::Storage(verb) => storage::store(verb, words, cost_wire),
            Shape::Arithmetic(direction) => storage::arithmetic(direction, words),
            Shape::Other(read) => read(words),
        }
    }
}

const fn row(name: &'static str, family: Family, shape: Shape) -> Command {
    Command { name: name.as_bytes(), family, shape }
}

const fn retrieval(name: &'static str, form: Form) -> Command {
    row(name, Family::Question, Shape::Retrieval(form))
}

const fn storage(name: &'static str, verb: storage::Verb) -> Command {
    row(name, Family::Keyed { words_min: 4 }, Shape::Storage(verb))
}

const fn order(
    name: &'static str,
    read: for<'a> fn(&Words<'a>) -> Result<Request<'a>, Refusal>,
) -> Command {
    row(name, Family::Order, Shape::Other(read))
}

/// In order of how often they are sent: the search starts at the top.
static COMMANDS: [Command; 29] = [
    retrieval("get", Form { with_cas: false, touches: false }),
    storage("set", storage::Verb::Set),
    retrieval("gets", Form { with_cas: true, touches: false }),
    row("delete", Family::Keyed { words_min: 1 }, Shape::Other(storage::delete)),
    row("incr", Family::Keyed { words_min: 2 }, Shape::Arithmetic(Direction::Increment)),
    row("decr", Family::Keyed { words_min: 2 }, Shape::Arithmetic(Direction::Decrement)),
    storage("add", storage::Verb::Add),
    storage("cas", storage::Verb::Cas),
    row("touch", Family::Keyed { words_min: 2 }, Shape::Other(storage::touch)),
    retrieval("gat", Form { with_cas: false, touches: true }),
    retrieval("gats", Form { with_cas: true, touches: true }),
    storage("replace", storage::Verb::Replace),
    storage("append", storage::Verb::Append),
    storage("prepend", storage::Verb::Prepend),
    row("version", Family::Question, Shape::Other(|_| Ok(Request::Version))),
    row("quit", Family::Question, Shape::Other(|_| Ok(Request::Quit))),
    row("stats", Family::Question, Shape::Other(stats::stats)),
    row("watch", Family::Question, Shape::Other(admin::watch)),
    order("flush_all", admin::flush_all),
    order("verbosity", admin::verbosity),
    order("cache_memlimit", admin::memory_limit),
    order("shutdown", admin::shutdown),
    order("slabs", admin::slabs),
    order("lru", admin::lru),
    order("lru_crawler", admin::crawler),
    order("refresh_certs", admin::refresh_certificates),
    order("debugtime", admin::debug_time),
    order("debugitem", admin::debug_item),
    order("misbehave", |_| Ok(Request::Admin(Admin::Debug(Debug::Misbehave)))),
];

pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}
