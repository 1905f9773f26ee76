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
}

/// Parses an experiment from the name and the text of its file.
type Parse = fn(&str, &str) -> Entry;

fn parse<S: Experiment + DeserializeOwned + 'static>(name: &str, text: &str) -> Entry {
    let spec = Spec::parse(name, text);
    let setup: S = spec.setup();
    Entry { spec, setup: Box::new(setup) }
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
    "frontier": experiment::frontier::FrontierSetup;
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

    /// Experiments without published values, which compare our own variants.
    const OURS: [&str; 6] =
        ["etc-settled", "etc-sweeps", "curves", "eviction-curves", "classes-vs-misses", "frontier"];

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
