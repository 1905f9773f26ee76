//! Sends the requests of a round over the connections, receives the replies, and checks the value of every hit.
//!
//! All requests for a key use the same connection, so the server receives them in the order of the workload.

use crate::error::ReplayError;
use crate::look_aside::{Action, Pending};
use crate::values::{Match, Values, key_bytes};
use slabwise_base::random::mix;
use slabwise_base::{Clock, Cost};
use slabwise_client::{ClientError, Pipelines, Reply, ServerAddress, request};
use std::time::Duration;

/// The longest time in which no bytes arrive while replies are outstanding. Longer silence stops the replay.
const READ_TIMEOUT_SECONDS: u64 = 30;

/// The form in which a set sends the cost of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CostForm {
    /// A word of the line of a `set`. slabwise accepts this form with `-o cost_wire`.
    Wire,
    /// A flag of the meta protocol that only slabwise has.
    Meta,
    /// Costs are not sent.
    None,
}

/// The check of the length of a hit's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthCheck {
    /// The value must have the length of the request.
    Exact,
    /// The value may have any length, because the workload changes the lengths of its keys' values.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Hit,
    Miss,
    /// A set stored the item, or a delete was executed.
    Done,
    /// The server refused a set, because the item is too large or memory is full.
    Refused,
}

/// A request and the outcome that its reply reports.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub action: Action,
    pub pending: Pending,
    pub outcome: Outcome,
    /// The time at which the reply arrived, in nanoseconds of the replay's clock.
    pub reply_nanos: u64,
}

#[derive(Debug)]
pub struct Client {
    pipelines: Pipelines<(Action, Pending)>,
    values: Values,
    length_check: LengthCheck,
    cost_form: CostForm,
}

impl Client {
    /// Opens `connections` connections, at least one.
    pub fn connect(
        server: &ServerAddress,
        connections: usize,
        length_check: LengthCheck,
        cost_form: CostForm,
    ) -> Result<Client, ReplayError> {
        let read_timeout = Duration::from_secs(READ_TIMEOUT_SECONDS);
        let pipelines = Pipelines::connect(server, connections, read_timeout);
        let pipelines = pipelines.map_err(|error| match error {
            ClientError::Connect(source) => {
                ReplayError::Connect { server: server.to_string(), source }
            }
            other => other.into(),
        })?;
        Ok(Client { pipelines, values: Values::new(), length_check, cost_form })
    }

    /// Appends a request to the buffer of its connection. [`Client::exchange`] sends it.
    pub fn append_request(&mut self, action: Action, pending: Pending) {
        let (key, value_len) = (pending.request.key, pending.request.value_len);
        let connection = (mix(key) % self.pipelines.connection_count() as u64) as usize;
        let out = self.pipelines.request(connection, (action, pending));
        let key_text = key_bytes(key);
        match action {
            Action::Get => request::get(out, &key_text),
            Action::Delete => request::delete(out, &key_text),
            Action::Fill | Action::Set => {
                let units = pending.request.cost.map(Cost::units);
                match (self.cost_form, units) {
                    (CostForm::Meta, Some(units)) => {
                        request::meta_set_line(out, &key_text, units, value_len);
                    }
                    (CostForm::Wire, units) => request::set_line(out, &key_text, units, value_len),
                    _ => request::set_line(out, &key_text, None, value_len),
                }
                self.values.append(out, key, value_len as usize);
                request::end_value(out);
            }
        }
    }

    /// Sends the appended requests, receives all replies, and calls `on_answer` for each.
    pub fn exchange(
        &mut self,
        clock: &Clock,
        mut on_answer: impl FnMut(Answer),
    ) -> Result<(), ReplayError> {
        let Client { pipelines, values, length_check, .. } = self;
        pipelines.exchange(clock, |&(action, pending), reply, reply_nanos| {
            let outcome = check_reply(&reply, action, &pending, values, *length_check)?;
            on_answer(Answer { action, pending, outcome, reply_nanos });
            Ok(())
        })
    }
}

/// Returns the outcome that the reply to a request reports. Fails if the reply is not valid for the request.
fn check_reply(
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
        (_, Reply::Refused(line) | Reply::Malformed(line)) => {
            Err(ReplayError::malformed(&described_request(action, pending), line))
        }
        (_, other) => {
            let shown = format!("{other:?}");
            Err(ReplayError::malformed(&described_request(action, pending), shown.as_bytes()))
        }
    }
}

/// Checks the key and the value of a hit.
fn check_hit(
    pending: &Pending,
    key: &[u8],
    value: &[u8],
    values: &Values,
    length_check: LengthCheck,
) -> Result<Outcome, ReplayError> {
    let requested = key_bytes(pending.request.key);
    let key_text = || String::from_utf8_lossy(&requested).into_owned();
    let wrong_data = |what: String| Err(ReplayError::WrongData { key: key_text(), what });
    if key != requested {
        return wrong_data(format!("the reply is for key {}", String::from_utf8_lossy(key)));
    }
    if values.check(pending.request.key, value) == Match::Differs {
        return wrong_data(format!("the value of {} B differs from the stored value", value.len()));
    }
    let value_len = pending.request.value_len as usize;
    if length_check == LengthCheck::Exact && value.len() != value_len {
        let found = value.len();
        return Err(ReplayError::OtherReplay { key: key_text(), found, value_len });
    }
    Ok(Outcome::Hit)
}

/// Returns the command and the key of a request in quotes, for error texts.
fn described_request(action: Action, pending: &Pending) -> String {
    let key = key_bytes(pending.request.key);
    let command = match action {
        Action::Get => "get",
        Action::Fill | Action::Set => "set",
        Action::Delete => "delete",
    };
    format!("'{command} {}'", String::from_utf8_lossy(&key))
}
