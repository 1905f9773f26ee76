//! What exact curves say before any run: the best split of the pages, and what it misses.

use super::exact_curves::ExactCurve;
use super::run::Run;
use super::setup::AnswerSetup;
use super::split::Split;
use slabwise_profile::Mrc;

#[derive(Clone, Debug)]
pub struct ClassCurves {
    mrcs: Vec<Mrc>,
    /// What a miss takes more than a hit, in microseconds, by class.
    miss_costs_us: Vec<f64>,
    chunks_per_page: Vec<u64>,
    hit_us: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub miss_ratio: f64,
    /// The least mean time of an answer, in microseconds.
    pub answer_us: f64,
}

impl ClassCurves {
    pub fn new(curves: Vec<ExactCurve>, run: &Run<'_>, answer: &AnswerSetup) -> ClassCurves {
        let config = run.engine_config();
        let chunks = |&size: &u32| config.page_size_bytes as u64 / u64::from(size);
        let cost = |curve: &ExactCurve| answer.of_miss_us(curve.value_len_mean) - answer.hit_us;
        ClassCurves {
            miss_costs_us: curves.iter().map(cost).collect(),
            mrcs: curves.into_iter().map(|curve| curve.mrc).collect(),
            chunks_per_page: config.classes.sizes().iter().map(chunks).collect(),
            hit_us: answer.hit_us,
        }
    }

    /// The split of `pages` pages with the fewest misses.
    pub fn fewest_misses(&self, pages: u64) -> Split {
        Split::best(&self.mrcs, &self.chunks_per_page, &vec![1.0; self.mrcs.len()], pages)
    }

    /// What no division of `pages` pages can do better over these requests.
    pub fn bound(&self, pages: u64) -> Bound {
        let references: f64 = self.mrcs.iter().map(Mrc::references).sum();
        let cost = |split: &Split, costs: &[f64]| -> f64 {
            let classes = self.mrcs.iter().zip(&self.chunks_per_page).zip(&split.pages).zip(costs);
            let cost =
                classes.map(|(((mrc, chunks), pages), cost)| mrc.misses(chunks * pages) * cost);
            cost.sum::<f64>() / references.max(1.0)
        };
        let ones = vec![1.0; self.mrcs.len()];
        let quickest = Split::best(&self.mrcs, &self.chunks_per_page, &self.miss_costs_us, pages);
        Bound {
            miss_ratio: cost(&self.fewest_misses(pages), &ones),
            answer_us: self.hit_us + cost(&quickest, &self.miss_costs_us),
        }
    }
}
