//! Chunk sizes by hill climbing, as published: a random class moves one step up or down, and the step is kept unless it
//! loses more.
//!
//! Source: D. J. Jai and S. Das, "Learning Slab Classes to Alleviate Memory Holes in Memcached", arXiv 2009.04403,
//! 2020, algorithm 1, whose `newwaste = oldwaste` is read as an assignment to `oldwaste`. As printed, a step that
//! changes nothing resets the count of failures, so an empty class may wander forever; therefore the iterations are
//! limited.

use super::error::SizesError;
use super::layout::ChunkLayout;
use super::parts::{Demand, Loss, Parts};
use slabwise_base::Random;

/// The limits of a climb, and the sizes that stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HillClimbOptions {
    /// The climb ends when more steps than this have failed in a row.
    pub failures_max: u64,
    /// The climb ends after this many steps.
    pub iterations_max: u64,
    /// Sizes of the start that stay; the last one always stays.
    pub kept: Vec<usize>,
}

impl Default for HillClimbOptions {
    fn default() -> HillClimbOptions {
        HillClimbOptions { failures_max: 1_000, iterations_max: 1_000_000, kept: Vec::new() }
    }
}

/// The result of a climb.
#[derive(Clone, Debug, PartialEq)]
pub struct HillClimb {
    /// Chunk sizes in bytes, ascending.
    pub table: Vec<usize>,
    /// The loss of the table.
    pub loss: Loss,
    /// The number of steps tried.
    pub iterations: u64,
}

/// Climbs from a table that ascends and ends with the layout's largest chunk. A step is the layout's alignment.
pub fn hill_climb(
    demands: &[Demand],
    start: &[usize],
    layout: &ChunkLayout,
    options: &HillClimbOptions,
    random: &mut Random,
) -> Result<HillClimb, SizesError> {
    let parts = Parts::of(demands, layout)?;
    layout.check_table(start)?;
    let last = start.len() - 1;
    let movable = (0..last).filter(|&class| !options.kept.contains(&start[class]));
    let movable: Vec<usize> = movable.collect();
    let mut climb = Climb::new(&parts, layout, start);
    let (mut iterations, mut failures) = (0, 0);
    while !movable.is_empty()
        && failures <= options.failures_max
        && iterations < options.iterations_max
    {
        let class = movable[random.below(movable.len() as u64) as usize];
        let is_up = random.below(2) == 0;
        failures = if climb.try_step(class, is_up) { 0 } else { failures + 1 };
        iterations += 1;
    }
    let table: Vec<usize> = climb.classes.iter().map(|class| class.size_bytes).collect();
    let loss = parts.loss(&table, layout);
    Ok(HillClimb { table, loss, iterations })
}

#[derive(Clone, Copy)]
struct Class {
    size_bytes: usize,
    fitting: usize,
    taken_bytes: f64,
}

struct Climb<'a> {
    parts: &'a Parts,
    layout: &'a ChunkLayout,
    classes: Vec<Class>,
}

impl<'a> Climb<'a> {
    fn new(parts: &'a Parts, layout: &'a ChunkLayout, start: &[usize]) -> Climb<'a> {
        let class = |&size_bytes: &usize| Class {
            size_bytes,
            fitting: parts.fitting(size_bytes),
            taken_bytes: layout.taken_bytes(size_bytes),
        };
        Climb { parts, layout, classes: start.iter().map(class).collect() }
    }

    /// Moves a class one step, unless that loses more or makes the table invalid.
    fn try_step(&mut self, class: usize, is_up: bool) -> bool {
        let (old, above) = (self.classes[class], self.classes[class + 1]);
        let step = self.layout.chunk_align_bytes;
        let below = class.checked_sub(1).map(|below| self.classes[below]);
        let size_bytes = if is_up { old.size_bytes + step } else { old.size_bytes - step };
        let size_min = below.map_or(self.layout.chunk_size_bytes_min, |it| it.size_bytes + step);
        if size_bytes < size_min || size_bytes >= above.size_bytes {
            return false;
        }
        // Part sizes are rounded to steps, so a step passes at most one of them.
        let sizes = &self.parts.sizes;
        let fitting = if is_up {
            old.fitting + usize::from(sizes.get(old.fitting) == Some(&size_bytes))
        } else {
            let is_left = old.fitting > 0 && sizes[old.fitting - 1] == old.size_bytes;
            old.fitting - usize::from(is_left)
        };
        let new = Class { size_bytes, fitting, taken_bytes: self.layout.taken_bytes(size_bytes) };
        let first = below.map_or(0, |it| it.fitting);
        if self.taken(first, new, above) > self.taken(first, old, above) {
            return false;
        }
        self.classes[class] = new;
        true
    }

    fn taken(&self, first: usize, class: Class, above: Class) -> f64 {
        let weight =
            |from: usize, to: usize| self.parts.weight_before[to] - self.parts.weight_before[from];
        weight(first, class.fitting) * class.taken_bytes
            + weight(class.fitting, above.fitting) * above.taken_bytes
    }
}

#[cfg(test)]
#[path = "hill_climb_tests.rs"]
mod tests;
