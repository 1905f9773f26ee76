//! The violations that the program has found.

use std::collections::BTreeMap;

/// Violations by their text, each with its number.
#[derive(Debug, Default)]
pub struct Findings(BTreeMap<String, u64>);

impl Findings {
    /// The maximum number of different texts that are kept.
    const TEXTS_MAX: usize = 20;

    /// Adds a violation.
    pub fn add(&mut self, text: impl Into<String>) {
        let mut text = text.into();
        if self.0.len() >= Findings::TEXTS_MAX && !self.0.contains_key(&text) {
            text = "further violations".to_owned();
        }
        *self.0.entry(text).or_default() += 1;
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns one line for each text.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(text, count)| format!("violated, {count} times: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Findings;

    #[test]
    fn equal_violations_are_counted_and_different_ones_are_limited() {
        let mut findings = Findings::default();
        assert!(findings.is_empty());
        (0..3).for_each(|_| findings.add("closed"));
        assert_eq!(findings.lines().collect::<Vec<_>>(), ["violated, 3 times: closed"]);
        (0..100).for_each(|number| findings.add(format!("violation {number}")));
        assert_eq!(findings.lines().count(), Findings::TEXTS_MAX + 1);
        assert!(findings.lines().any(|line| line == "violated, 81 times: further violations"));
    }
}
