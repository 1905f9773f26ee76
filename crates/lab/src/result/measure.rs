//! What is measured: names, units, and how a measure changes with the size of the run.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// It does not: a ratio, a time, a count for one page.
    Fixed,
    /// It grows with the run: the published figure is multiplied by the scale before it is compared.
    WithRun,
}

#[derive(Clone, Copy, Debug)]
pub struct Measure {
    pub name: &'static str,
    pub text: &'static str,
    pub unit: &'static str,
    pub scaling: Scaling,
}

/// Constants of type [`Measure`]: `ID: "name_in_files", "name for people", "unit", Fixed | WithRun;`.
macro_rules! measures {
    ($($id:ident: $name:literal, $text:literal, $unit:literal, $scaling:ident;)+) => {
        $(
            #[doc = $text]
            pub const $id: $crate::result::measure::Measure = $crate::result::measure::Measure {
                name: $name,
                text: $text,
                unit: $unit,
                scaling: $crate::result::measure::Scaling::$scaling,
            };
        )+
    };
}
pub(crate) use measures;
