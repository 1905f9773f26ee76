//! The fixed replies of the protocol, including their line ends.
#![expect(missing_docs, reason = "the text of a reply is its explanation")]

pub const ERROR: &[u8] = b"ERROR\r\n";
pub const END: &[u8] = b"END\r\n";
pub const OK: &[u8] = b"OK\r\n";
pub const STORED: &[u8] = b"STORED\r\n";
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
pub const EXISTS: &[u8] = b"EXISTS\r\n";
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
pub const DELETED: &[u8] = b"DELETED\r\n";
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
pub const RESET: &[u8] = b"RESET\r\n";

pub const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
pub const COST_WIRE_OFF: &[u8] =
    b"CLIENT_ERROR costs are not taken here: start the server with -o cost_wire\r\n";
pub const BAD_DELETE: &[u8] =
    b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
pub const BAD_DATA: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
pub const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
pub const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
pub const NOT_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
pub const NO_MEMORY_STORING: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// The reply to an incr, decr or touch that finds no memory.
pub const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory\r\n";

pub const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
pub const AUTH_FAILED: &[u8] = b"CLIENT_ERROR authentication failure\r\n";
pub const AUTH_TOKEN_TOO_LONG: &[u8] = b"CLIENT_ERROR auth token too long\r\n";
pub const AUTH_BAD_TERMINATION: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";
pub const AUTH_BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";

// The server sends this error instead of a reply that is too long for the buffers of a UDP socket or needs more than
// 65,535 datagrams.
pub const UDP_REPLY_TOO_LONG: &[u8] = b"SERVER_ERROR reply too long for UDP, ask by TCP\r\n";

pub const FLUSH_FORBIDDEN: &[u8] = b"CLIENT_ERROR flush_all not allowed\r\n";
pub const SHUTDOWN_FORBIDDEN: &[u8] = b"SERVER_ERROR: shutdown not enabled\r\n";
pub const SHUTDOWN_UNKNOWN: &[u8] = b"CLIENT_ERROR invalid shutdown mode\r\n";
pub const TLS_DISABLED: &[u8] = b"Error TLS not enabled\r\n";
pub const WATCH_FORBIDDEN: &[u8] = b"CLIENT_ERROR watch commands not allowed\r\n";
// The server refuses `metadump`, `mgdump` and `watch` with one of the next three errors if it has not yet sent the
// replies to earlier requests of the client.
pub const METADUMP_PIPELINED: &[u8] = b"ERROR cannot pipeline other commands before metadump\r\n";
pub const MGDUMP_PIPELINED: &[u8] = b"ERROR cannot pipeline other commands before mgdump\r\n";
pub const WATCH_PIPELINED: &[u8] = b"ERROR cannot pipeline other commands before watch\r\n";
pub const WATCH_TOO_MANY: &[u8] = b"WATCHER_TOO_MANY log watcher limit reached\r\n";

pub const MEMORY_LIMIT_TOO_SMALL: &[u8] =
    b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
pub const MEMORY_LIMIT_IN_BYTES: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
pub const MEMORY_LIMIT_OUT_OF_BOUNDS: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";

pub const REASSIGN_FORBIDDEN: &[u8] = b"CLIENT_ERROR slab reassignment disabled\r\n";
pub const REASSIGN_BUSY: &[u8] = b"BUSY currently processing reassign request\r\n";
pub const REASSIGN_BAD_CLASS: &[u8] = b"BADCLASS invalid src or dst class id\r\n";
pub const REASSIGN_NO_SPARE: &[u8] = b"NOSPARE source class has no spare pages\r\n";
pub const REASSIGN_SAME: &[u8] = b"SAME src and dst class are identical\r\n";
pub const BAD_WINDOW: &[u8] = b"CLIENT_ERROR automove window too low or too high\r\n";

pub const LRU_PERCENT_TOO_HIGH: &[u8] = b"ERROR hot and warm pcts must not exceed 80\r\n";
pub const LRU_FACTOR_TOO_LOW: &[u8] = b"ERROR hot/warm age factors must be greater than 0\r\n";

pub const CRAWLER_ALREADY_ENABLED: &[u8] = b"ERROR failed to start lru crawler thread\r\n";
pub const CRAWLER_DISABLED: &[u8] = b"CLIENT_ERROR lru crawler disabled\r\n";
pub const CRAWLER_BUSY: &[u8] = b"BUSY currently processing crawler request\r\n";
pub const CRAWLER_NOT_STARTED: &[u8] = b"NOTSTARTED no items to crawl\r\n";
pub const CRAWLER_BAD_CLASS: &[u8] = b"BADCLASS invalid class id\r\n";
// The reply to `lru_crawler crawl hash`: only a dump can crawl the hash table.
pub const CRAWLER_BAD_HASH: &[u8] = b"ERROR an unknown error happened\r\n";
pub const CRAWLER_SLEEP_TOO_LONG: &[u8] = b"CLIENT_ERROR sleep must be one second or less\r\n";
pub const METADUMP_FORBIDDEN: &[u8] = b"ERROR metadump not allowed\r\n";
pub const MGDUMP_FORBIDDEN: &[u8] = b"ERROR key dump not allowed\r\n";
pub const MGDUMP_END: &[u8] = b"EN\r\n";

pub const DETAIL_FORBIDDEN: &[u8] = b"CLIENT_ERROR stats detail not allowed\r\n";
pub const DETAIL_USAGE: &[u8] = b"CLIENT_ERROR usage: stats detail on|off|dump\r\n";
pub const CACHEDUMP_FORBIDDEN: &[u8] = b"CLIENT_ERROR stats cachedump not allowed\r\n";
pub const CACHEDUMP_USAGE: &[u8] = b"CLIENT_ERROR bad command line\r\n";
pub const CACHEDUMP_BAD_CLASS: &[u8] = b"CLIENT_ERROR Illegal slab id\r\n";
