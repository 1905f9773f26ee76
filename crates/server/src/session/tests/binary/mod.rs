//! Sessions that use the binary protocol.

mod cuts;
mod flow;
mod items;
mod packet;
mod sasl;
mod watch;
