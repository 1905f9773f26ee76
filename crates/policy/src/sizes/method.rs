//! The methods that compute a class table.

use std::str::FromStr;

/// A method that computes a class table from the sizes of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The table with the least loss, by dynamic programming ([`exact`](super::exact())).
    #[default]
    Exact,
    /// Hill climbing from the current table, as published ([`hill_climb`](super::hill_climb())). The number of classes
    /// stays.
    HillClimb,
}

impl Method {
    /// All methods, the default first.
    pub const ALL: [Method; 2] = [Method::Exact, Method::HillClimb];

    /// Returns the name of the method in options.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Exact => "exact",
            Method::HillClimb => "hill-climb",
        }
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Method, String> {
        let found = Method::ALL.into_iter().find(|method| method.name() == name);
        found.ok_or_else(|| format!("give {}", Method::ALL.map(Method::name).join(" or ")))
    }
}
