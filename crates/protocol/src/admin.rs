//! Orders to the server, and questions about it.
#![expect(missing_docs, reason = "some names say all that there is to say")]

use crate::words::{self, Exptime, WatchKinds};

/// Orders to the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admin<'a> {
    /// flush_all: everything stored until then is gone; at once unless a time is given.
    FlushAll(Exptime),
    /// verbosity: how much is logged.
    Verbosity(u32),
    /// cache_memlimit: the new limit in MiB.
    MemoryLimit(u32),
    Shutdown(ShutdownMode),
    /// slabs reassign: moves a page. -1 stands for any class, 0 for the pool of free pages.
    Reassign {
        victim: i32,
        receiver: i32,
    },
    Automove(Automove),
    Classes(Classes<'a>),
    Lru(LruRequest),
    Crawler(Crawler<'a>),
    /// refresh_certs: reads the server's certificate and key again.
    RefreshCertificates,
    /// watch: turns the connection into a watcher of these kinds of events; `None` if a word names
    /// no kind.
    Watch(Option<WatchKinds>),
    /// What memcached's own tests ask of a debug build.
    Debug(Debug<'a>),
}

/// `slabs classes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes<'a> {
    /// Shows the class table in force.
    Show,
    /// Puts this one in force, which then stays.
    Set(ChunkSizes<'a>),
    /// From here on the table is learned.
    Learn,
}

/// Chunk sizes in bytes, as `-o slab_sizes` takes them: numbers separated by `-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes<'a> {
    text: &'a [u8],
}

impl<'a> ChunkSizes<'a> {
    /// The sizes that a word gives; `None` where a part of it is no number.
    pub fn of_word(text: &'a [u8]) -> Option<ChunkSizes<'a>> {
        let sizes = ChunkSizes { text };
        sizes.parts().all(|part| words::exact_u32(part).is_some()).then_some(sizes)
    }

    fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        self.text.split(|&byte| byte == b'-')
    }

    /// Each size, in the order in which they were given.
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
    /// Moves it forward by so many seconds.
    TimeMove(u32),
    /// Holds the item of a key.
    ItemHold(&'a [u8]),
    /// Lets go of the item of a key; `reffed` is the one held last.
    ItemRelease(&'a [u8]),
    /// Tries what a server without privileges cannot do.
    Misbehave,
}

/// `shutdown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// At once.
    Now,
    /// After what is under way.
    Graceful,
    /// A word that means neither.
    Unknown,
}

/// `slabs automove`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Automove {
    /// 0 off, 1 slow, 2 on every eviction.
    Level(u32),
    /// How much younger a class's oldest item must be for it to receive a page.
    Ratio(f64),
    /// The share of memory that is kept free.
    FreeRatio(f64),
    /// Seconds over which ages are averaged.
    Window(u32),
}

/// `lru`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LruRequest {
    /// The limits of hot and warm.
    Tune {
        hot_percent: u32,
        warm_percent: u32,
        /// Hot's age limit, as a factor of the cold tail's age.
        hot_age_factor: f64,
        /// Warm's.
        warm_age_factor: f64,
    },
    /// One queue or several.
    Mode(LruMode),
    /// Items that live at most so many seconds are kept apart; never if negative.
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
    /// Allows crawls.
    Enable,
    /// Forbids them.
    Disable,
    /// Microseconds of rest between items.
    Sleep(u32),
    /// The most items of a queue that a crawl visits; 0 for all.
    Tocrawl(u32),
    /// Starts a crawl over `all`, `hash`, or a list of class numbers.
    Crawl(CrawlKind, &'a [u8]),
}

/// What a crawl does with each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlKind {
    /// Frees it if its time is over.
    Expire,
    /// Lists its key and metadata.
    Metadump,
    /// Lists its key as a meta get.
    Mgdump,
}

/// Questions about the server: `stats` and its subjects.
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
        /// The most keys to list; 0 for no limit.
        limit: u32,
    },
    /// Something that nobody counts.
    Unknown(&'a [u8]),
}

impl<'a> StatsRequest<'a> {
    /// What a name means in both protocols.
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
    /// A word that means none of these, or no word.
    Unknown,
}
