//! Compares variants over several memory limits: the memory with which a variant has the same miss ratio as another
//! variant, and the curves of the miss ratio and of the response time over the memory.

use super::findings::{BOUND, Findings, SteadyValues};
use crate::result::{Outcome, format_number, maximum, mean, measures, minimum};
use crate::trial::setup::scaled;

measures! {
    LESS_MEMORY: "less_memory", "less memory for the same misses", "%", Fixed;
}

/// Adds the row with the reduction of memory of one variant that has as many misses as another variant: the mean over
/// the memory limits of the other variant, in percent. A limit counts only if the miss ratio of the other variant is
/// between two miss ratios of the variant, so that the memory of the variant can be interpolated.
pub fn add_less_memory(
    outcome: &mut Outcome,
    findings: &Findings<'_>,
    [variant, other]: &[String; 2],
) {
    let name = format!("{variant} against {other}");
    let found = curve(findings, variant).and_then(|of_variant| {
        let of_other = curve(findings, other)?;
        let reduction = |&(memory_mib, miss_ratio): &(f64, f64)| {
            Some((1.0 - memory_for(&of_variant, miss_ratio)? / memory_mib) * 100.0)
        };
        let reductions: Vec<f64> = of_other.iter().filter_map(reduction).collect();
        if reductions.is_empty() {
            return Err(format!("{variant} has the miss ratio of {other} at no memory size"));
        }
        Ok(reductions)
    });
    outcome.add(LESS_MEMORY, &name, found.as_ref().map(|found| mean(found)).map_err(String::clone));
    if let Ok(found) = found {
        let (from, to) = (format_number(minimum(&found)), format_number(maximum(&found)));
        let (count, all) = (found.len(), findings.setup.limits_mib().len());
        outcome.note_last_row(format!("{from} to {to}, over {count} of {all} memory sizes"));
    }
}

/// Adds the series of the steady miss ratio and of the steady response time over the memory.
pub fn add_series(outcome: &mut Outcome, findings: &Findings<'_>) {
    let setup = findings.setup;
    let names = setup.variants.iter().map(|variant| variant.name.as_str());
    let names = names.chain(setup.bound.then_some(BOUND));
    for name in names {
        let points = setup.limits_mib().into_iter().filter_map(|limit| {
            let memory_mib = scaled(limit << 20, findings.scale) as f64 / f64::from(1 << 20);
            Some((memory_mib, findings.steady_of(name, limit).ok()?))
        });
        let points: Vec<(f64, SteadyValues)> = points.collect();
        let ratios = points.iter().map(|(memory, steady)| (*memory, steady.miss_ratio * 100.0));
        outcome.add_series("steady miss ratio by memory", name, ["MiB", "%"], ratios);
        let times = points.iter().map(|(memory, steady)| (*memory, steady.response_us));
        outcome.add_series("steady response time by memory", name, ["MiB", "us"], times);
    }
}

/// Returns pairs of a memory limit in MiB at scale 1 and the steady miss ratio of the variant with this memory.
fn curve(findings: &Findings<'_>, variant: &str) -> Result<Vec<(f64, f64)>, String> {
    let limits = findings.setup.limits_mib().into_iter();
    let mut points: Vec<(f64, f64)> = limits
        .map(|limit| Ok((limit as f64, findings.steady_of(variant, limit)?.miss_ratio)))
        .collect::<Result<_, String>>()?;
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(points)
}

/// Returns the smallest memory at which the curve, which is linear between its points, has this miss ratio.
fn memory_for(points: &[(f64, f64)], miss_ratio: f64) -> Option<f64> {
    points.windows(2).find_map(|pair| {
        let [(from, high), (to, low)] = [pair[0], pair[1]];
        let is_between = (low..=high).contains(&miss_ratio) && high > low;
        is_between.then(|| from + (to - from) * (high - miss_ratio) / (high - low))
    })
}

#[cfg(test)]
mod tests {
    use super::memory_for;

    #[test]
    fn the_memory_for_a_miss_ratio_is_interpolated() {
        let points = [(100.0, 0.5), (200.0, 0.3), (300.0, 0.2)];
        let found = [0.5, 0.4, 0.3, 0.25].map(|ratio| memory_for(&points, ratio));
        assert_eq!(found, [Some(100.0), Some(150.0), Some(200.0), Some(250.0)]);
        let found = [0.6, 0.1].map(|ratio| memory_for(&points, ratio));
        assert_eq!(found, [None, None], "no memory size has these miss ratios");
    }
}
