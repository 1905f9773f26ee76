//! Chunk sizes by hill climbing, as published: a step changes the chunk size of a random class to the next larger or
//! smaller size. The step is kept unless the loss increases.
//!
//! Source: D. J. Jai and S. Das, "Learning Slab Classes to Alleviate Memory Holes in Memcached", arXiv 2009.04403,
//! 2020, algorithm 1. Its statement `newwaste = oldwaste` is read as an assignment to `oldwaste`. In the printed
//! algorithm, a step that does not change the loss resets the count of failures. So an empty class could change its
//! size indefinitely; therefore the number of steps is limited here.

use super::error::SizesError;
use super::layout::ChunkLayout;
use super::parts::{Demand, Loss, Parts};
use slabwise_base::Random;

/// The limits of a climb, and the sizes that it does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HillClimbOptions {
    /// The climb ends when more than this number of steps in a row have failed.
    pub failures_max: u64,
    /// The climb ends after this many steps.
    pub iterations_max: u64,
    /// The sizes of the start table that the climb does not change. The largest size never changes.
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
    /// The chunk sizes in bytes, ascending.
    pub table: Vec<usize>,
    /// The loss of the table.
    pub loss: Loss,
    /// The number of steps tried, including failed steps.
    pub iterations: u64,
}

/// Climbs from the table `start`, which must ascend and end with the layout's largest chunk. A step changes a size by
/// the layout's alignment.
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
    /// The number of different sizes of items, or of parts of chained items, that are at most `size_bytes`.
    fitting: usize,
    /// The bytes that a chunk takes, including its share of the page's end.
    taken_bytes: f64,
}

/// The state of a climb.
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

    /// Changes the size of a class by one step, unless the loss would increase or the table would be invalid. Returns
    /// true if the size was changed.
    fn try_step(&mut self, class: usize, is_up: bool) -> bool {
        let (old, above) = (self.classes[class], self.classes[class + 1]);
        let step = self.layout.chunk_align_bytes;
        let below = class.checked_sub(1).map(|below| self.classes[below]);
        let size_bytes = if is_up { old.size_bytes + step } else { old.size_bytes - step };
        let size_min = below.map_or(self.layout.chunk_size_bytes_min, |it| it.size_bytes + step);
        if size_bytes < size_min || size_bytes >= above.size_bytes {
            return false;
        }
        // Part sizes are multiples of a step, so the number of fitting part sizes changes by at most one.
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

    /// Returns the bytes that the parts in a class and in the class above it take. `first` is the index of the first
    /// part size in the class.
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
