//! Plays random steps to two servers, and compares their replies.

use crate::compare::{ASSIGNED_CAS_MIN, CasValues, Mismatch, compare};
use crate::differences::{Exchange, LISTED};
use crate::player::{End, PlayError, Player, Reply};
use crate::step::{After, Family, Step};
use slabwise_client::process::ServerCommand;

/// Two running servers, and the correspondence of their CAS values.
pub struct Pair {
    first: Player,
    second: Player,
    cas_values: CasValues,
}

/// A difference between two replies that no row of [`LISTED`] explains, or the number of one that does.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The position of the step in the steps that were played.
    pub index: usize,
    pub mismatch: Mismatch,
    pub replies: [Reply; 2],
    /// The index in [`LISTED`].
    pub listed: Option<usize>,
}

impl Pair {
    /// Starts two servers.
    pub fn start(commands: &[ServerCommand; 2]) -> Result<Pair, PlayError> {
        let [first, second] = commands;
        let (first, second) = (Player::start(first)?, Player::start(second)?);
        let mut pair = Pair { first, second, cas_values: CasValues::default() };
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
        self.first.clear()?;
        self.second.clear()
    }

    /// Sends joined steps to both servers, and returns the replies.
    fn play_batch(&mut self, steps: &[Step]) -> Result<[Vec<Reply>; 2], PlayError> {
        if steps[0].waits {
            self.first.wait_two_seconds()?;
            self.second.wait_two_seconds()?;
        }
        self.first.send(steps)?;
        self.second.send(steps)?;
        Ok([self.first.receive(steps)?, self.second.receive(steps)?])
    }

    /// Plays the steps until two replies differ, and returns the difference. `on_step` receives each step with its
    /// reply if the replies are equal.
    pub fn play(
        &mut self,
        steps: &[Step],
        mut on_step: impl FnMut(&Step, &Reply),
    ) -> Result<Option<Difference>, PlayError> {
        let mut start = 0;
        while start < steps.len() {
            let end = batch_end(steps, start);
            let batch = &steps[start..end];
            let [first, second] = self.play_batch(batch)?;
            for (offset, (first, second)) in first.into_iter().zip(second).enumerate() {
                let (index, step) = (start + offset, &batch[offset]);
                let dialect = step.family.dialect();
                let Err(mismatch) = compare(&mut self.cas_values, dialect, &first, &second) else {
                    if first.end != End::Unread {
                        on_step(step, &first);
                    }
                    continue;
                };
                let history = &steps[..index];
                let exchange =
                    Exchange { step, history, memcached: &first, slabwise: &second };
                let listed = LISTED.iter().position(|row| (row.explains)(&exchange));
                let replies = [first, second];
                return Ok(Some(Difference { index, mismatch, replies, listed }));
            }
            start = end;
        }
        Ok(None)
    }
}

/// Returns the end of the steps that are sent together with the step at `start`.
fn batch_end(steps: &[Step], start: usize) -> usize {
    let mut end = start + 1;
    while end < steps.len() {
        let (last, next) = (&steps[end - 1], &steps[end]);
        let is_joined = last.is_joined
            && last.after == After::Marker
            && last.family.dialect() == next.family.dialect()
            && !next.waits;
        if !is_joined {
            break;
        }
        end += 1;
    }
    end
}
