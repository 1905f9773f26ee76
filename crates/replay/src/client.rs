//! Carries rounds out: composes requests onto connections, and checks that every hit holds the bytes that
//! its key must have.
//!
//! A key always goes to the same connection, so that its requests stay in order.

use crate::error::ReplayError;
use crate::look_aside::{Action, Pending};
use crate::values::{Match, Values, key_bytes};
use slabwise_base::random::mix;
use slabwise_base::{Clock, Cost};
use slabwise_client::{ClientError, Pipelines, Reply, ServerAddress, request};
use std::time::Duration;

/// How long a server may be silent while replies are awaited.
const SILENCE_SECONDS_MAX: u64 = 30;

/// How a set says what its value costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CostForm {
    /// By a word of the set's line, which slabwise takes with `-o cost_wire`.
    Wire,
    /// By slabwise's flag of the meta protocol.
    Meta,
    /// Not at all.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthCheck {
    /// A hit must have exactly the request's length.
    Exact,
    /// The workload changes lengths: a hit may have an older one, if its bytes fit that.
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

    /// Sends what was composed and waits until everything is answered.
    pub fn exchange(
        &mut self,
        clock: &Clock,
        mut answered: impl FnMut(Answer),
    ) -> Result<(), ReplayError> {
        let Client { pipelines, values, length_check, .. } = self;
        pipelines.exchange(clock, |&(action, pending), reply, nanos| {
            let outcome = judge(&reply, action, &pending, values, *length_check)?;
            answered(Answer { action, pending, outcome, nanos });
            Ok(())
        })
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
    let asked = key_bytes(pending.request.key);
    let shown = || String::from_utf8_lossy(&asked).into_owned();
    let wrong = |what: String| Err(ReplayError::WrongData { key: shown(), what });
    if key != asked {
        return wrong(format!("the answer is for key {}", String::from_utf8_lossy(key)));
    }
    if values.check(pending.request.key, value) == Match::Differs {
        return wrong(format!("the {} B of the value are not those stored", value.len()));
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
