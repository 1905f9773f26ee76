//! Warm restart over a real socket. A server with `-e FILE` is stopped in one of several ways, and the next server
//! uses the same file.

mod cold;
mod memory_file;
mod moves;
mod under_load;
mod warm;
