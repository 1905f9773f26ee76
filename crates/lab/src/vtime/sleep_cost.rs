//! What a sleep costs the processor: going to sleep and waking is work, too.

use super::processor::thread_cpu_nanos;
use slabwise_base::Clock;
use std::time::Duration;

/// Sleeps that are measured.
const SLEEPS: u32 = 200;

/// A sleep of one length, as this machine carries it out: the mean of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SleepCost {
    /// Nanoseconds of processor time.
    pub cpu_nanos: f64,
    /// How long it really was, in nanoseconds: timers fire late.
    pub wall_nanos: f64,
}

impl SleepCost {
    #[expect(clippy::disallowed_methods, reason = "sleeping is what is measured")]
    pub fn measure(length: Duration, clock: &Clock) -> SleepCost {
        let (wall, cpu) = (clock.nanos(), thread_cpu_nanos());
        for _ in 0..SLEEPS {
            std::thread::sleep(length);
        }
        SleepCost {
            cpu_nanos: (thread_cpu_nanos() - cpu) / f64::from(SLEEPS),
            wall_nanos: (clock.nanos() - wall) as f64 / f64::from(SLEEPS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SleepCost;
    use slabwise_base::Clock;
    use std::time::Duration;

    #[test]
    fn a_sleep_is_at_least_as_long_as_asked_for_and_takes_less_processor_than_time() {
        let cost = SleepCost::measure(Duration::from_micros(50), &Clock::real());
        assert!(cost.wall_nanos >= 50_000.0, "{cost:?}");
        assert!(cost.cpu_nanos > 0.0 && cost.cpu_nanos < cost.wall_nanos, "{cost:?}");
    }
}
