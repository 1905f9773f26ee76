//! Executes rounds: sends requests over the connections, and verifies the value of every hit.
//!
//! All requests for a key use the same connection, so their order is preserved.

use crate::error::ReplayError;
use crate::look_aside::{Action, Pending};
use crate::values::{Match, Values, key_bytes};
use slabwise_base::random::mix;
use slabwise_base::{Clock, Cost};
use slabwise_client::{ClientError, Pipelines, Reply, ServerAddress, request};
use std::time::Duration;

/// The timeout for the next bytes of outstanding replies.
const SILENCE_SECONDS_MAX: u64 = 30;

/// How a set sends the cost of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CostForm {
    /// In the set line, which slabwise accepts with `-o cost_wire`.
    Wire,
    /// In slabwise's flag of the meta protocol.
    Meta,
    /// Costs are not sent.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthCheck {
    /// A hit must have the length of the request.
    Exact,
    /// The lengths of a key change, so a hit may have another length with valid bytes.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Hit,
    Miss,
    Done,
    Refused,
}

#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub action: Action,
    pub pending: Pending,
    pub outcome: Outcome,
    pub nanos: u64,
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
        let silence_max = Duration::from_secs(SILENCE_SECONDS_MAX);
        let pipelines = Pipelines::connect(server, connections, silence_max);
        let pipelines = pipelines.map_err(|error| match error {
            ClientError::Connect(source) => {
                ReplayError::Connect { server: server.to_string(), source }
            }
            other => other.into(),
        })?;
        Ok(Client { pipelines, values: Values::new(), length_check, cost_form })
    }

    pub fn send(&mut self, action: Action, pending: Pending) {
        let (key, value_len) = (pending.request.key, pending.request.value_len);
        let lane = (mix(key) % self.pipelines.lanes() as u64) as usize;
        let out = self.pipelines.request(lane, (action, pending));
        let name = key_bytes(key);
        match action {
            Action::Get => request::get(out, &name),
            Action::Delete => request::delete(out, &name),
            Action::Fill | Action::Set => {
                let units = pending.request.cost.map(Cost::units);
                match (self.cost_form, units) {
                    (CostForm::Meta, Some(units)) => {
                        request::meta_set_line(out, &name, units, value_len);
                    }
                    (CostForm::Wire, units) => request::set_line(out, &name, units, value_len),
                    _ => request::set_line(out, &name, None, value_len),
                }
                self.values.append(out, key, value_len as usize);
                request::end_value(out);
            }
        }
    }

    /// Sends the composed requests and waits for all replies.
    pub fn exchange(
        &mut self,
        clock: &Clock,
        mut answered: impl FnMut(Answer),
    ) -> Result<(), ReplayError> {
        let Client { pipelines, values, length_check, .. } = self;
        pipelines.exchange(clock, |&(action, pending), reply, nanos| {
            let outcome = check_reply(&reply, action, &pending, values, *length_check)?;
            answered(Answer { action, pending, outcome, nanos });
            Ok(())
        })
    }
}

/// Returns the outcome of a request, or an error if the reply is invalid.
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
            Err(ReplayError::malformed(&described(action, pending), line))
        }
        (_, other) => {
            let shown = format!("{other:?}");
            Err(ReplayError::malformed(&described(action, pending), shown.as_bytes()))
        }
    }
}

fn check_hit(
    pending: &Pending,
    key: &[u8],
    value: &[u8],
    values: &Values,
    length_check: LengthCheck,
) -> Result<Outcome, ReplayError> {
    let requested = key_bytes(pending.request.key);
    let shown = || String::from_utf8_lossy(&requested).into_owned();
    let wrong = |what: String| Err(ReplayError::WrongData { key: shown(), what });
    if key != requested {
        return wrong(format!("the reply is for key {}", String::from_utf8_lossy(key)));
    }
    if values.check(pending.request.key, value) == Match::Differs {
        return wrong(format!("the value of {} B differs from the stored value", value.len()));
    }
    let value_len = pending.request.value_len as usize;
    if length_check == LengthCheck::Exact && value.len() != value_len {
        let found = value.len();
        return Err(ReplayError::OtherReplay { key: shown(), found, value_len });
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
