//! The `slabwise` command.
fn main() {}
