//! Shrinks a sequence of steps to a short one that still shows an unlisted difference.

use crate::player::PlayError;
use crate::run::{Difference, Pair};
use crate::step::{Dialect, Part, Step};
use slabwise_client::process::ServerCommand;

/// A sequence of steps, and the difference at one of them.
pub struct Shrunk {
    pub steps: Vec<Step>,
    pub difference: Difference,
}

/// Shrinks the steps: leaves out steps, sends the steps alone and in one write, and leaves out words of lines. Each
/// attempt is played to new servers. Returns `None` if new servers do not show the difference.
pub fn shrink(
    commands: &[ServerCommand; 2],
    steps: Vec<Step>,
) -> Result<Option<Shrunk>, PlayError> {
    let Some(difference) = attempt(commands, &steps)? else { return Ok(None) };
    let mut shrunk = Shrunk { steps, difference };
    shrunk.steps.truncate(shrunk.difference.index + 1);
    shrunk.without_steps(commands)?;
    shrunk.with_plain_writes(commands)?;
    shrunk.without_words(commands)?;
    shrunk.without_steps(commands)?;
    Ok(Some(shrunk))
}

/// Plays the steps to new servers, and returns the first difference if it is unlisted.
fn attempt(commands: &[ServerCommand; 2], steps: &[Step]) -> Result<Option<Difference>, PlayError> {
    let difference = Pair::start(commands)?.play(steps, |_, _| ())?;
    Ok(difference.filter(|difference| difference.listed.is_none()))
}

impl Shrunk {
    /// Replaces the steps if the new ones show a difference of the same kind at the same command.
    fn try_steps(
        &mut self,
        commands: &[ServerCommand; 2],
        mut steps: Vec<Step>,
    ) -> Result<bool, PlayError> {
        let Some(difference) = attempt(commands, &steps)? else { return Ok(false) };
        steps.truncate(difference.index + 1);
        let command = |steps: &[Step]| steps.last().map(Step::command);
        let is_same = difference.mismatch == self.difference.mismatch
            && command(&steps) == command(&self.steps);
        if !is_same {
            return Ok(false);
        }
        *self = Shrunk { steps, difference };
        Ok(true)
    }

    /// Leaves out ranges of steps: first long ranges, then shorter ones.
    fn without_steps(&mut self, commands: &[ServerCommand; 2]) -> Result<(), PlayError> {
        let mut len = self.steps.len() / 2;
        while len > 0 {
            let mut end = self.steps.len();
            while end > 0 {
                let start = end.saturating_sub(len);
                let mut fewer = self.steps.clone();
                fewer.drain(start..end);
                if !fewer.is_empty() {
                    self.try_steps(commands, fewer)?;
                }
                end = start.min(self.steps.len());
            }
            len /= 2;
        }
        Ok(())
    }

    /// Sends each step alone and in one write.
    fn with_plain_writes(&mut self, commands: &[ServerCommand; 2]) -> Result<(), PlayError> {
        let mut plain = self.steps.clone();
        for step in &mut plain {
            step.is_joined = false;
            step.cut = None;
        }
        self.try_steps(commands, plain)?;
        Ok(())
    }

    /// Leaves out single words of the lines.
    fn without_words(&mut self, commands: &[ServerCommand; 2]) -> Result<(), PlayError> {
        for index in (0..self.steps.len()).rev() {
            let mut word = 1;
            while index < self.steps.len() {
                let Some(shorter) = without_word(&self.steps[index], word) else { break };
                let mut steps = self.steps.clone();
                steps[index] = shorter;
                if !self.try_steps(commands, steps)? {
                    word += 1;
                }
            }
        }
        Ok(())
    }
}

/// Returns a step without the word at this position in its line, if it is a text command with such a word and without
/// placeholders.
fn without_word(step: &Step, word: usize) -> Option<Step> {
    let [Part::Bytes(bytes)] = &step.parts[..] else { return None };
    if step.family.dialect() == Dialect::Binary {
        return None;
    }
    let end = bytes.iter().position(|&byte| byte == b'\r' || byte == b'\n')?;
    let (line, rest) = bytes.split_at(end);
    let mut words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    if word >= words.len() {
        return None;
    }
    words.remove(word);
    let shorter = [&words.join(&b' '), rest].concat();
    Some(Step { parts: vec![Part::Bytes(shorter)], ..step.clone() })
}
