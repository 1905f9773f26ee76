//! Administrative commands and `stats`.
#![expect(missing_docs, reason = "some names need no explanation")]

use crate::words::{self, Exptime, WatchKinds};

/// Administrative commands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admin<'a> {
    /// flush_all: expires all items, at once or at a time.
    FlushAll(Exptime),
    /// verbosity: sets the log level.
    Verbosity(u32),
    /// cache_memlimit: sets the memory limit in MiB.
    MemoryLimit(u32),
    Shutdown(ShutdownMode),
    /// slabs reassign: moves a page. -1 means any class, 0 the page pool.
    Reassign {
        victim: i32,
        receiver: i32,
    },
    Automove(Automove),
    Classes(Classes<'a>),
    Lru(LruRequest),
    Crawler(Crawler<'a>),
    /// refresh_certs: reloads the server's certificates and keys.
    RefreshCertificates,
    /// watch: makes the connection a watcher of these kinds of events; `None` if a word is not a kind.
    Watch(Option<WatchKinds>),
    /// Commands of memcached's debug build, for its own tests.
    Debug(Debug<'a>),
}

/// `slabs classes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes<'a> {
    /// Shows the current class table.
    Show,
    /// Sets the class table, and stops learning.
    Set(ChunkSizes<'a>),
    /// Starts to learn the class table.
    Learn,
}

/// Chunk sizes in bytes in the format of `-o slab_sizes`: numbers separated by `-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes<'a> {
    text: &'a [u8],
}

impl<'a> ChunkSizes<'a> {
    /// Parses a word; returns `None` if a part is not a number.
    pub fn of_word(text: &'a [u8]) -> Option<ChunkSizes<'a>> {
        let sizes = ChunkSizes { text };
        sizes.parts().all(|part| words::exact_u32(part).is_some()).then_some(sizes)
    }

    fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        self.text.split(|&byte| byte == b'-')
    }

    /// Returns the sizes, in the given order.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.parts().filter_map(words::exact_u32)
    }
}

/// `debugtime`, `debugitem`, `misbehave`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debug<'a> {
    /// Stops the clock.
    TimePause,
    TimeResume,
    /// Advances the clock by this number of seconds.
    TimeMove(u32),
    /// Pins the item of a key.
    ItemHold(&'a [u8]),
    /// Unpins the item of a key; the key `reffed` means the item pinned last.
    ItemRelease(&'a [u8]),
    /// Attempts an operation that a process without privileges must not be able to do.
    Misbehave,
}

/// `shutdown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    Now,
    Graceful,
    /// An unknown word.
    Unknown,
}

/// `slabs automove`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Automove {
    /// 0 off, 1 slow, 2 on every eviction.
    Level(u32),
    /// The ratio of tail ages below which a class receives a page.
    Ratio(f64),
    /// The fraction of memory that is kept free.
    FreeRatio(f64),
    /// The number of seconds over which ages are averaged.
    Window(u32),
}

/// `lru`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LruRequest {
    /// Sets the limits of the hot and warm queues.
    Tune {
        hot_percent: u32,
        warm_percent: u32,
        /// The age limit of the hot queue, as a factor of the cold queue's tail age.
        hot_age_factor: f64,
        /// The age limit of the warm queue, as a factor of the cold queue's tail age.
        warm_age_factor: f64,
    },
    Mode(LruMode),
    /// Items with at most this TTL in seconds go to the temp queue; a negative number turns that off.
    TemporaryTtl(i32),
}

/// `lru mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruMode {
    /// One queue.
    Flat,
    /// Hot, warm and cold.
    Segmented,
}

/// `lru_crawler`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crawler<'a> {
    Enable,
    Disable,
    /// The pause between steps, in microseconds.
    Sleep(u32),
    /// The maximum number of items per class that a crawl visits; 0 for all.
    Tocrawl(u32),
    /// Starts a crawl over `all`, `hash`, or a list of class numbers.
    Crawl(CrawlKind, &'a [u8]),
}

/// The action of a crawl for each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlKind {
    /// Frees it if it has expired.
    Expire,
    /// Lists its key and metadata.
    Metadump,
    /// Lists its key as a meta get.
    Mgdump,
}

/// `stats` and its subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsRequest<'a> {
    General,
    Settings,
    Items,
    Slabs,
    Sizes,
    SizesEnable,
    SizesDisable,
    Conns,
    Cost,
    Moves,
    Profile,
    Plan,
    SizesPlan,
    Detail(DetailMode),
    Reset,
    Cachedump {
        class_number: u32,
        /// The maximum number of keys to list; 0 for no limit.
        limit: u32,
    },
    /// An unknown subject.
    Unknown(&'a [u8]),
}

impl<'a> StatsRequest<'a> {
    /// Returns the subject of a name that is the same in the text and binary protocols.
    pub(crate) fn of_name(name: &'a [u8]) -> StatsRequest<'a> {
        match name {
            b"" => StatsRequest::General,
            b"items" => StatsRequest::Items,
            b"slabs" => StatsRequest::Slabs,
            b"sizes" => StatsRequest::Sizes,
            b"cost" => StatsRequest::Cost,
            b"moves" => StatsRequest::Moves,
            b"profile" => StatsRequest::Profile,
            b"sizes_plan" => StatsRequest::SizesPlan,
            b"plan" => StatsRequest::Plan,
            other => StatsRequest::Unknown(other),
        }
    }
}

/// `stats detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailMode {
    On,
    Off,
    Dump,
    /// Another word, or none.
    Unknown,
}
