//! Macros that define structs of event counts. A count never decreases. To report the events since some moment, a
//! caller saves the counts at that moment and later subtracts the saved counts from the current counts.

/// Defines a struct of `u64` counts, with a function `since` that subtracts earlier counts and an operator `+=`. The
/// fields after `gauges` are not counts but current values. `since` returns the later value of a gauge, and `+=` sets
/// the gauge to the higher of the two values.
#[macro_export]
macro_rules! counts {
    (
        $(#[$doc:meta])*
        $vis:vis struct $name:ident { $($(#[$count_doc:meta])* $count:ident,)+ }
        $(gauges { $($(#[$gauge_doc:meta])* $gauge:ident: $gauge_type:ty,)+ })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name {
            $($(#[$count_doc])* pub $count: u64,)+
            $($($(#[$gauge_doc])* pub $gauge: $gauge_type,)+)?
        }

        impl $name {
            /// Returns the number of events of each kind between the earlier reading and this one.
            #[must_use]
            pub fn since(&self, earlier: &$name) -> $name {
                $name {
                    $($count: self.$count.saturating_sub(earlier.$count),)+
                    $($($gauge: self.$gauge,)+)?
                }
            }

            /// Returns the name and the number of each kind of event.
            #[allow(dead_code, reason = "few counts have a use for their names")]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($count), self.$count),)+]
            }

            /// Adds to the number of the kind of event with this name. Ignores other names.
            #[allow(dead_code, reason = "few counts have a use for their names")]
            pub fn add_named(&mut self, name: &str, count: u64) {
                match name {
                    $(stringify!($count) => self.$count += count,)+
                    _ => {}
                }
            }
        }

        impl ::std::ops::AddAssign<&$name> for $name {
            fn add_assign(&mut self, other: &$name) {
                $(self.$count += other.$count;)+
                $($(self.$gauge = self.$gauge.max(other.$gauge);)+)?
            }
        }
    };
}

/// Defines a struct of atomic counters, which several threads increment, and a [`counts!`] struct with the same fields,
/// which the counters' function `read` returns. Fields after `gauges` are current values and not counts: `read` does
/// not return them.
#[macro_export]
macro_rules! counters {
    (
        $(#[$doc:meta])*
        pub struct $counters:ident read as $counts:ident { $($(#[$count_doc:meta])* $count:ident,)+ }
        $(gauges { $($(#[$gauge_doc:meta])* $gauge:ident: $gauge_type:ty,)+ })?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $counters {
            $($(#[$count_doc])* pub $count: ::std::sync::atomic::AtomicU64,)+
            $($($(#[$gauge_doc])* pub $gauge: $gauge_type,)+)?
        }

        $crate::counts! {
            $(#[$doc])*
            pub struct $counts { $($(#[$count_doc])* $count,)+ }
        }

        impl $counters {
            /// Reads all counters.
            pub fn read(&self) -> $counts {
                $counts { $($count: self.$count.load(::std::sync::atomic::Ordering::Relaxed),)+ }
            }

            /// Adds to the counter with this name. Ignores other names.
            #[allow(dead_code, reason = "few counters have a use for their names")]
            pub fn add_named(&self, name: &str, count: u64) {
                let counter = match name {
                    $(stringify!($count) => &self.$count,)+
                    _ => return,
                };
                counter.fetch_add(count, ::std::sync::atomic::Ordering::Relaxed);
            }
        }
    };
}

#[cfg(test)]
mod tests {
    counts! {
        struct Sample { events, failures, }
        gauges { longest: u8, }
    }

    #[test]
    fn since_subtracts_counts_and_keeps_the_later_gauge_and_a_sum_keeps_the_higher_gauge() {
        let earlier = Sample { events: 5, failures: 1, longest: 9 };
        let later = Sample { events: 7, failures: 1, longest: 3 };
        assert_eq!(later.since(&earlier), Sample { events: 2, failures: 0, longest: 3 });
        let mut sum = earlier;
        sum += &later;
        assert_eq!(sum, Sample { events: 12, failures: 2, longest: 9 });
        let mut copy = Sample::default();
        sum.named().into_iter().for_each(|(name, count)| copy.add_named(name, count));
        copy.add_named("unknown", 1);
        assert_eq!(copy, Sample { longest: 0, ..sum });
    }
}
