//! What memcached 1.6.18 answers, and what differs on purpose (said where it does).

mod admin;
mod flow;
mod items;
mod login;
mod stats;
mod watch;
