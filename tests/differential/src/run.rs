//! Plays random steps to two servers, and compares their replies.

use crate::compare::{ASSIGNED_CAS_MIN, CasValues, Mismatch, compare};
use crate::differences::{Exchange, LISTED, Listed};
use crate::player::{End, PlayError, Player, Reply};
use crate::step::{After, Family, Step};
use slabwise_base::Clock;
use slabwise_client::process::ServerCommand;

/// The seconds by which the clocks of two servers may differ: each one may be late by a second.
const CLOCK_SECONDS: u64 = 2;

/// Two running servers, and the correspondence of their CAS values.
pub struct Pair {
    first: Player,
    second: Player,
    cas_values: CasValues,
    clock: Clock,
    /// The longest time since all items were removed in which both servers have carried out a batch, in nanoseconds. The
    /// expiries of an item of the two servers differ by this time at most.
    batch_nanos_max: u64,
    /// True if both servers are the same program. Then no difference is listed.
    is_self_test: bool,
}

/// A difference between the replies to a step, or a row that says that the items of the servers may differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The position of the step in the steps that were played.
    pub index: usize,
    /// The kind of the difference between the replies; `None` if they are equal.
    pub mismatch: Option<Mismatch>,
    pub replies: [Reply; 2],
    /// The index in [`LISTED`] of the row that explains the difference.
    pub listed: Option<usize>,
}

impl Pair {
    /// Starts two servers.
    pub fn start(commands: &[ServerCommand; 2]) -> Result<Pair, PlayError> {
        let [first, second] = commands;
        let (first, second) = (Player::start(first)?, Player::start(second)?);
        let is_self_test = commands[0].program() == commands[1].program();
        let mut pair = Pair {
            first,
            second,
            cas_values: CasValues::default(),
            clock: Clock::real(),
            batch_nanos_max: 0,
            is_self_test,
        };
        let set = Step { is_joined: true, ..Step::new(Family::Text, "set a 0 0 1\r\nx\r\n") };
        let sets = vec![set; usize::try_from(ASSIGNED_CAS_MIN).expect("the number is small")];
        pair.play_batch(&sets)?;
        pair.clear()?;
        Ok(pair)
    }

    /// Returns the versions that the servers report.
    pub fn versions(&self) -> Result<[String; 2], PlayError> {
        Ok([self.first.version()?, self.second.version()?])
    }

    /// Removes all items.
    pub fn clear(&mut self) -> Result<(), PlayError> {
        self.batch_nanos_max = 0;
        self.first.clear()?;
        self.second.clear()
    }

    /// Sends joined steps to both servers. Returns the replies, and the seconds by which the numbers of seconds in them
    /// may differ.
    fn play_batch(&mut self, steps: &[Step]) -> Result<([Vec<Reply>; 2], u64), PlayError> {
        if steps[0].waits {
            self.first.wait_two_seconds()?;
            self.second.wait_two_seconds()?;
        }
        let start = self.clock.nanos();
        self.first.send(steps)?;
        self.second.send(steps)?;
        let replies = [self.first.receive(steps)?, self.second.receive(steps)?];
        let nanos = self.clock.nanos() - start;
        self.batch_nanos_max = self.batch_nanos_max.max(nanos);
        // An item was stored in one batch, and its time is read in another one.
        let seconds = (self.batch_nanos_max + nanos) / 1_000_000_000;
        Ok((replies, seconds + CLOCK_SECONDS))
    }

    /// Plays the steps until two replies differ, or until the items of the servers may differ. `on_step` receives each
    /// step with its reply if the replies are equal.
    pub fn play(
        &mut self,
        steps: &[Step],
        mut on_step: impl FnMut(&Step, &Reply),
    ) -> Result<Option<Difference>, PlayError> {
        let mut start = 0;
        while start < steps.len() {
            let end = batch_end(steps, start);
            let ([first, second], seconds_max) = self.play_batch(&steps[start..end])?;
            for (index, replies) in (start..end).zip(first.into_iter().zip(second)) {
                let (mismatch, listed) = self.judge(&steps[..=index], &replies, seconds_max);
                if mismatch.is_none() && replies.0.end != End::Unread {
                    on_step(&steps[index], &replies.0);
                }
                if mismatch.is_some() || listed.is_some() {
                    let replies = [replies.0, replies.1];
                    return Ok(Some(Difference { index, mismatch, replies, listed }));
                }
            }
            start = end;
        }
        Ok(None)
    }

    /// Compares the replies to the last step. Returns the kind of the difference, and the row of [`LISTED`] that
    /// explains this difference or a difference that does not show.
    fn judge(
        &mut self,
        steps: &[Step],
        (first, second): &(Reply, Reply),
        seconds_max: u64,
    ) -> (Option<Mismatch>, Option<usize>) {
        let (step, history) = steps.split_last().expect("the caller passes at least one step");
        let dialect = step.family.dialect();
        let mismatch = compare(&mut self.cas_values, dialect, first, second, seconds_max).err();
        let exchange = Exchange {
            step,
            history,
            memcached: first,
            slabwise: second,
            mismatch,
            request: step.bytes(|_| 0),
        };
        let is_listed = |row: &Listed| match mismatch {
            Some(Mismatch::End) => {
                row.reads_other_commands
                    && first.end.is_open()
                    && second.end.is_open()
                    && (row.explains)(&exchange)
            }
            Some(_) => (row.explains)(&exchange),
            None => (row.is_silent)(&exchange),
        };
        (mismatch, LISTED.iter().position(is_listed).filter(|_| !self.is_self_test))
    }
}

/// Returns the end of the steps that are sent together with the step at `start`.
///
/// A step after which the connection ends is sent alone: if a server closes the connection before it has read all bytes,
/// the client may lose earlier replies. `watch` begins a batch, because its reply depends on whether earlier replies have
/// been sent.
fn batch_end(steps: &[Step], start: usize) -> usize {
    let mut end = start + 1;
    while end < steps.len() {
        let (last, next) = (&steps[end - 1], &steps[end]);
        let is_joined = last.is_joined
            && last.after == After::Marker
            && next.after == After::Marker
            && last.family.dialect() == next.family.dialect()
            && !next.waits
            && !next.is_watch();
        if !is_joined {
            break;
        }
        end += 1;
    }
    end
}
