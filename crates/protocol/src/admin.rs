//! Parsed administrative commands and `stats`.
#![expect(
    missing_docs,
    reason = "a name without a comment is that of memcached's command or argument"
)]

use crate::words::{self, Exptime, WatchKinds};

/// An administrative command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admin<'a> {
    /// flush_all: expires all items, immediately or at the given time.
    FlushAll(Exptime),
    /// verbosity: sets the log level.
    Verbosity(u32),
    /// cache_memlimit: sets the memory limit in MiB.
    MemoryLimit(u32),
    /// shutdown: stops the server.
    Shutdown(ShutdownMode),
    /// slabs reassign: moves a page from the class `victim` to the class `receiver`. As a class number, -1 means any
    /// class, and 0 means the page pool.
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
    /// watch: makes the connection a watcher of these kinds of events. `None` if a word of the request is not the name
    /// of a kind.
    Watch(Option<WatchKinds>),
    /// A command of memcached's debug build, which memcached's own tests use.
    Debug(Debug<'a>),
}

/// The action of `slabs classes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes<'a> {
    /// Shows the current class table.
    Show,
    /// Sets the chunk sizes of the class table. The server then no longer learns the class table.
    Set(ChunkSizes<'a>),
    /// Makes the server learn the class table from the sizes of stored items.
    Learn,
}

/// Chunk sizes in bytes in the format of `-o slab_sizes`: numbers separated by `-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes<'a> {
    text: &'a [u8],
}

impl<'a> ChunkSizes<'a> {
    /// Parses numbers separated by `-`. Returns `None` if a part is not an unsigned 32-bit number.
    pub fn of_word(text: &'a [u8]) -> Option<ChunkSizes<'a>> {
        let sizes = ChunkSizes { text };
        sizes.parts().all(|part| words::exact_u32(part).is_some()).then_some(sizes)
    }

    /// Returns the parts of the text between the `-`.
    fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        self.text.split(|&byte| byte == b'-')
    }

    /// Returns the chunk sizes in bytes, in the order of the request.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.parts().filter_map(words::exact_u32)
    }
}

/// The commands `debugtime`, `debugitem`, `debugcheck`, `debugconfine` and `misbehave`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debug<'a> {
    /// Stops the server's clock.
    TimePause,
    /// Starts the stopped clock again.
    TimeResume,
    /// Advances the server's clock by this number of seconds.
    TimeMove(u32),
    /// Pins the item with this key.
    ItemHold(&'a [u8]),
    /// Unpins the item with this key. The key `reffed` means the item that the connection pinned last.
    ItemRelease(&'a [u8]),
    /// Checks all invariants of the cache.
    Check,
    /// Makes the server attempt to open a socket, which must fail after the server has dropped its privileges.
    Misbehave,
    /// Makes the server attempt an operation that its confinement may forbid. Only slabwise has this command.
    Attempt(Attempt<'a>),
}

/// An operation that `debugconfine` makes the server attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<'a> {
    /// Replaces the server by the program `/bin/true`.
    Execute,
    /// Starts the program `/bin/true` in a new process.
    Fork,
    /// Starts a thread.
    Thread,
    /// Makes a TCP socket.
    Socket,
    /// Makes the parent process the tracer of the server.
    Trace,
    /// Maps memory whose bytes can be executed.
    MapExecutable,
    /// Determines the working directory: a harmless system call that the server does not need.
    WorkingDirectory,
    /// Ends the server by SIGABRT, as a violated invariant does.
    Abort,
    /// Opens the file at this path for reading.
    Read(&'a [u8]),
    /// Makes a file at this path, and opens it for writing.
    Create(&'a [u8]),
    /// Removes the file at this path.
    Remove(&'a [u8]),
}

/// The mode of `shutdown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Stops the server immediately.
    Now,
    /// Stops the server such that the next start can reuse its memory file.
    Graceful,
    /// The argument is not a known mode.
    Unknown,
}

/// The setting that `slabs automove` changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Automove {
    /// The level: 0 moves no pages, 1 moves pages as the page policy decides, and 2 gives a page to every class that
    /// evicts.
    Level(u32),
    /// A limit for a class's tail age, as a fraction of the largest tail age of all classes. A class whose tail age is
    /// below this limit receives a page.
    Ratio(f64),
    /// The fraction of the memory that memcached's automover keeps free. slabwise shows the value in `stats settings`,
    /// and otherwise ignores it.
    FreeRatio(f64),
    /// The time over which tail ages are averaged, in seconds.
    Window(u32),
}

/// The setting that `lru` changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LruRequest {
    /// Sets the limits of the hot and warm queues.
    Tune {
        /// The maximum size of the hot queue, in percent of the memory of its class.
        hot_percent: u32,
        /// The maximum size of the warm queue, in percent of the memory of its class.
        warm_percent: u32,
        /// The age limit of the hot queue, as a factor of the cold queue's tail age.
        hot_age_factor: f64,
        /// The age limit of the warm queue, as a factor of the cold queue's tail age.
        warm_age_factor: f64,
    },
    Mode(LruMode),
    /// New items whose TTL is at most this number of seconds are put into the temporary queue. A negative number turns
    /// the temporary queue off.
    TemporaryTtl(i32),
}

/// The mode that `lru mode` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LruMode {
    /// A class has one queue.
    Flat,
    /// A class has a hot, a warm and a cold queue.
    Segmented,
}

/// The action of `lru_crawler`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crawler<'a> {
    Enable,
    Disable,
    /// Sets the pause between two steps of a crawl, in microseconds.
    Sleep(u32),
    /// Sets the number of unexpired items after which the crawl of a class ends. 0 means no limit.
    Tocrawl(u32),
    /// Starts a crawl. The text is `all`, `hash`, or a list of class numbers separated by commas.
    Crawl(CrawlKind, &'a [u8]),
}

/// The action of a crawl on each item that it visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlKind {
    /// Frees the item if it has expired.
    Expire,
    /// Sends a line with the item's key and metadata to the client.
    Metadump,
    /// Sends the item's key to the client as the line of a meta get.
    Mgdump,
}

/// The subject of a `stats` command: the statistics to return, or the action to take.
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
    /// The costs that hits saved, and the costs of items that were stored after misses. memcached has no such subject.
    Cost,
    /// The memory that clients use besides items, with its limits. memcached has no such subject.
    Memory,
    /// How often threads have taken the locks of the cache and waited for them. memcached has no such subject.
    Locks,
    /// The counts of the page mover and its last moves. memcached has no such subject.
    Moves,
    /// The miss-ratio curves of the classes. memcached has no such subject.
    Profile,
    /// The last plan of the page policy. memcached has no such subject.
    Plan,
    /// The current and the best class table. memcached has no such subject.
    SizesPlan,
    Detail(DetailMode),
    Reset,
    Cachedump {
        class_number: u32,
        /// The maximum number of keys to list. 0 means no limit.
        limit: u32,
    },
    /// An unknown subject.
    Unknown(&'a [u8]),
}

impl<'a> StatsRequest<'a> {
    /// Parses the name of a subject that is spelled alike in the text and binary protocols. Other names are unknown.
    pub(crate) fn of_name(name: &'a [u8]) -> StatsRequest<'a> {
        match name {
            b"" => StatsRequest::General,
            b"items" => StatsRequest::Items,
            b"slabs" => StatsRequest::Slabs,
            b"sizes" => StatsRequest::Sizes,
            b"cost" => StatsRequest::Cost,
            b"locks" => StatsRequest::Locks,
            b"memory" => StatsRequest::Memory,
            b"moves" => StatsRequest::Moves,
            b"profile" => StatsRequest::Profile,
            b"sizes_plan" => StatsRequest::SizesPlan,
            b"plan" => StatsRequest::Plan,
            other => StatsRequest::Unknown(other),
        }
    }
}

/// The action of `stats detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailMode {
    /// Starts counting commands by key prefix.
    On,
    /// Stops counting commands by key prefix.
    Off,
    /// Returns the counts of all key prefixes.
    Dump,
    /// The action is missing or unknown.
    Unknown,
}
