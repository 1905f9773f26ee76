//! Tests of the sequence of trials.
