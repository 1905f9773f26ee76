//! Replies of a server, as `slabwise steer` and `slabwise advise` read them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use slabwise_client::{Connection, LINE_LEN_MAX};
use slabwise_observer::counters::Counters;
use slabwise_observer::settings::Settings;
use std::io::{self, Cursor, Read, Write};

/// A peer that has already sent all its replies.
struct Replies<'a>(Cursor<&'a [u8]>);

impl Read for Replies<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Replies<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut connection = Connection::over(Replies(Cursor::new(bytes)), LINE_LEN_MAX);
    if let Ok(counters) = Counters::read(&mut connection) {
        assert!(counters.classes.iter().all(|class| class.shown.chunks_per_page > 0));
        counters.is_memory_full();
    }
    let mut connection = Connection::over(Replies(Cursor::new(bytes)), LINE_LEN_MAX);
    let _ = Settings::read(&mut connection);
});
