//! Warm restarts of server processes. A test stops a server with a memory file (`-e`) in one of several ways. Then it
//! starts another server with the same file. Other tests take the storage of the file away.

mod cold;
mod lost_file;
mod memory_file;
mod moves;
mod resize;
mod under_load;
mod warm;
