//! Lists every experiment: its file, and the type that the file's set-up is parsed into. A new experiment is a line here.

use crate::experiment::{self, Experiment};
use crate::result::Spec;
use serde::de::DeserializeOwned;

pub struct Entry {
    pub spec: Spec,
    pub setup: Box<dyn Experiment>,
}

type Read = fn(&str, &str) -> Entry;

fn read<S: Experiment + DeserializeOwned + 'static>(name: &str, text: &str) -> Entry {
    let spec = Spec::parse(name, text);
    let setup: S = spec.setup();
    Entry { spec, setup: Box::new(setup) }
}

macro_rules! experiments {
    ($($name:literal: $setup:ty;)+) => {
        const FILES: &[(&str, &str, Read)] = &[$((
            $name,
            include_str!(concat!("../experiments/", $name, ".toml")),
            read::<$setup>,
        )),+];
    };
}

experiments! {
    "two-phase": experiment::two_phase::TwoPhaseSetup;
    "mover-speed": experiment::mover_speed::MoverSpeedSetup;
    "toy": experiment::policies::PoliciesSetup;
    "etc-steady": experiment::policies::PoliciesSetup;
    "etc-settled": experiment::policies::PoliciesSetup;
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
    "frontier": experiment::frontier::FrontierSetup;
}

pub fn all() -> Vec<Entry> {
    FILES.iter().map(|(name, text, read)| read(name, text)).collect()
}

pub fn specs() -> Vec<Spec> {
    all().into_iter().map(|entry| entry.spec).collect()
}

#[cfg(test)]
pub fn parsed<S: DeserializeOwned>(name: &str) -> (Spec, S) {
    let spec = specs().into_iter().find(|spec| spec.name == name);
    let spec = spec.unwrap_or_else(|| panic!("no experiment is called {name}"));
    let setup = spec.setup();
    (spec, setup)
}

#[cfg(test)]
mod tests {
    use super::specs;

    /// Experiments without published figures, which compare our own variants.
    const OURS: [&str; 5] =
        ["etc-settled", "curves", "eviction-curves", "classes-vs-misses", "frontier"];

    #[test]
    fn every_experiment_has_published_figures_or_is_our_own() {
        for spec in specs() {
            let is_ours = OURS.contains(&spec.name.as_str());
            assert!(is_ours || !spec.published.is_empty(), "{}: no published figure", spec.name);
            assert!(spec.published.iter().all(|figure| !figure.place.is_empty()));
        }
    }
}
