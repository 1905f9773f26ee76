//! Checks the invariants of the fuzz target `watch` on its recorded corpus and on mutated inputs.

mod corpus;
mod lines;

const TARGET: &str = "watch";

#[test]
fn the_corpus_keeps_the_invariants() {
    corpus::check_recorded(TARGET, lines::check);
}

#[test]
fn mutated_inputs_keep_the_invariants() {
    corpus::check_mutated(TARGET, b"= \n%0", lines::check);
}
