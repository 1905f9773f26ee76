//! Sizes that are log-normal, and which spread the published waste speaks of.
//!
//! The paper prints a mean and a standard deviation in bytes. With that deviation nearly all items would lie in one
//! class, and half of the classes that it lists would be empty; so the mean is taken as printed, and the spread is the
//! one whose expected waste is nearest to what was published, in least squares of relative errors.
//!
//! A size below the classes that the paper lists as in use is none, as it would have put another class to use; nor is one
//! above the largest item.

use slabwise_base::Random;

#[derive(Clone, Debug)]
pub struct SizeLaw {
    least: usize,
    /// By size from the least: the share of sizes up to it.
    share_to: Vec<f64>,
}

impl SizeLaw {
    /// With this mean and standard deviation but for what lies outside of `least..=most`.
    pub fn new(mean_bytes: f64, sd_bytes: f64, least: usize, most: usize) -> SizeLaw {
        let variance = (1.0 + (sd_bytes / mean_bytes).powi(2)).ln();
        let middle = mean_bytes.ln() - variance / 2.0;
        let mut sum = 0.0;
        let mut share_to: Vec<f64> = (least..=most)
            .map(|size| {
                let away = (size as f64).ln() - middle;
                sum += (-away * away / (2.0 * variance)).exp() / size as f64;
                sum
            })
            .collect();
        share_to.iter_mut().for_each(|share| *share /= sum);
        SizeLaw { least, share_to }
    }

    /// Sizes and their shares, which add up to 1.
    pub fn shares(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let before = [0.0].into_iter().chain(self.share_to.iter().copied());
        let shares = self.share_to.iter().zip(before).map(|(to, before)| to - before);
        shares.enumerate().map(|(place, share)| (self.least + place, share))
    }

    /// Bytes that a chunk of this table is expected to hold in vain.
    pub fn waste(&self, table: &[usize]) -> f64 {
        let mut class = 0;
        let mut waste = 0.0;
        for (size, share) in self.shares() {
            while table[class] < size {
                class += 1;
            }
            waste += share * (table[class] - size) as f64;
        }
        waste
    }

    pub fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit();
        let place = self.share_to.partition_point(|&share| share <= at);
        self.least + place.min(self.share_to.len() - 1)
    }
}

pub struct KnownWaste<'a> {
    /// Chunk sizes, ascending.
    pub table: &'a [usize],
    pub waste_bytes: f64,
}

impl KnownWaste<'_> {
    fn relative_error(&self, law: &SizeLaw) -> f64 {
        law.waste(self.table) / self.waste_bytes - 1.0
    }
}

/// Spreads are tried up to this part of the mean.
const SD_SHARE_MAX: f64 = 0.4;
/// So many of them.
const STEPS: u32 = 800;
/// Between two of them, around the best, so many.
const FINE_STEPS: u32 = 40;

fn spreads(mean_bytes: f64) -> impl Iterator<Item = f64> {
    let step = mean_bytes * SD_SHARE_MAX / f64::from(STEPS);
    (1..=STEPS).map(move |at| f64::from(at) * step)
}

/// The standard deviation whose law is nearest to what is known.
pub fn fit(mean_bytes: f64, law: impl Fn(f64) -> SizeLaw, known: &[KnownWaste]) -> f64 {
    let error = |sd_bytes: f64| {
        let law = law(sd_bytes);
        known.iter().map(|known| known.relative_error(&law).powi(2)).sum::<f64>()
    };
    let best_of = |spreads: &mut dyn Iterator<Item = f64>| {
        let rated = spreads.map(|sd_bytes| (error(sd_bytes), sd_bytes));
        rated.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are some").1
    };
    let coarse = best_of(&mut spreads(mean_bytes));
    let step = mean_bytes * SD_SHARE_MAX / f64::from(STEPS);
    let fine =
        (1..2 * FINE_STEPS).map(|at| coarse + step * (f64::from(at) / f64::from(FINE_STEPS) - 1.0));
    best_of(&mut fine.filter(|&sd_bytes| sd_bytes > 0.0))
}

/// The least and the largest standard deviation whose waste is off by at most `tolerance`, as a part of it.
pub fn fit_range(
    mean_bytes: f64,
    law: impl Fn(f64) -> SizeLaw,
    known: &KnownWaste,
    tolerance: f64,
) -> Option<(f64, f64)> {
    let is_near = |&sd_bytes: &f64| known.relative_error(&law(sd_bytes)).abs() <= tolerance;
    let near: Vec<f64> = spreads(mean_bytes).filter(is_near).collect();
    Some((*near.first()?, *near.last()?))
}

#[cfg(test)]
mod tests {
    use super::{KnownWaste, SizeLaw, fit, fit_range};
    use slabwise_base::Random;

    #[test]
    fn what_is_drawn_has_the_mean_and_the_spread() {
        let law = SizeLaw::new(500.0, 60.0, 200, 1_000);
        let mut random = Random::new(3);
        let drawn: Vec<f64> = (0..100_000).map(|_| law.draw(&mut random) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|size| (size - mean).powi(2)).sum::<f64>();
        let sd = (variance / drawn.len() as f64).sqrt();
        assert!((mean - 500.0).abs() < 1.0 && (sd - 60.0).abs() < 1.0, "{mean}, {sd}");
        let skew = drawn.iter().map(|size| (size - mean).powi(3)).sum::<f64>();
        assert!(skew > 0.0, "a log-normal has a long upper side");
    }

    #[test]
    fn shares_add_up_and_the_waste_is_their_mean() {
        let law = SizeLaw::new(500.0, 60.0, 400, 600);
        let sum: f64 = law.shares().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        let mean: f64 = law.shares().map(|(size, share)| share * size as f64).sum();
        assert!((law.waste(&[600]) - (600.0 - mean)).abs() < 1e-9);
        assert!(law.waste(&[500, 600]) < law.waste(&[600]));
        let mut random = Random::new(1);
        assert!((0..10_000).all(|_| (400..=600).contains(&law.draw(&mut random))));
    }

    #[test]
    fn a_spread_is_found_again_by_what_it_wastes() {
        for sd in [12.0, 60.0, 110.0] {
            let law = |sd| SizeLaw::new(500.0, sd, 300, 1_000);
            let tables = [[480, 600, 1_000], [510, 620, 1_000]];
            let known = tables
                .each_ref()
                .map(|table| KnownWaste { table, waste_bytes: law(sd).waste(table) });
            let found = fit(500.0, law, &known);
            assert!((found - sd).abs() < 0.02, "{found}, not {sd}");
            let (least, most) = fit_range(500.0, law, &known[0], 0.01).expect("some");
            assert!(least <= sd && sd <= most, "{least} to {most}, not {sd}");
        }
        let known = KnownWaste { table: &[1_000], waste_bytes: 1e6 };
        let law = |sd| SizeLaw::new(500.0, sd, 300, 1_000);
        assert!(fit_range(500.0, law, &known, 0.01).is_none());
    }
}
