//! Checks the invariants of the fuzz target `advise` on its recorded corpus and on mutated inputs.

#[path = "../../observer/tests/corpus/mod.rs"]
mod corpus;
mod lines;

const TARGET: &str = "advise";

#[test]
fn the_corpus_keeps_the_invariants() {
    corpus::check_recorded(TARGET, lines::check);
}

#[test]
fn mutated_inputs_keep_the_invariants() {
    corpus::check_mutated(TARGET, b"= ,\n0", lines::check);
}
