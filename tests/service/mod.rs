//! The server under a service manager: readiness, passed sockets, SIGHUP and the units in `deploy/systemd`. The tests play
//! the part of systemd: they run the command lines of the units, and pass the environment variables and descriptors that
//! sd_listen_fds(3) and sd_notify(3) describe.

mod conf_file;
mod manager;
mod notify;
mod sockets;
