//! Warm restart over a real socket: a server with `-e FILE`, stopped in one of the ways there are, and
//! the next one on the same file.

mod cold;
mod memory_file;
mod moves;
mod under_load;
mod warm;
