//! The eviction kinds that there are, a line each.

use super::gd_wheel::GdWheelConfig;
use super::help::Text;
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
        /// The order in which a class gives up its items.
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

        /// The order of one class; each call goes to its kind.
        #[derive(Debug)]
        pub enum ClassOrder {
            $(
                #[doc = concat!("See `evict/", stringify!($file), ".rs`.")]
                $kind(super::$file::$kind),
            )+
        }

        impl ClassOrder {
            /// The order of a class that holds nothing yet.
            pub fn new(kind: EvictionKind, _options: &EvictionOptions) -> ClassOrder {
                match kind {
                    $(EvictionKind::$kind => {
                        ClassOrder::$kind(super::$file::$kind::new($(&_options.$options),*))
                    })+
                }
            }
        }

        /// Calls a method of [`Order`] on the order of whatever kind.
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

// In the order in which help and statistics list them.
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
    const fn info(self) -> &'static Info {
        EvictionKind::INFOS[self as usize]
    }

    /// Its name in options and specifications.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<EvictionKind> {
        EvictionKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Help on all kinds.
    pub const HELP: &str = {
        const TEXT: Text = Text::of_kinds("what leaves first. ", &EvictionKind::INFOS);
        TEXT.as_str()
    };

    /// Whether costs of items change what leaves.
    pub const fn uses_costs(self) -> bool {
        self.info().uses_costs
    }

    /// Whether a class begins with one queue in exact order of use, which needs no maintainer.
    pub const fn is_exact(self) -> bool {
        self.info().is_exact
    }

    /// Whether a class begins with memcached's segmented LRU, in one lane or several.
    pub const fn begins_segmented(self) -> bool {
        self.info().can_switch && !self.info().is_exact
    }

    /// Whether [`Engine::set_segmented`](crate::Engine::set_segmented) may be called.
    pub const fn can_switch(self) -> bool {
        self.info().can_switch
    }

    /// Whether a hit may move its item, whether the order is exact or not.
    pub(crate) const fn acts_on_hits(self) -> bool {
        self.info().acts_on_hits
    }

    pub(crate) const fn stores_rank(self) -> bool {
        self.info().stores_rank
    }
}
