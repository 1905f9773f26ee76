//! Tests of sessions without sockets. The expected replies are those of memcached 1.6.45, unless a test states a
//! difference.

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
