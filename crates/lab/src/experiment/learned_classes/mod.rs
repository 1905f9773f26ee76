//! `learned-classes`: chunk sizes that follow the sizes of items, by hill climbing as published and by the exact best.
//!
//! ```text
//!   published wastes --law--> sizes --draw--> items --+--> climbs   hill climbing from many starts
//!                                                     +--> exact    the best of as many sizes
//!                                                     '--> pages    stored in the engine, or in a memcached (--live)
//! ```
//!
//! A *waste* is what chunks take less what items take, header and key included; the ends of pages do not count, as in
//! the paper. As many sizes replace those that the paper lists as in use.

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

    fn run(&self, job: &Job<'_>) -> Result<Outcome, ExperimentError> {
        if job.live { run_live(self, job) } else { run(self, job) }
    }
}

fn begin(setup: &LearnedClassesSetup, job: &Job<'_>) -> Outcome {
    let mut outcome = job.outcome();
    let scale = job.scale;
    let items = number(scaled(setup.items, scale) as f64);
    outcome.choose("items", format!("{items} of each distribution, log-normal"));
    outcome.choose("their mean", "as printed; header and key included");
    let text = "the one that is nearest to the published wastes; in the fifth, as many times the \
                printed one as in the others";
    outcome.choose("their deviation", text);
    outcome.choose("their largest", "the last new size, to which hill climbing comes down");
    outcome.choose(
        "new sizes",
        "as many as the paper lists; pages: memcached's largest chunk beside them",
    );
    let text = format!("{} of the items, in order", mib(setup.stored_mib, scale));
    outcome.choose("stored for pages", text);
    outcome
}

fn mib(size_mib: u64, scale: f64) -> String {
    format!("{} MiB", number(scaled(size_mib, scale) as f64))
}

fn run(setup: &LearnedClassesSetup, job: &Job<'_>) -> Result<Outcome, ExperimentError> {
    let mut outcome = begin(setup, job);
    let (scale, seed) = job.size();
    let climbs = "from the old sizes, and from random ones where that is said";
    outcome.choose("climbs", format!("{} {climbs}", setup.restarts));
    let spinner = job.progress.spinner("fitting deviations");
    for case in cases(job.spec, setup) {
        spinner.set_message(case.setup.name.clone());
        let sizes = case.draw(scaled(setup.items, scale), seed);
        add_law(&mut outcome, &case)?;
        add_wastes(&mut outcome, &case, &sizes, (setup.restarts, seed))?;
        add_pages(&mut outcome, setup, &case, &sizes)?;
    }
    spinner.finish_and_clear();
    outcome.complete();
    Ok(outcome)
}

fn list(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

/// The spread, and what there would be to recover with others.
fn add_law(outcome: &mut Outcome, case: &Case) -> Result<(), ExperimentError> {
    let name = &case.setup.name;
    outcome.add(SD, name, Ok(case.sd_bytes));
    let Some((least, most)) = case.sd_range else {
        let why = || Err("no deviation wastes so much".to_owned());
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
            outcome.note("as many times the printed one as in another distribution");
        }
        let demands = case.expected(sd_bytes);
        let before = loss(&demands, &case.tables.old(), &case.tables.published)?.total_bytes();
        let recovered = percent(before - case.tables.exact(&demands)?.1, before);
        outcome.add(RECOVERED, &case.variant(what), Ok(recovered));
    }
    Ok(())
}

/// Wastes before and after.
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

/// The tables under which pages are counted, each with what its rows are called.
fn paged_tables(case: &Case, sizes: &[usize]) -> Result<Vec<NamedTable>, ExperimentError> {
    let mut tables = vec![(OLD, case.tables.paged_old())];
    if !case.setup.new_sizes.is_empty() {
        tables.push((PRINTED, case.tables.paged(&case.setup.new_sizes)));
    }
    tables.push((EXACT, case.tables.exact_paged(&demands_of(sizes))?));
    Ok(tables)
}

type NamedTable = (&'static str, Vec<usize>);

/// What the items take in the engine, table by table.
fn add_pages(
    outcome: &mut Outcome,
    setup: &LearnedClassesSetup,
    case: &Case,
    sizes: &[usize],
) -> Result<(), ExperimentError> {
    let stored = Stored::of(setup, outcome.scale, sizes);
    let mut rows = PageRows::new(outcome, &stored, case.setup.name.clone());
    for (what, table) in &paged_tables(case, stored.sizes)? {
        rows.add(what, Ok(stored.in_engine(table, rows.outcome.seed)?));
    }
    Ok(())
}

/// Runs it against a real memcached, if there is one: its own sizes, then the others by `-o slab_sizes`.
fn run_live(setup: &LearnedClassesSetup, job: &Job<'_>) -> Result<Outcome, ExperimentError> {
    let mut outcome = begin(setup, job);
    let (scale, seed) = job.size();
    let spinner = job.progress.spinner("fitting deviations");
    for case in cases(job.spec, setup) {
        spinner.set_message(case.setup.name.clone());
        let sizes = case.draw(scaled(setup.items, scale), seed);
        let stored = Stored::of(setup, scale, &sizes);
        let mut rows = PageRows::new(&mut outcome, &stored, case.variant("memcached"));
        for (what, table) in &paged_tables(&case, stored.sizes)? {
            // Its own sizes are those that it has without being told.
            let table = (*what != OLD).then_some(&table[..]);
            rows.add(what, stored.in_memcached(table).map_err(|error| format!("skipped: {error}")));
        }
    }
    spinner.finish_and_clear();
    outcome.choose("published", "nothing of pages: see the run without --live");
    Ok(outcome)
}

struct PageRows<'a> {
    outcome: &'a mut Outcome,
    name: String,
    items: u64,
    old_pages: Option<u64>,
}

impl<'a> PageRows<'a> {
    fn new(outcome: &'a mut Outcome, stored: &Stored, name: String) -> PageRows<'a> {
        PageRows { outcome, name, items: stored.sizes.len() as u64, old_pages: None }
    }

    fn add(&mut self, what: &str, taken: Result<Taken, String>) {
        let variant = format!("{}, {what}", self.name);
        let is_whole = |taken: Taken| {
            let (there, items) = (taken.items, self.items);
            let why = || format!("{there} of {items} items are there: the memory is too small");
            if there == items { Ok(taken.pages) } else { Err(why()) }
        };
        let pages = taken.and_then(is_whole);
        self.outcome.add(PAGES, &variant, pages.clone().map(|pages| pages as f64));
        match (self.old_pages, pages) {
            (None, Ok(pages)) => {
                self.outcome.note(format!("{} items", number(self.items as f64)));
                self.old_pages = Some(pages);
            }
            (Some(old), Ok(pages)) => {
                let fewer = percent(old as f64 - pages as f64, old as f64);
                self.outcome.add(FEWER, &variant, Ok(fewer));
            }
            (_, Err(_)) => {}
        }
    }
}
