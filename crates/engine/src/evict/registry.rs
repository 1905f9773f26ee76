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

    /// Help on all kinds.
    pub const HELP: &str = {
        const TEXT: Text = Text::of_kinds("eviction policy. ", &EvictionKind::INFOS);
        TEXT.as_str()
    };

    /// True if the kind starts with memcached's segmented LRU, in one lane or several.
    pub const fn begins_segmented(self) -> bool {
        self.info().can_switch && !self.info().is_exact
    }
}

/// Longer help does not compile.
const LEN_MAX: usize = 1024;

/// A string that is built at compile time.
struct Text {
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl Text {
    /// Lists each kind's name and help. Adjacent kinds with the same help share it.
    const fn of_kinds(start: &str, kinds: &[&Info]) -> Text {
        let mut text = Text { bytes: [0; LEN_MAX], len: 0 }.with(start);
        let mut at = 0;
        while at < kinds.len() {
            let (kind, is_last) = (kinds[at], at + 1 == kinds.len());
            text = text.with(kind.name);
            text = if !is_last && is_same(kind.help, kinds[at + 1].help) {
                text.with(", ")
            } else {
                text.with(": ").with(kind.help).with(if is_last { "" } else { "; " })
            };
            at += 1;
        }
        text
    }

    const fn with(mut self, part: &str) -> Text {
        let (_, rest) = self.bytes.split_at_mut(self.len);
        rest.split_at_mut(part.len()).0.copy_from_slice(part.as_bytes());
        self.len += part.len();
        self
    }

    const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => panic!("a concatenation of UTF-8 is UTF-8"),
        }
    }
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b, mut at) = (a.as_bytes(), b.as_bytes(), 0);
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use super::{Info, Text};

    #[test]
    fn adjacent_kinds_with_the_same_help_share_it() {
        let kinds = [Info::new("a", "one"), Info::new("b", "two"), Info::new("c", "two")];
        let text = Text::of_kinds("start. ", &kinds.each_ref());
        assert_eq!(text.as_str(), "start. a: one; b, c: two");
    }
}
