//! The list of eviction kinds, one line each.

use super::gd_wheel::GdWheelConfig;
use super::order::{Info, LruConfig, Order};
use super::reserved::ReservedConfig;

/// The options of all eviction kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvictionOptions {
    /// The limits of kinds with hot, warm and cold queues.
    pub lru: LruConfig,
    /// The options of `reserved`.
    pub reserved: ReservedConfig,
    /// The options of `gd_wheel`.
    pub gd_wheel: GdWheelConfig,
}

/// Defines [`EvictionKind`] and [`ClassOrder`]. A line names a kind's type, its file, and the options that its
/// `new` takes. (The dollar sign is for the macro that it defines.)
macro_rules! kinds {
    (($dollar:tt) $($kind:ident: $file:ident($($options:ident),*);)+) => {
        /// The policy by which a class chooses the items to evict.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EvictionKind {
            $(
                #[doc = concat!("See `evict/", stringify!($file), ".rs`.")]
                $kind,
            )+
        }

        impl EvictionKind {
            /// All kinds.
            pub const ALL: [EvictionKind; [$(stringify!($kind)),+].len()] =
                [$(EvictionKind::$kind),+];

            /// The names of all kinds.
            pub const NAMES: [&str; EvictionKind::ALL.len()] =
                [$(<super::$file::$kind as Order>::INFO.name),+];

            const INFOS: [&Info; EvictionKind::ALL.len()] =
                [$(&<super::$file::$kind as Order>::INFO),+];
        }

        /// The eviction order of one class; `dispatch!` calls its kind's methods.
        #[derive(Debug)]
        pub enum ClassOrder {
            $(
                #[doc = concat!("See `evict/", stringify!($file), ".rs`.")]
                $kind(super::$file::$kind),
            )+
        }

        impl ClassOrder {
            /// The order of an empty class.
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

// Help and statistics list them in this order.
kinds! {
    ($)
    CostBands: cost_bands();
    Segmented: segmented();
    Lru: lru();
    Reserved: reserved(reserved);
    GreedyDualSize: greedydual_size();
    GdWheel: gd_wheel(gd_wheel);
}

impl EvictionKind {
    /// The kind's constant properties.
    pub const fn info(self) -> &'static Info {
        EvictionKind::INFOS[self as usize]
    }

    /// The kind's name in options and specifications.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<EvictionKind> {
        EvictionKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the help on all kinds.
    pub fn help() -> String {
        help_on(&EvictionKind::INFOS)
    }

    /// True if the kind starts with memcached's segmented LRU, in one lane or several.
    pub const fn begins_segmented(self) -> bool {
        self.info().can_switch && !self.info().is_exact
    }
}

/// Lists each kind's name and help. Adjacent kinds with the same help share it.
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
    fn adjacent_kinds_with_the_same_help_share_it() {
        let kinds = [Info::new("a", "one"), Info::new("b", "two"), Info::new("c", "two")];
        assert_eq!(help_on(&kinds.each_ref()), "a: one; b, c: two");
    }
}
