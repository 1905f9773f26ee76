//! Stand-in: the options that the sessions read.

/// Stand-in: the options that the sessions read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `-c`.
    pub connections_max: u32,
    /// `-o maxconns_fast`.
    pub maxconns_fast: bool,
    /// `-t`.
    pub threads: usize,
    /// `-o idle_timeout`.
    pub idle_timeout_seconds: Option<u32>,
    /// `-v`.
    pub verbosity: u8,
    /// `-A`.
    pub shutdown_enabled: bool,
    /// Not `-F`.
    pub flush_enabled: bool,
    /// Not `-X`.
    pub dump_enabled: bool,
    /// Not `-C`.
    pub cas_enabled: bool,
    /// `-D`.
    pub prefix_delimiter: char,
    /// `-D`.
    pub detail_enabled: bool,
    /// `-o track_sizes`.
    pub track_sizes: bool,
    /// `-o lru_crawler`.
    pub crawler_enabled: bool,
    /// `-o slab_reassign`.
    pub reassign_enabled: bool,
    /// Values that act nowhere but in `stats settings`.
    pub reported: Reported,
}

/// Stand-in.
#[derive(Clone, Debug)]
pub struct Reported {
    /// `-o slab_automove`.
    pub slab_automove: u32,
    /// `-o slab_automove_ratio`.
    pub slab_automove_ratio: f64,
    /// `-o slab_automove_window`.
    pub slab_automove_window: u32,
    /// `-o lru_crawler_sleep`.
    pub lru_crawler_sleep_us: u32,
    /// `-o lru_crawler_tocrawl`.
    pub lru_crawler_tocrawl: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            connections_max: 1024,
            maxconns_fast: true,
            threads: 4,
            idle_timeout_seconds: None,
            verbosity: 0,
            shutdown_enabled: false,
            flush_enabled: true,
            dump_enabled: true,
            cas_enabled: true,
            prefix_delimiter: ':',
            detail_enabled: false,
            track_sizes: false,
            crawler_enabled: true,
            reassign_enabled: true,
            reported: Reported {
                slab_automove: 1,
                slab_automove_ratio: 0.8,
                slab_automove_window: 30,
                lru_crawler_sleep_us: 100,
                lru_crawler_tocrawl: 0,
            },
        }
    }
}

impl Settings {
    /// The lines of `stats settings`, as the options set them.
    pub fn stats(&self) -> Vec<(&'static str, String)> {
        vec![
            ("maxconns", self.connections_max.to_string()),
            ("verbosity", self.verbosity.to_string()),
        ]
    }
}
