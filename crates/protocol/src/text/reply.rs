//! Every fixed answer of the protocol, end of line included.

/// Not a command.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// The end of a list.
pub const END: &[u8] = b"END\r\n";
/// An order was carried out.
pub const OK: &[u8] = b"OK\r\n";
/// An item was stored.
pub const STORED: &[u8] = b"STORED\r\n";
/// The condition of add, replace, append or prepend did not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// The item has another CAS value.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// There is no such item.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// An item was deleted.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// An item has a new lifetime.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// Counters are back at zero.
pub const RESET: &[u8] = b"RESET\r\n";

/// Too few words, a word that should be a number and is none, a key that is too long.
pub const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
/// A store with a cost, where costs are off.
pub const COST_WIRE_OFF: &[u8] =
    b"CLIENT_ERROR costs are not taken here: start the server with -o cost_wire\r\n";
/// delete's own.
pub const BAD_DELETE: &[u8] =
    b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
/// A value does not end where its length says.
pub const BAD_DATA: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// A lifetime is no number.
pub const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
/// incr or decr by something that is no number.
pub const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
/// incr or decr of something that is no number.
pub const NOT_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// The item is larger than any may be.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// Nothing could be evicted for the item.
pub const NO_MEMORY_STORING: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// The same for incr, decr and touch.
pub const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";

/// Something else than a login from a client that must log in.
pub const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
/// Nobody has that name with that password.
pub const AUTH_FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
/// A login longer than any.
pub const AUTH_TOKEN_TOO_LONG: &[u8] = b"CLIENT_ERROR auth token too long\r\n";
/// A login that does not end where its length says.
pub const AUTH_BAD_TERMINATION: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";
/// A login without a space between user and password.
pub const AUTH_BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";

/// A reply of more datagrams than can be numbered, or more than one client may hold.
pub const UDP_REPLY_TOO_LONG: &[u8] = b"SERVER_ERROR reply too long for UDP, ask by TCP\r\n";

/// `-F`.
pub const FLUSH_FORBIDDEN: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
/// Without `-A`.
pub const SHUTDOWN_FORBIDDEN: &[u8] = b"SERVER_ERROR: shutdown not enabled\r\n";
/// Neither `shutdown` nor `shutdown graceful`.
pub const SHUTDOWN_UNKNOWN: &[u8] = b"CLIENT_ERROR invalid shutdown mode\r\n";
/// refresh_certs without `-Z`.
pub const TLS_DISABLED: &[u8] = b"Error TLS not enabled\r\n";
/// `-W`.
pub const WATCH_FORBIDDEN: &[u8] = b"CLIENT_ERROR watch commands not allowed\r\n";
/// watch behind requests whose replies are not written yet.
pub const METADUMP_PIPELINED: &[u8] = b"ERROR cannot pipeline other commands before metadump\r\n";
/// The same.
pub const MGDUMP_PIPELINED: &[u8] = b"ERROR cannot pipeline other commands before mgdump\r\n";
/// The same.
pub const WATCH_PIPELINED: &[u8] = b"ERROR cannot pipeline other commands before watch\r\n";
/// As many watchers as there may be.
pub const WATCH_TOO_MANY: &[u8] = b"WATCHER_TOO_MANY log watcher limit reached\r\n";

/// cache_memlimit below 8 MiB.
pub const MEMORY_LIMIT_TOO_SMALL: &[u8] =
    b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
/// cache_memlimit with a number of bytes.
pub const MEMORY_LIMIT_IN_BYTES: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
/// cache_memlimit beyond what can be had.
pub const MEMORY_LIMIT_OUT_OF_BOUNDS: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";

/// Pages are not moved here.
pub const REASSIGN_FORBIDDEN: &[u8] = b"CLIENT_ERROR slab reassignment disabled\r\n";
/// A page is under way.
pub const REASSIGN_BUSY: &[u8] = b"BUSY currently processing reassign request\r\n";
/// There is no such class.
pub const REASSIGN_BAD_CLASS: &[u8] = b"BADCLASS invalid src or dst class id\r\n";
/// The class has no page to give.
pub const REASSIGN_NO_SPARE: &[u8] = b"NOSPARE source class has no spare pages\r\n";
/// From a class to itself.
pub const REASSIGN_SAME: &[u8] = b"SAME src and dst class are identical\r\n";
/// slabs automove window outside 3 to 1,800.
pub const BAD_WINDOW: &[u8] = b"CLIENT_ERROR automove window too low or too high\r\n";

/// lru tune with too little left for cold.
pub const LRU_PERCENT_TOO_HIGH: &[u8] = b"ERROR hot and warm pcts must not exceed 80\r\n";
/// lru tune with a factor that nothing could be below.
pub const LRU_FACTOR_TOO_LOW: &[u8] = b"ERROR hot/warm age factors must be greater than 0\r\n";

/// lru_crawler enable, twice.
pub const CRAWLER_ALREADY_ENABLED: &[u8] = b"ERROR failed to start lru crawler thread\r\n";
/// After lru_crawler disable.
pub const CRAWLER_DISABLED: &[u8] = b"CLIENT_ERROR lru crawler disabled\r\n";
/// One crawl at a time.
pub const CRAWLER_BUSY: &[u8] = b"BUSY currently processing crawler request\r\n";
/// A list of classes without any.
pub const CRAWLER_NOT_STARTED: &[u8] = b"NOTSTARTED no items to crawl\r\n";
/// There is no such class.
pub const CRAWLER_BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
/// A crawl that expires goes by classes.
pub const CRAWLER_BAD_HASH: &[u8] = b"ERROR an unknown error happened\r\n";
/// lru_crawler sleep over a second.
pub const CRAWLER_SLEEP_TOO_LONG: &[u8] = b"CLIENT_ERROR sleep must be one second or less\r\n";
/// `-X`.
pub const METADUMP_FORBIDDEN: &[u8] = b"ERROR metadump not allowed\r\n";
/// `-X`.
pub const MGDUMP_FORBIDDEN: &[u8] = b"ERROR key dump not allowed\r\n";
/// The end of an mgdump.
pub const MGDUMP_END: &[u8] = b"EN\r\n";

/// `-X`.
pub const DETAIL_FORBIDDEN: &[u8] = b"CLIENT_ERROR stats detail not allowed\r\n";
/// stats detail with another word.
pub const DETAIL_USAGE: &[u8] = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n";
/// `-X`.
pub const CACHEDUMP_FORBIDDEN: &[u8] = b"CLIENT_ERROR stats cachedump not allowed\r\n";
/// stats cachedump without its numbers.
pub const CACHEDUMP_USAGE: &[u8] = b"CLIENT_ERROR bad command line\r\n";
/// stats cachedump of a class that cannot be.
pub const CACHEDUMP_BAD_CLASS: &[u8] = b"CLIENT_ERROR Illegal slab id\r\n";
