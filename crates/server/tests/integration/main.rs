//! The server as a process: options, connections, background work and shutdown.

mod background;
mod connections;
mod limits;
mod passwords;
mod process;
mod sizes;
mod support;
mod udp;
mod watch;

#[test]
fn serves_when_it_is_the_child() {
    support::run_as_child();
}
