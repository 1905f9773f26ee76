//! Structs of counts that only rise. To report the events since some moment, a caller keeps the counts of that
//! moment and subtracts them.

/// Defines a struct of `u64` counts that can be added and subtracted. Fields after `gauges` are not counts: a
/// difference takes the later value, a sum the larger one.
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
            /// Returns the counts since the earlier reading.
            #[must_use]
            pub fn since(&self, earlier: &$name) -> $name {
                $name {
                    $($count: self.$count.saturating_sub(earlier.$count),)+
                    $($($gauge: self.$gauge,)+)?
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

/// Defines a struct of counters that several threads increment, and the [`counts!`] struct that a reading of them
/// returns. Fields after `gauges` are not counts.
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
            /// Reads the counts.
            pub fn read(&self) -> $counts {
                $counts { $($count: self.$count.load(::std::sync::atomic::Ordering::Relaxed),)+ }
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
    fn counts_are_subtracted_and_added_and_gauges_are_chosen() {
        let earlier = Sample { events: 5, failures: 1, longest: 9 };
        let later = Sample { events: 7, failures: 1, longest: 3 };
        assert_eq!(later.since(&earlier), Sample { events: 2, failures: 0, longest: 3 });
        let mut sum = earlier;
        sum += &later;
        assert_eq!(sum, Sample { events: 12, failures: 2, longest: 9 });
    }
}
