//! Lists all experiments. Each line of the list has the name of a file and the type into which the file's set-up is
//! parsed.

use crate::experiment::{self, Experiment};
use crate::result::Spec;
use serde::de::DeserializeOwned;

/// An experiment.
pub struct Entry {
    /// The parsed file.
    pub spec: Spec,
    /// The set-up of the file, parsed into the experiment's type.
    pub setup: Box<dyn Experiment>,
    /// The last commits that changed the engine and the runs on it, and the code of this type of experiment. A commit
    /// ends with `-modified` if there are changes without a commit, and is "unknown" if the program was not built in a
    /// git repository.
    pub sources: String,
}

/// Parses an experiment from the name and the text of its file.
type Parse = fn(&str, &str) -> Entry;

fn parse<S: Experiment + DeserializeOwned + 'static>(name: &str, text: &str) -> Entry {
    let spec = Spec::parse(name, text);
    let setup: S = spec.setup();
    Entry { spec, setup: Box::new(setup), sources: sources_of::<S>() }
}

/// Returns [`Entry::sources`] of a type of experiment.
fn sources_of<S>() -> String {
    const SHARED: &str = env!("SLABWISE_LAB_SHARED");
    const EXPERIMENTS: &str = env!("SLABWISE_LAB_EXPERIMENTS");
    let path = std::any::type_name::<S>();
    let is_part = |(module, _): &(&str, &str)| path.split("::").any(|part| part == *module);
    let mut commits = EXPERIMENTS.split(',').filter_map(|commit| commit.split_once('='));
    let (_, own) = commits.find(is_part).unwrap_or(("", "unknown"));
    format!("{SHARED}, {own}")
}

/// Defines the list of experiments. A line `"NAME": TYPE;` is the experiment in `experiments/NAME.toml`.
macro_rules! experiments {
    ($($name:literal: $setup:ty;)+) => {
        /// Name, text and parser of each file.
        const FILES: &[(&str, &str, Parse)] = &[$((
            $name,
            include_str!(concat!("../experiments/", $name, ".toml")),
            parse::<$setup>,
        )),+];
    };
}

experiments! {
    "two-phase": experiment::two_phase::TwoPhaseSetup;
    "mover-speed": experiment::mover_speed::MoverSpeedSetup;
    "toy": experiment::policies::PoliciesSetup;
    "etc-steady": experiment::policies::PoliciesSetup;
    "etc-settled": experiment::policies::PoliciesSetup;
    "etc-sweeps": experiment::policies::PoliciesSetup;
    "etc-memory-sweep": experiment::policies::PoliciesSetup;
    "three-phase": experiment::policies::PoliciesSetup;
    "time-varying": experiment::policies::PoliciesSetup;
    "multi-tenant": experiment::policies::PoliciesSetup;
    "learned-classes": experiment::learned_classes::LearnedClassesSetup;
    "curves": experiment::curves::CurvesSetup;
    "eviction-curves": experiment::eviction_curves::EvictionCurvesSetup;
    "overhead": experiment::overhead::OverheadSetup;
    "classes-vs-misses": experiment::class_counts::ClassCountsSetup;
    "cost-single": experiment::cost::CostSetup;
    "cost-multi": experiment::cost::CostSetup;
    "cost-single-published": experiment::cost::CostSetup;
    "cost-multi-published": experiment::cost::CostSetup;
    "cost-reserved": experiment::cost::CostSetup;
    "frontier": experiment::frontier::FrontierSetup;
    "what-if": experiment::what_if::WhatIfSetup;
    "eviction-ranks": experiment::frontier::FrontierSetup;
}

pub fn all() -> Vec<Entry> {
    FILES.iter().map(|(name, text, parse)| parse(name, text)).collect()
}

pub fn specs() -> Vec<Spec> {
    all().into_iter().map(|entry| entry.spec).collect()
}

/// Returns the file of the experiment with this name, and its set-up.
#[cfg(test)]
pub fn parsed<S: DeserializeOwned>(name: &str) -> (Spec, S) {
    let spec = specs().into_iter().find(|spec| spec.name == name);
    let spec = spec.unwrap_or_else(|| panic!("the registry has the experiment {name}"));
    let setup = spec.setup();
    (spec, setup)
}

#[cfg(test)]
mod tests {
    use super::specs;

    #[test]
    fn the_experiments_that_show_causes_exist() {
        let specs = specs();
        for value in specs.iter().flat_map(|spec| &spec.published) {
            let Some(cause) = &value.classification.cause else { continue };
            let is_known = specs.iter().any(|spec| spec.name == cause.shown_by.experiment);
            assert!(is_known, "{cause}");
        }
    }

    #[test]
    fn every_experiment_has_the_commit_of_its_code() {
        for entry in super::all() {
            let is_built_with_git = !env!("SLABWISE_LAB_SHARED").contains("unknown");
            let is_known = !entry.sources.contains("unknown");
            assert_eq!(is_known, is_built_with_git, "{}: {}", entry.spec.name, entry.sources);
        }
    }

    /// Experiments without published values, which compare our own variants.
    const OURS: [&str; 11] = [
        "etc-settled",
        "etc-sweeps",
        "curves",
        "eviction-curves",
        "classes-vs-misses",
        "cost-single",
        "cost-multi",
        "cost-reserved",
        "frontier",
        "eviction-ranks",
        "what-if",
    ];

    #[test]
    fn every_experiment_has_published_values_or_is_our_own() {
        for spec in specs() {
            let (name, published) = (&spec.name, &spec.published);
            let is_ours = OURS.contains(&name.as_str());
            assert!(is_ours || !published.is_empty(), "{name}.toml has a [[published]] table");
            let have_places = published.iter().all(|value| !value.place.is_empty());
            assert!(have_places, "every [[published]] table of {name}.toml has a place");
        }
    }
}
