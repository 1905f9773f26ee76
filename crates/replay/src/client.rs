//! Carries rounds out: composes requests onto connections, reads the replies, and checks that every
//! hit holds the bytes that its key must have.
//!
//! One thread drives all connections. A key always goes to the same one, so that its requests stay in
//! order.

use crate::connection::{Connection, Received, ServerAddress};
use crate::error::ReplayError;
use crate::key::key_bytes;
use crate::look_aside::{Action, Pending};
use crate::values::{Match, Values};
use crate::wire::{self, CostForm, Parsed, Reply};
use mio::{Events, Poll, Token};
use slabwise_base::Clock;
use slabwise_base::random::mix;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a server may say nothing at all while it owes replies.
const SILENCE_SECONDS_MAX: u64 = 30;

/// Whether a key's values may differ in length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthCheck {
    /// A hit must have exactly the request's length.
    Exact,
    /// The workload changes lengths: a hit may have an older one, if its bytes fit that.
    Any,
}

/// How the server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key was there, with the right bytes.
    Hit,
    /// It was not.
    Miss,
    /// The set or delete was done.
    Done,
    /// The server would not store the value.
    Refused,
}

/// One answered request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// What was sent.
    pub action: Action,
    /// The request it was sent for.
    pub pending: Pending,
    /// How it went.
    pub outcome: Outcome,
    /// When the answer was read.
    pub nanos: u64,
}

/// A connection and what it still owes, in order.
#[derive(Debug)]
struct Lane {
    connection: Connection,
    owed: VecDeque<(Action, Pending)>,
}

/// The connections to one server.
#[derive(Debug)]
pub struct Client {
    poll: Poll,
    events: Events,
    lanes: Vec<Lane>,
    values: Values,
    length_check: LengthCheck,
    cost_form: CostForm,
    /// Replies owed over all lanes.
    owed: usize,
}

impl Client {
    /// Opens `connections` connections, at least one.
    pub fn connect(
        server: &ServerAddress,
        connections: usize,
        length_check: LengthCheck,
    ) -> Result<Client, ReplayError> {
        let poll = Poll::new().map_err(ReplayError::Lost)?;
        let mut lanes = Vec::with_capacity(connections);
        for index in 0..connections {
            let connection = Connection::open(server, poll.registry(), Token(index))?;
            lanes.push(Lane { connection, owed: VecDeque::new() });
        }
        let events = Events::with_capacity(connections.clamp(16, 1024));
        Ok(Client {
            poll,
            events,
            lanes,
            values: Values::new(),
            length_check,
            cost_form: CostForm::None,
            owed: 0,
        })
    }

    /// The same client, which tells costs in this form.
    pub fn telling_costs(self, cost_form: CostForm) -> Client {
        Client { cost_form, ..self }
    }

    /// Puts a request into its connection's out-buffer.
    pub fn send(&mut self, action: Action, pending: Pending) {
        let (key, value_len) = (pending.request.key, pending.request.value_len);
        let lane_count = self.lanes.len() as u64;
        let lane = &mut self.lanes[(mix(key) % lane_count) as usize];
        let out = lane.connection.out();
        match action {
            Action::Get => wire::compose_get(out, key),
            Action::Delete => wire::compose_delete(out, key),
            Action::Fill | Action::Set => {
                match pending.request.cost {
                    Some(cost) => {
                        wire::compose_priced_set_start(out, key, value_len, cost, self.cost_form);
                    }
                    None => wire::compose_set_start(out, key, value_len),
                }
                self.values.append(out, key, value_len as usize);
                wire::compose_set_end(out);
            }
        }
        lane.owed.push_back((action, pending));
        self.owed += 1;
    }

    /// Sends what was composed and waits until everything is answered.
    pub fn exchange(
        &mut self,
        clock: &Clock,
        mut answered: impl FnMut(Answer),
    ) -> Result<(), ReplayError> {
        for lane in &mut self.lanes {
            lane.connection.flush()?;
        }
        while self.owed > 0 {
            self.wait()?;
            for event in &self.events {
                let lane = &mut self.lanes[event.token().0];
                lane.connection.flush()?;
                loop {
                    let received = lane.connection.receive()?;
                    let nanos = clock.nanos();
                    self.owed -=
                        take_replies(lane, &self.values, self.length_check, |outcome, sent| {
                            let (action, pending) = sent;
                            answered(Answer { action, pending, outcome, nanos });
                        })?;
                    // A closed connection has no further event: read on to its end.
                    let closing = event.is_read_closed() && !lane.owed.is_empty();
                    if received == Received::All && !closing {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), ReplayError> {
        loop {
            match self.poll.poll(&mut self.events, Some(Duration::from_secs(SILENCE_SECONDS_MAX))) {
                Ok(()) if self.events.is_empty() => {
                    return Err(ReplayError::Silent { seconds: SILENCE_SECONDS_MAX });
                }
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReplayError::Lost(error)),
            }
        }
    }
}

/// Takes all whole replies that a lane has received; returns how many.
fn take_replies(
    lane: &mut Lane,
    values: &Values,
    length_check: LengthCheck,
    mut each: impl FnMut(Outcome, (Action, Pending)),
) -> Result<usize, ReplayError> {
    let mut taken = 0;
    loop {
        let bytes = lane.connection.received();
        if bytes.is_empty() {
            return Ok(taken);
        }
        let Some(&(action, pending)) = lane.owed.front() else {
            return Err(malformed("nothing", bytes));
        };
        match wire::parse(bytes) {
            Parsed::Reply(reply, size_bytes) => {
                let outcome = judge(&reply, action, &pending, values, length_check)?;
                each(outcome, (action, pending));
                lane.owed.pop_front();
                lane.connection.consume(size_bytes);
                taken += 1;
            }
            Parsed::Incomplete(size_bytes) => {
                lane.connection.make_room(size_bytes);
                return Ok(taken);
            }
            Parsed::Malformed(line) => return Err(malformed(&described(action, &pending), line)),
        }
    }
}

/// Whether a reply is one to what was sent, and a right one.
fn judge(
    reply: &Reply<'_>,
    action: Action,
    pending: &Pending,
    values: &Values,
    length_check: LengthCheck,
) -> Result<Outcome, ReplayError> {
    match (action, reply) {
        (Action::Get, Reply::Hit { key, value }) => {
            check_hit(pending, key, value, values, length_check)
        }
        (Action::Get, Reply::Miss) => Ok(Outcome::Miss),
        (Action::Fill | Action::Set, Reply::Stored) => Ok(Outcome::Done),
        (Action::Fill | Action::Set, Reply::Refused(_)) => Ok(Outcome::Refused),
        (Action::Delete, Reply::Deleted) => Ok(Outcome::Done),
        (_, Reply::Refused(line)) => Err(malformed(&described(action, pending), line)),
        (_, other) => Err(malformed(&described(action, pending), format!("{other:?}").as_bytes())),
    }
}

fn check_hit(
    pending: &Pending,
    key: &[u8],
    value: &[u8],
    values: &Values,
    length_check: LengthCheck,
) -> Result<Outcome, ReplayError> {
    let asked = key_bytes(pending.request.key);
    let wrong = |what: String| {
        Err(ReplayError::WrongData { key: String::from_utf8_lossy(&asked).into_owned(), what })
    };
    if key != asked {
        return wrong(format!("the answer is for key {}", String::from_utf8_lossy(key)));
    }
    if values.check(pending.request.key, value) == Match::Differs {
        return wrong(format!("the {} B of the value are not those stored", value.len()));
    }
    let value_len = pending.request.value_len as usize;
    if length_check == LengthCheck::Exact && value.len() != value_len {
        let key = String::from_utf8_lossy(&asked).into_owned();
        return Err(ReplayError::OtherReplay { key, found: value.len(), value_len });
    }
    Ok(Outcome::Hit)
}

fn described(action: Action, pending: &Pending) -> String {
    let key = key_bytes(pending.request.key);
    let command = match action {
        Action::Get => "get",
        Action::Fill | Action::Set => "set",
        Action::Delete => "delete",
    };
    format!("'{command} {}'", String::from_utf8_lossy(&key))
}

fn malformed(context: &str, line: &[u8]) -> ReplayError {
    let shown = &line[..line.len().min(80)];
    let line = String::from_utf8_lossy(shown).escape_debug().to_string();
    ReplayError::Malformed { context: context.to_owned(), line }
}
