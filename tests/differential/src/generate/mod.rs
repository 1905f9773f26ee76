//! Generates random steps.
//!
//! The steps are valid commands for the most part, on few keys, so that most of them find an item. A part of the steps
//! has invalid words, numbers at the limits, odd line ends or wrong lengths.
//!
//! The generator avoids the commands whose replies depend on the moment: expiries between now and an hour from now, and
//! flushes of items that were just used.

mod binary;
mod lines;
mod meta;
mod values;

use crate::keys::{KEYS, NUMBER_KEYS};
use crate::random::Choices;
use crate::step::{Family, Part, Step};

/// The number of steps that may be sent in one write.
const JOINED_MAX: usize = 12;

/// The length from which a value or a line is large, in bytes: with another key it must be below the maximum length of a
/// line whose end has not arrived, which is 2,048.
const LARGE_VALUE_LEN: usize = 1000;

/// A source of random steps.
pub struct Generator {
    choices: Choices,
    families: Vec<Family>,
    /// The family of the next steps, and their number.
    current: (Family, usize),
    /// For each key: true if it has an item, as far as the generator can know.
    present: [bool; KEYS.len()],
    /// The step that must follow the last one.
    next: Option<Step>,
    /// True if the current step is a store of a large value. All its words are then valid. If a server refuses a line
    /// without a length, it interprets the value as lines. It closes the connection if the end of a long line is not in
    /// the bytes that it has read, and the number of these bytes depends on the moment.
    has_large_value: bool,
}

impl Generator {
    /// Returns a generator of steps of these families. Generators with the same seed and families return the same steps.
    pub fn new(seed: u64, families: &[Family]) -> Generator {
        let current = (families[0], 0);
        let present = [false; KEYS.len()];
        Generator {
            choices: Choices::new(seed),
            families: families.to_vec(),
            current,
            present,
            next: None,
            has_large_value: false,
        }
    }

    /// Notes that all items were removed.
    pub fn clear(&mut self) {
        self.present = [false; KEYS.len()];
    }

    /// Returns the next step.
    pub fn step(&mut self) -> Step {
        if let Some(next) = self.next.take() {
            return next;
        }
        let (family, left) = self.current;
        if left == 0 {
            let family = self.choices.one_of(&self.families);
            self.current = (family, self.choices.below(2 * JOINED_MAX));
        } else {
            self.current = (family, left - 1);
        }
        self.has_large_value = false;
        let mut step = match self.current.0 {
            Family::Text => self.line(),
            Family::Meta => self.meta_line(),
            Family::Binary => self.packet(),
        };
        step.is_joined = self.choices.percent(80);
        if self.choices.one_in(30) {
            step.cut = Some(1 + self.choices.below(40));
        }
        step
    }

    /// Returns a step that flushes all items, after a moment in which no item was used.
    pub fn flush(&mut self) -> Step {
        let family = self.choices.one_of(&self.families);
        let mut step = match family {
            Family::Text | Family::Meta => {
                let line = self.choices.one_of(&["flush_all", "flush_all 0", "flush_all -1"]);
                Step::new(Family::Text, format!("{line}\r\n"))
            }
            Family::Binary => self.flush_packet(),
        };
        step.waits = true;
        self.clear();
        step
    }

    /// True with a probability of 1 / `count` if the current step may have an odd word.
    fn odd(&mut self, count: usize) -> bool {
        self.choices.one_in(count) && !self.has_large_value
    }

    /// Notes the value of the current step.
    fn set_value(&mut self, value: &[u8]) {
        self.has_large_value = value.len() > LARGE_VALUE_LEN;
    }

    /// Returns the index of a random key.
    fn key(&mut self) -> usize {
        self.choices.below(KEYS.len())
    }

    /// Returns the index of a key that probably has an item.
    fn present_key(&mut self) -> usize {
        self.key_with(true)
    }

    /// Returns the index of a key that probably has no item.
    fn absent_key(&mut self) -> usize {
        self.key_with(false)
    }

    fn key_with(&mut self, present: bool) -> usize {
        let mut key = self.key();
        for _ in 0..4 {
            if self.present[key] == present {
                break;
            }
            key = self.key();
        }
        key
    }

    /// Returns the index of a key whose value is probably a number.
    fn number_key(&mut self) -> usize {
        if self.choices.percent(75) { self.choices.below(NUMBER_KEYS) } else { self.key() }
    }

    /// Returns a placeholder for the last CAS value of a key, which mostly is that of the key's item. The other offsets
    /// are so large that they give a value that neither server has assigned to any item.
    fn cas_part(&mut self, key: usize) -> Part {
        if self.choices.one_in(12) {
            return Part::Cas { key: self.key(), offset: 0 };
        }
        let offset = self.choices.weighted(&[(8, 0), (1, -500_000_000), (1, 500_000_000)]);
        Part::Cas { key, offset }
    }
}

#[cfg(test)]
mod tests {
    use super::Generator;
    use crate::step::{Family, Step};

    #[test]
    fn the_same_seed_generates_the_same_steps() {
        let steps = |seed| -> Vec<Step> {
            let families = [Family::Text, Family::Meta, Family::Binary];
            let mut generator = Generator::new(seed, &families);
            (0..2000).map(|_| generator.step()).collect()
        };
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }
}
