//! Scenarios, and the score that a server gets in a scenario.
//!
//! ```text
//!   scene 1: fills the cache     last scene: rounds of gets ... | window |     score: the mean of the window
//! ```
//!
//! A policy that steps by events takes its steps at times that depend on the speed of the machine. So a run has no fixed
//! length: it ends when the window has the expected score, and fails after a number of rounds that is far above the
//! number that is needed on a fast machine.

use super::cache::Cache;
use super::traffic::{Part, Traffic};

/// The number of rounds whose mean is the score.
const WINDOW_ROUNDS: usize = 5;

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

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The cost of the misses in the window, in percent of the cost of all gets.
    pub score: f64,
    /// The number of pages that moved in the last scene.
    pub pages_moved: u64,
    /// The number of rounds of the last scene.
    pub rounds: usize,
}

impl Scenario {
    /// Runs the scenario on a server with these options. The last scene ends when `is_end` accepts the score of the
    /// window, at the latest after `rounds_max` rounds.
    pub fn run(
        &self,
        options: &str,
        seed: u64,
        rounds_max: usize,
        mut is_end: impl FnMut(f64) -> bool,
    ) -> Outcome {
        let mut cache = Cache::start(options);
        let (last, before) = self.scenes.split_last().expect("a scenario has a scene");
        for (scene, seed) in before.iter().zip(seed << 8..) {
            let mut traffic = Traffic::new(scene.parts, seed);
            for _ in 0..scene.rounds {
                cache.round(&mut traffic, scene.gets_per_round, scene.seconds_per_round);
            }
        }
        let moved_before = cache.pages_moved();
        let mut traffic = Traffic::new(last.parts, seed << 8 | 255);
        let mut scores = Vec::new();
        let score = loop {
            scores.push(cache.round(&mut traffic, last.gets_per_round, last.seconds_per_round));
            let Some(window) = scores.last_chunk::<WINDOW_ROUNDS>() else { continue };
            let score = window.iter().sum::<f64>() / window.len() as f64;
            if is_end(score) || scores.len() >= rounds_max {
                break score;
            }
        };
        let pages_moved = cache.pages_moved() - moved_before;
        Outcome { score, pages_moved, rounds: scores.len() }
    }

    /// Runs the scenario for the number of rounds of its last scene.
    pub fn run_whole(&self, options: &str, seed: u64) -> Outcome {
        self.run(options, seed, self.rounds(), |_| false)
    }

    /// Returns the number of rounds of the last scene.
    pub fn rounds(&self) -> usize {
        self.scenes.last().expect("a scenario has a scene").rounds
    }
}
