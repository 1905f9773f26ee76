//! Scenarios, and the score that a server gets in a scenario.
//!
//! ```text
//!   scene 1: fills the cache     last scene: rounds of gets ... | window |     score: the mean of the window
//! ```
//!
//! A policy that steps by events takes its steps at times that depend on the speed of the machine. So a run that waits
//! for a score has no fixed length. It gives up only after many rounds and some seconds: on a fast machine the rounds are
//! too short for the steps of a policy, and on a slow machine the seconds are too short for the rounds.

use std::time::Duration;

use super::cache::Cache;
use super::traffic::{Part, Traffic};
use crate::support::Deadline;

/// The number of rounds whose mean is the score.
const WINDOW_ROUNDS: usize = 5;
/// A run that waits for a score has at least this multiple of the rounds of its scenario before it gives up.
const WAIT_ROUNDS_FACTOR: usize = 5;
/// A run that waits for a score waits at least this time before it gives up.
const WAIT: Duration = Duration::from_secs(15);

/// Some traffic and its duration.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub parts: &'static [Part],
    pub rounds: usize,
    pub gets_per_round: usize,
    /// The seconds by which the server's clock advances after each round.
    pub seconds_per_round: u32,
}

/// Returns a scene without jumps of the clock.
pub const fn scene(parts: &'static [Part], rounds: usize) -> Scene {
    Scene { parts, rounds, gets_per_round: 1_000, seconds_per_round: 0 }
}

/// A sequence of scenes. The score is measured in the last scene.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub scenes: &'static [Scene],
}

/// The time at which the last scene ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// After the rounds of the scene.
    Whole,
    /// After this number of rounds.
    Rounds(usize),
    /// When the score is at most this number.
    AtMost(f64),
    /// When the score is at least this number.
    AtLeast(f64),
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The cost of the misses in the last window, in percent of the cost of all gets.
    pub score: f64,
    /// The lowest score of any window in the last scene.
    pub lowest: f64,
    /// The highest score of any window in the last scene.
    pub highest: f64,
    /// The number of pages that moved in the last scene.
    pub pages_moved: u64,
    /// The number of rounds of the last scene.
    pub rounds: usize,
}

impl Scenario {
    /// Runs the scenario on a server with these options.
    pub fn run(&self, options: &str, seed: u64, end: End) -> Outcome {
        let mut cache = Cache::start(options);
        let (last, before) = self.scenes.split_last().expect("a scenario has a scene");
        for (scene, seed) in before.iter().zip(seed << 8..) {
            let mut traffic = Traffic::new(scene.parts, seed);
            for _ in 0..scene.rounds {
                cache.round(&mut traffic, scene.gets_per_round, scene.seconds_per_round);
            }
        }
        let moved_before = cache.pages_moved();
        let deadline = Deadline::after(WAIT);
        let gives_up = |rounds| rounds >= last.rounds * WAIT_ROUNDS_FACTOR && deadline.is_over();
        let mut traffic = Traffic::new(last.parts, seed << 8 | 255);
        let (mut scores, mut lowest, mut highest) = (Vec::new(), f64::MAX, f64::MIN);
        loop {
            scores.push(cache.round(&mut traffic, last.gets_per_round, last.seconds_per_round));
            let Some(window) = scores.last_chunk::<WINDOW_ROUNDS>() else { continue };
            let score = window.iter().sum::<f64>() / window.len() as f64;
            (lowest, highest) = (lowest.min(score), highest.max(score));
            let rounds = scores.len();
            let is_end = match end {
                End::Whole => rounds >= last.rounds,
                End::Rounds(end) => rounds >= end,
                End::AtMost(bound) => score <= bound || gives_up(rounds),
                End::AtLeast(bound) => score >= bound || gives_up(rounds),
            };
            if is_end {
                let pages_moved = cache.pages_moved() - moved_before;
                return Outcome { score, lowest, highest, pages_moved, rounds };
            }
        }
    }
}
