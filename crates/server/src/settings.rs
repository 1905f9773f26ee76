//! Stand-in: the options that the sessions read.

/// Stand-in: the options that the sessions read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `-c`.
    pub connections_max: u32,
    /// `-t`.
    pub threads: u32,
    /// `-o idle_timeout`, in seconds; 0 for none.
    pub idle_timeout_seconds: u32,
    /// Whether connections beyond the limit are turned away (the default) or wait.
    pub maxconns_fast: bool,
    /// `-v`, counted.
    pub verbosity: u32,
    /// Not `-C`.
    pub cas_enabled: bool,
    /// `-A`.
    pub shutdown_enabled: bool,
    /// Not `-F`.
    pub flush_enabled: bool,
    /// Not `-X`.
    pub dump_enabled: bool,
    /// Not `-o no_slab_reassign`.
    pub reassign_enabled: bool,
    /// Not `-o no_lru_crawler`.
    pub crawler_enabled: bool,
    /// `-o slab_automove`.
    pub automove_level: u32,
    /// `-o slab_automove_ratio`.
    pub automove_ratio: f64,
    /// `-o slab_automove_freeratio`.
    pub automove_free_ratio: f64,
    /// `-o slab_automove_window`.
    pub automove_window: u32,
    /// `-o lru_crawler_sleep`, in microseconds.
    pub crawler_sleep_us: u32,
    /// `-o lru_crawler_tocrawl`.
    pub crawler_tocrawl: u32,
    /// `-o track_sizes`.
    pub track_sizes: bool,
    /// `-D` without its statistics.
    pub prefix_delimiter: u8,
    /// `-D` was given.
    pub detail_enabled: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            connections_max: 1024,
            threads: 4,
            idle_timeout_seconds: 0,
            maxconns_fast: true,
            verbosity: 0,
            cas_enabled: true,
            shutdown_enabled: false,
            flush_enabled: true,
            dump_enabled: true,
            reassign_enabled: true,
            crawler_enabled: true,
            automove_level: 1,
            automove_ratio: 0.8,
            automove_free_ratio: 0.01,
            automove_window: 30,
            crawler_sleep_us: 100,
            crawler_tocrawl: 0,
            track_sizes: false,
            prefix_delimiter: b':',
            detail_enabled: false,
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
