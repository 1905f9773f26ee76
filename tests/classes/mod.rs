//! `slabwise classes --from-...` as a user runs it: real servers are looked at, and started with what it says.
//!
//! What it foretells is then counted: pages by `stats slabs`. Where memcached is not installed those tests say
//! so and end.

mod advice;
mod bad_input;
mod items;
mod real_servers;
