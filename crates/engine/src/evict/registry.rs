//! The list of all eviction kinds, one line each, and the types that are generated from this list.

use super::gd_wheel::GdWheelConfig;
use super::order::{Info, LruConfig, Order};
use super::reserved::ReservedConfig;

/// The options of all eviction kinds. A kind ignores the fields of other kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvictionOptions {
    /// The limits of the hot, warm and cold queues, for the kinds that have these queues.
    pub lru: LruConfig,
    /// The options of the kind `reserved`.
    pub reserved: ReservedConfig,
    /// The options of the kind `gd_wheel`.
    pub gd_wheel: GdWheelConfig,
}

/// Defines [`EvictionKind`], [`ClassOrder`] and the macro `dispatch`. A line contains the type of a kind, its file, and
/// the fields of [`EvictionOptions`] that the type's `new` takes. The first argument is a dollar sign, which this macro
/// needs to define another macro.
macro_rules! kinds {
    (($dollar:tt) $($kind:ident: $file:ident($($options:ident),*);)+) => {
        /// The rule by which a class selects the next item to evict.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EvictionKind {
            $(
                #[doc = concat!("See `evict/", stringify!($file), ".rs`.")]
                $kind,
            )+
        }

        impl EvictionKind {
            /// All kinds, in the order in which help texts and statistics list them.
            pub const ALL: [EvictionKind; [$(stringify!($kind)),+].len()] =
                [$(EvictionKind::$kind),+];

            /// The names of all kinds, in the order of `ALL`.
            pub const NAMES: [&str; EvictionKind::ALL.len()] =
                [$(<super::$file::$kind as Order>::INFO.name),+];

            /// The properties of all kinds, in the order of `ALL`.
            const INFOS: [&Info; EvictionKind::ALL.len()] =
                [$(&<super::$file::$kind as Order>::INFO),+];
        }

        /// The eviction order of one class. The macro `dispatch` calls the methods of its kind.
        #[derive(Debug)]
        pub enum ClassOrder {
            $(
                #[doc = concat!("See `evict/", stringify!($file), ".rs`.")]
                $kind(super::$file::$kind),
            )+
        }

        impl ClassOrder {
            /// Returns the eviction order of a class that holds no item yet.
            pub fn new(kind: EvictionKind, _options: &EvictionOptions) -> ClassOrder {
                match kind {
                    $(EvictionKind::$kind => {
                        ClassOrder::$kind(super::$file::$kind::new($(&_options.$options),*))
                    })+
                }
            }
        }

        /// Calls a method of [`Order`] on an order of any kind.
        #[collapse_debuginfo(yes)]
        macro_rules! dispatch {
            ($dollar order:expr, $dollar method:ident $dollar arguments:tt) => {
                match $dollar order {
                    $($crate::evict::ClassOrder::$kind(order) => order.$dollar method $dollar arguments,)+
                }
            };
        }
        pub(crate) use dispatch;
    };
}

// Help texts and statistics list the kinds in this order.
kinds! {
    ($)
    CostBands: cost_bands();
    Density: density();
    Segmented: segmented();
    Lru: lru();
    Reserved: reserved(reserved);
    GreedyDualSize: greedydual_size();
    GdWheel: gd_wheel(gd_wheel);
    SplitLru: split_lru();
}

impl EvictionKind {
    /// Returns the constant properties of the kind.
    pub const fn info(self) -> &'static Info {
        EvictionKind::INFOS[self as usize]
    }

    /// Returns the kind's name in options and specifications.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<EvictionKind> {
        EvictionKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the help text on all kinds.
    pub fn help() -> String {
        help_on(&EvictionKind::INFOS)
    }

    /// True if a class of this kind starts with memcached's segmented LRU, in one lane or in several lanes.
    pub const fn starts_segmented(self) -> bool {
        self.info().can_switch && !self.info().is_exact
    }
}

/// Returns the name and the help text of each kind. Adjacent kinds with the same text are listed together before it.
fn help_on(kinds: &[&Info]) -> String {
    let groups = kinds.chunk_by(|one, next| one.help == next.help).map(|group| {
        let names: Vec<&str> = group.iter().map(|kind| kind.name).collect();
        format!("{}: {}", names.join(", "), group[0].help)
    });
    groups.collect::<Vec<String>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::{Info, help_on};

    #[test]
    fn adjacent_kinds_with_the_same_help_are_listed_together() {
        let kinds = [Info::new("a", "one"), Info::new("b", "two"), Info::new("c", "two")];
        assert_eq!(help_on(&kinds.each_ref()), "a: one; b, c: two");
    }
}
