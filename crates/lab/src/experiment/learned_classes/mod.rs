//! `learned-classes`: computes chunk sizes from item sizes, by hill climbing as published and by an exact search.
//!
//! ```text
//!   published wastes --fit--> size distribution --draw--> items --+--> climbs   hill climbing from many starts
//!                                                                 +--> exact    the best table of the same length
//!                                                                 '--> pages    in the engine, or in memcached (--live)
//! ```
//!
//! The *waste* is the size of the chunks minus the size of the items with header and key; the ends of pages do not count,
//! as in the paper. New sizes replace those that the paper lists as used, and are equally many.

mod case;
mod pages;
#[cfg(test)]
mod tests;

pub use case::LearnedClassesSetup;

use super::kind::{Experiment, Job};
use crate::result::{Outcome, number};
use crate::trial::error::ExperimentError;
use crate::trial::setup::scaled;
use case::{
    BEST_ENDS, CLIMB, CLIMB_BEST, Case, ENDS, EXACT, EXCESS, FEWER, MOVES, OLD, PAGES, PRINTED,
    RECOVERED, SD, SD_LEAST, SD_MOST, WASTE, cases, demands_of,
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
            outcome.choose("published", "no figures of pages; see the run without --live");
        }
        Ok(())
    }
}

fn describe(setup: &LearnedClassesSetup, job: &Job<'_>, outcome: &mut Outcome) {
    let count = |count| number(scaled(count, job.scale) as f64);
    let items = count(setup.items);
    outcome.choose("items", format!("{items} of each distribution, log-normal"));
    outcome.choose("their mean", "as printed, with header and key");
    let text = "the one that fits the published wastes best; in the fifth distribution, the same \
                multiple of the printed one as in the others";
    outcome.choose("their deviation", text);
    outcome.choose("their largest", "the last new size, because hill climbing ends there");
    let text = "as many as the paper lists; for pages also memcached's largest chunk";
    outcome.choose("new sizes", text);
    let text = format!("the first {} MiB of the items", count(setup.stored_mib));
    outcome.choose("stored for pages", text);
    if !job.live {
        let climbs = "from the old sizes, and from random sizes in rows that say so";
        outcome.choose("climbs", format!("{} {climbs}", setup.restarts));
    }
}

fn list(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

/// Adds the deviation, and the waste that would be recovered with other possible deviations.
fn add_distribution(outcome: &mut Outcome, case: &Case) -> Result<(), ExperimentError> {
    let name = &case.setup.name;
    outcome.add(SD, name, Ok(case.sd_bytes));
    let Some((least, most)) = case.sd_range else {
        let why = || Err("no deviation has this waste".to_owned());
        outcome.add(SD_LEAST, name, why());
        outcome.add(SD_MOST, name, why());
        return Ok(());
    };
    for (measure, sd_bytes, what) in [
        (SD_LEAST, least, "exact, with the least deviation"),
        (SD_MOST, most, "exact, with the largest deviation"),
    ] {
        outcome.add(measure, name, Ok(sd_bytes));
        if !case.is_fitted {
            outcome.note("the same multiple of the printed one as in another distribution");
        }
        let demands = case.expected(sd_bytes);
        let before = loss(&demands, &case.tables.old(), &case.tables.published)?.total_bytes();
        let recovered = percent(before - case.tables.exact(&demands)?.1, before);
        outcome.add(RECOVERED, &case.variant(what), Ok(recovered));
    }
    Ok(())
}

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
    outcome.choose(&case.variant(EXACT), list(&best_sizes));
    let from = |start: &(dyn Fn(&mut Random) -> Vec<usize> + Sync)| {
        climbs(&demands, layout, start, (restarts, seed))
    };
    let climbed = from(&|_| tables.old())?;
    let mut after = vec![(CLIMB, climbed.median()), (CLIMB_BEST, climbed.best()), (EXACT, best)];
    if !case.setup.new_sizes.is_empty() {
        after.insert(0, (PRINTED, waste(&tables.published(&case.setup.new_sizes))?));
    }
    outcome.add(WASTE, &case.variant(OLD), Ok(before));
    for &(what, waste) in &after {
        outcome.add(WASTE, &case.variant(what), Ok(waste));
    }
    after.push(("exact, memcached's others beside", tables.exact_beside(&demands)?.1));
    after.push(("exact, all of memcached's", tables.exact_of_all(&demands)?.1));
    for (what, waste) in after {
        outcome.add(RECOVERED, &case.variant(what), Ok(percent(before - waste, before)));
    }
    add_climbs(outcome, &case.variant("from the old sizes"), &climbed, best);
    let (least, most) = (tables.least_item_bytes(), case.most);
    let climbed = from(&|random| tables.random(least, most, random))?;
    add_climbs(outcome, &case.variant("from random sizes"), &climbed, best);
    Ok(())
}

fn add_climbs(outcome: &mut Outcome, variant: &str, climbs: &Climbs, best: f64) {
    let count = climbs.wastes.len() as f64;
    let found = [
        (BEST_ENDS, percent(climbs.within(best) as f64, count)),
        (ENDS, climbs.ends() as f64),
        (EXCESS, percent(climbs.worst() - best, best)),
        (MOVES, climbs.mean_iterations),
    ];
    outcome.add_all(variant, found);
}

/// Adds the number of pages that the items take with each table, in the engine or in memcached, and the reduction compared
/// with the first table. memcached uses its own sizes first, then `-o slab_sizes`.
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
    let is_whole = |Taken { pages, items: there }| match there == items {
        true => Ok(pages),
        false => Err(format!("the memory is too small: only {there} of {items} items are stored")),
    };
    let mut old_pages = None;
    for (what, table) in &tables {
        let taken = match is_live {
            true => {
                let table = (*what != OLD).then_some(&table[..]);
                stored.in_memcached(table).map_err(|error| format!("skipped: {error}"))
            }
            false => Ok(stored.in_engine(table, outcome.seed)?),
        };
        let pages = taken.and_then(is_whole).map(|pages| pages as f64);
        let variant = format!("{name}, {what}");
        outcome.add(PAGES, &variant, pages.clone());
        match (old_pages, pages) {
            (None, Ok(pages)) => {
                outcome.note(format!("{} items", number(items as f64)));
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
