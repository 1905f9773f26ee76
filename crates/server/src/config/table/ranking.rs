//! The options of eviction kinds that rank items, from text to value.

use crate::config::settings::Draft;
use slabwise_engine::ReservedRank;

/// Places of a wheel at most.
const PLACES_MAX: u16 = 1024;

/// `sum` or `weighted:COST_MAX`.
pub(super) fn reserved_rank(draft: &mut Draft, text: &str) -> Result<(), String> {
    let cost_max = text.strip_prefix("weighted:").and_then(|number| number.parse().ok());
    draft.settings.engine.eviction_options.reserved.rank = match (text, cost_max) {
        ("sum", _) => ReservedRank::Sum,
        (_, Some(cost_max)) if cost_max > 0 => ReservedRank::Weighted { cost_max },
        _ => {
            return Err(format!(
                "{text}: give sum, or weighted:COST_MAX with the highest cost, from 1"
            ));
        }
    };
    Ok(())
}

/// `256`, `256x256` or `64x64x64`.
pub(super) fn wheel_sizes(draft: &mut Draft, text: &str) -> Result<(), String> {
    let refusal = || {
        format!(
            "{text}: give one to three numbers of places with x between them, each a power \
             of two from 2 to {PLACES_MAX}"
        )
    };
    let place = |number: &str| {
        let size: u16 = number.parse().ok()?;
        (size.is_power_of_two() && (2..=PLACES_MAX).contains(&size)).then_some(size)
    };
    let given: Option<Vec<u16>> = text.split('x').map(place).collect();
    let given = given.filter(|given| given.len() <= 3).ok_or_else(refusal)?;
    let sizes = &mut draft.settings.engine.eviction_options.gd_wheel.wheel_sizes;
    *sizes = [1; 3];
    sizes[..given.len()].copy_from_slice(&given);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::settings::Draft;
    use slabwise_engine::{EvictionOptions, ReservedRank};

    fn set(
        set: fn(&mut Draft, &str) -> Result<(), String>,
        text: &str,
    ) -> Result<EvictionOptions, String> {
        let mut draft = Draft::default();
        set(&mut draft, text)?;
        Ok(draft.settings.engine.eviction_options)
    }

    fn wheel_sizes(text: &str) -> Result<[u16; 3], String> {
        set(super::wheel_sizes, text).map(|options| options.gd_wheel.wheel_sizes)
    }

    fn reserved_rank(text: &str) -> Result<ReservedRank, String> {
        set(super::reserved_rank, text).map(|options| options.reserved.rank)
    }

    #[test]
    fn wheels_are_powers_of_two() {
        assert_eq!(wheel_sizes("256x256"), Ok([256, 256, 1]));
        assert_eq!(wheel_sizes("2x4x1024"), Ok([2, 4, 1024]));
        for wrong in ["", "x", "3", "1", "2048", "2x2x2x2", "2x", "-4"] {
            assert!(wheel_sizes(wrong).is_err_and(|error| error.contains(wrong)), "{wrong}");
        }
    }

    #[test]
    fn a_weighted_rank_needs_a_highest_cost() {
        assert_eq!(reserved_rank("sum"), Ok(ReservedRank::Sum));
        let weighted = ReservedRank::Weighted { cost_max: 450 };
        assert_eq!(reserved_rank("weighted:450"), Ok(weighted));
        for wrong in ["", "weighted", "weighted:0", "weighted:-1", "sum:1"] {
            assert!(reserved_rank(wrong).is_err_and(|error| error.contains(wrong)), "{wrong}");
        }
    }
}
