//! What memcached 1.6.45 answers, and what differs on purpose (said where it does).

mod admin;
mod binary;
mod costs;
mod flow;
mod items;
mod login;
mod measured_costs;
mod meta;
mod profile;
mod sizes_plan;
mod stats;
mod watch;
