//! `learned-classes`: computes chunk sizes from the sizes of items, by hill climbing as published and by an exact
//! search.
//!
//! ```text
//!   published wastes --fit--> size distribution --draw--> items --+--> climbs   hill climbing from many starts
//!                                                                 +--> exact    the best table of the same length
//!                                                                 '--> pages    in the engine or memcached (--live)
//! ```
//!
//! In this experiment the *waste* is the sum of the sizes of all chunks minus the sum of the sizes of all items with
//! header and key. As in the paper, it does not include the ends of pages. The new sizes replace the sizes that the
//! paper lists as used; their number is the same.

mod case;
mod pages;
#[cfg(test)]
mod tests;

pub use case::LearnedClassesSetup;

use super::kind::{Experiment, Job};
use crate::result::{CHUNK_SIZES, Outcome, format_number};
use crate::trial::error::ExperimentError;
use crate::trial::setup::scaled;
use case::{
    BEST_ENDS, CHUNK_SIZE, CLIMB, CLIMB_BEST, Case, ENDS, EXACT, EXCESS, FEWER, MOVES, OLD, PAGES,
    PRINTED, RECOVERED, SAME_ENDS, SD, SD_MAX, SD_MIN, WASTE, cases, demands_of,
};
use pages::{Climbs, Stored, Taken, climbs};
use slabwise_base::Random;
use slabwise_policy::sizes::loss;

impl Experiment for LearnedClassesSetup {
    fn has_live(&self) -> bool {
        true
    }

    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (scale, seed) = job.size();
        describe(self, job, outcome);
        let spinner = job.progress.spinner("fitting deviations");
        for case in cases(job.spec, self) {
            spinner.set_message(case.setup.name.clone());
            let sizes = case.draw(scaled(self.items, scale), seed);
            if !job.live {
                add_distribution(outcome, &case)?;
                add_wastes(outcome, &case, &sizes, (self.restarts, seed))?;
            }
            add_pages(outcome, self, &case, &sizes)?;
        }
        spinner.finish_and_clear();
        if job.live {
            outcome.add_setup("published values", "in the results of the run without --live");
        }
        Ok(())
    }
}

/// Adds the conditions of the run to the outcome.
fn describe(setup: &LearnedClassesSetup, job: &Job<'_>, outcome: &mut Outcome) {
    let count = |count| format_number(scaled(count, job.scale) as f64);
    let items = count(setup.items);
    outcome.add_setup("items", format!("{items} of each distribution, log-normal"));
    outcome.add_setup("mean of the item sizes", "as printed, with header and key");
    let text = "the deviation that fits the published wastes best; in the fifth distribution, the printed deviation \
                times the mean factor of the other distributions";
    outcome.add_setup("standard deviation of the item sizes", text);
    let text = "the last new size, because hill climbing ends there; in the second distribution 1,750, because only \
                the digits 17.. of its last size are legible; in the fifth, the size that the published recovered waste \
                determines";
    outcome.add_setup("largest item", text);
    let text = "as many as the paper lists; when pages are counted, also memcached's largest chunk";
    outcome.add_setup("new sizes", text);
    let text = format!("the first {} MiB of the items", count(setup.stored_mib));
    outcome.add_setup("items that are stored to count pages", text);
    if !job.live {
        let starts = "climbs from the old sizes, and the same number from random sizes";
        outcome.add_setup("hill climbing", format!("{} {starts}", setup.restarts));
    }
}

fn list(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

/// Adds the rows of the fitted standard deviation, of the range of deviations that the published waste of the old sizes
/// allows, and of the waste that the exact sizes would recover at both ends of this range.
fn add_distribution(outcome: &mut Outcome, case: &Case) -> Result<(), ExperimentError> {
    let name = &case.setup.name;
    outcome.add(SD, name, Ok(case.sd_bytes));
    let Some((smallest, largest)) = case.sd_range else {
        let reason = || Err("no standard deviation has the published waste".to_owned());
        outcome.add(SD_MIN, name, reason());
        outcome.add(SD_MAX, name, reason());
        return Ok(());
    };
    for (measure, sd_bytes, variant) in [
        (SD_MIN, smallest, "exact, with the smallest deviation"),
        (SD_MAX, largest, "exact, with the largest deviation"),
    ] {
        outcome.add(measure, name, Ok(sd_bytes));
        if !case.is_fitted {
            outcome.note_last_row("the printed deviation times the factor of another distribution");
        }
        let demands = case.expected(sd_bytes);
        let before = loss(&demands, &case.tables.old(), &case.tables.published)?.total_bytes();
        let recovered = percent(before - case.tables.exact(&demands)?.1, before);
        outcome.add(RECOVERED, &case.variant(variant), Ok(recovered));
    }
    Ok(())
}

/// Adds the rows of the waste, of the recovered part of the old waste, and of the climbs.
fn add_wastes(
    outcome: &mut Outcome,
    case: &Case,
    sizes: &[usize],
    (restarts, seed): (u64, u64),
) -> Result<(), ExperimentError> {
    let (tables, demands) = (&case.tables, demands_of(sizes));
    let layout = &tables.published;
    let waste = |table: &[usize]| loss(&demands, table, layout).map(|loss| loss.total_bytes());
    let before = waste(&tables.old())?;
    let (best_sizes, best) = tables.exact(&demands)?;
    outcome.add_setup(&case.variant(EXACT), list(&best_sizes));
    add_histogram(outcome, &case.setup.name, sizes);
    for (number, &size) in (1..).zip(&best_sizes) {
        outcome.add(CHUNK_SIZE, &case.variant(&format!("{EXACT}, {number}")), Ok(size as f64));
    }
    for (variant, table) in [(OLD, &case.setup.old_sizes), (EXACT, &best_sizes)] {
        let lines = table.iter().map(|&size| (size as f64, 0.0));
        outcome.add_series(CHUNK_SIZES, case.variant(variant), ["bytes", ""], lines);
    }
    let from = |start: &(dyn Fn(&mut Random) -> Vec<usize> + Sync)| {
        climbs(&demands, layout, start, (restarts, seed))
    };
    let climbed = from(&|_| tables.old())?;
    let mut after = vec![(CLIMB, climbed.median()), (CLIMB_BEST, climbed.best()), (EXACT, best)];
    if !case.setup.new_sizes.is_empty() {
        after.insert(0, (PRINTED, waste(&tables.published(&case.setup.new_sizes))?));
    }
    outcome.add(WASTE, &case.variant(OLD), Ok(before));
    for &(variant, waste) in &after {
        outcome.add(WASTE, &case.variant(variant), Ok(waste));
    }
    after.push(("exact, memcached's other sizes kept", tables.exact_with_others(&demands)?.1));
    after.push(("exact, all of memcached's sizes replaced", tables.exact_for_all(&demands)?.1));
    for (variant, waste) in after {
        outcome.add(RECOVERED, &case.variant(variant), Ok(percent(before - waste, before)));
    }
    add_climbs(outcome, &case.variant("from the old sizes"), &climbed, best);
    let (smallest, largest) = (tables.smallest_item_bytes(), case.largest_item_bytes);
    let climbed = from(&|random| tables.random(smallest, largest, random))?;
    add_climbs(outcome, &case.variant("from random sizes"), &climbed, best);
    Ok(())
}

/// Number of bins of a histogram of sizes.
const BINS: usize = 120;

/// Adds the series with the number of items by size, in bins of equal width.
fn add_histogram(outcome: &mut Outcome, name: &str, sizes: &[usize]) {
    let smallest = sizes.iter().copied().min().unwrap_or(0);
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let width = ((largest - smallest) / BINS).max(1);
    let mut counts = vec![0_u64; (largest - smallest) / width + 1];
    sizes.iter().for_each(|size| counts[(size - smallest) / width] += 1);
    let middle = |bin: usize| (smallest + bin * width) as f64 + width as f64 / 2.0;
    let points = counts.iter().enumerate().map(|(bin, &count)| (middle(bin), count as f64));
    outcome.add_series("items by size", name, ["bytes", "items"], points);
}

/// Adds the rows of the climbs from one kind of start. `best` is the waste of the best table.
fn add_climbs(outcome: &mut Outcome, variant: &str, climbs: &Climbs, best: f64) {
    let count = climbs.wastes.len() as f64;
    let found = [
        (SAME_ENDS, percent(climbs.most_frequent() as f64, count)),
        (BEST_ENDS, percent(climbs.count_up_to(best) as f64, count)),
        (ENDS, climbs.different_wastes() as f64),
        (EXCESS, percent(climbs.worst() - best, best)),
        (MOVES, climbs.mean_iterations),
    ];
    outcome.add_all(variant, found);
}

/// Adds the rows of the number of pages that the items take with each table, in the engine or with `--live` in
/// memcached, and of the reduction compared with the old sizes. memcached has the old sizes without options, and gets
/// the other tables with `-o slab_sizes`.
fn add_pages(
    outcome: &mut Outcome,
    setup: &LearnedClassesSetup,
    case: &Case,
    sizes: &[usize],
) -> Result<(), ExperimentError> {
    let (stored, is_live) = (Stored::of(setup, outcome.scale, sizes), outcome.live);
    let name = if is_live { case.variant("memcached") } else { case.setup.name.clone() };
    let mut tables = vec![(OLD, case.tables.paged_old())];
    if !case.setup.new_sizes.is_empty() {
        tables.push((PRINTED, case.tables.paged(&case.setup.new_sizes)));
    }
    tables.push((EXACT, case.tables.exact_paged(&demands_of(stored.sizes))?));
    let items = stored.sizes.len() as u64;
    let pages_of_all = |Taken { pages, items: found }| match found == items {
        true => Ok(pages),
        false => Err(format!("the memory is too small: only {found} of {items} items are stored")),
    };
    let mut old_pages = None;
    for (label, table) in &tables {
        let taken = match is_live {
            true => {
                let table = (*label != OLD).then_some(&table[..]);
                stored.in_memcached(table).map_err(|error| format!("skipped: {error}"))
            }
            false => Ok(stored.in_engine(table, outcome.seed)?),
        };
        let pages = taken.and_then(pages_of_all).map(|pages| pages as f64);
        let variant = format!("{name}, {label}");
        outcome.add(PAGES, &variant, pages.clone());
        match (old_pages, pages) {
            (None, Ok(pages)) => {
                outcome.note_last_row(format!("{} items", format_number(items as f64)));
                old_pages = Some(pages);
            }
            (Some(old), Ok(pages)) => {
                outcome.add(FEWER, &variant, Ok(percent(old - pages, old)));
            }
            (_, Err(_)) => {}
        }
    }
    Ok(())
}
