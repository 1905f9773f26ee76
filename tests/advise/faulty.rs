//! A server that answers like an almost idle memcached, except for one fault.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// This number of readings means that the server is gone.
const GONE: u64 = 1 << 40;

/// What the server does instead of a valid reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It sends half of the reply to `stats`, and closes the connection.
    CutStats,
    /// It answers `stats` with lines that are not of the protocol.
    GarbageStats,
    /// It does not answer `stats`.
    SilentStats,
    /// It answers `stats` with a line without an end.
    EndlessLine,
    /// It answers `watch` with an error.
    RefusedWatch,
    /// It sends lines to the watcher that are not of the protocol.
    GarbageWatch,
    /// It accepts `watch`, and sends no lines.
    SilentWatch,
    /// It closes the connection after `watch`.
    ClosedWatch,
    /// It sends a valid line to the watcher, and closes the connection.
    OneLine,
    /// It sends a valid line to the watcher, and closes all connections from then on.
    Gone,
}

/// A running server, which ends with the test.
pub struct Faulty {
    pub address: SocketAddr,
}

impl Faulty {
    pub fn start(fault: Fault) -> Faulty {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let readings = Arc::new(AtomicU64::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let readings = Arc::clone(&readings);
                std::thread::spawn(move || serve(stream, fault, &readings));
            }
        });
        Faulty { address }
    }
}

/// Answers one client until it closes the connection, or a fault closes it.
fn serve(mut stream: TcpStream, fault: Fault, readings: &AtomicU64) {
    let Ok(reader) = stream.try_clone() else { return };
    for line in BufReader::new(reader).lines() {
        let Ok(line) = line else { return };
        if readings.load(Ordering::Relaxed) >= GONE {
            return;
        }
        let valid = reply(&line, readings);
        let (is_stats, is_watch) = (line == "stats", line.starts_with("watch"));
        if fault == Fault::Gone && is_watch {
            readings.store(GONE, Ordering::Relaxed);
        }
        let (bytes, closes) = match fault {
            Fault::CutStats if is_stats => (valid[..valid.len() / 2].to_vec(), true),
            Fault::GarbageStats if is_stats => (b"\xff\0 garbage\r\nSTAT pid \r\n".to_vec(), false),
            Fault::EndlessLine if is_stats => (vec![b'x'; 1 << 16], false),
            Fault::SilentStats if is_stats => (vec![], false),
            Fault::RefusedWatch if is_watch => {
                (b"CLIENT_ERROR watch commands not allowed\r\n".to_vec(), false)
            }
            Fault::GarbageWatch if is_watch => {
                (b"OK\r\n\xff\xfe\0\r\nVALUE a 0 1\r\n".to_vec(), false)
            }
            Fault::OneLine | Fault::Gone if is_watch => (
                b"OK\r\nts=1764267000.71 gid=5 type=item_get key=k status=found clsid=3 cfd=27 size=100\r\n".to_vec(),
                true,
            ),
            Fault::ClosedWatch if is_watch => (b"OK\r\n".to_vec(), true),
            _ => (valid, false),
        };
        if stream.write_all(&bytes).is_err() || closes {
            return;
        }
    }
}

/// Returns a valid reply. The processor time increases with each reading, so that the server is watched.
fn reply(line: &str, readings: &AtomicU64) -> Vec<u8> {
    let text = match line {
        "version" => "VERSION 1.6.45\r\n".to_owned(),
        "stats" => {
            let reading = readings.fetch_add(1, Ordering::Relaxed);
            format!(
                "STAT pid 7\r\nSTAT uptime 50\r\nSTAT time 1050\r\nSTAT cmd_get {}\r\nSTAT get_misses {reading}\r\n\
                 STAT rusage_user {reading}.5\r\nSTAT rusage_system 0.5\r\nSTAT limit_maxbytes 8388608\r\n\
                 STAT curr_items 1\r\nSTAT log_worker_dropped 0\r\nSTAT log_worker_written 0\r\n\
                 STAT log_watcher_skipped 0\r\nEND\r\n",
                10 * reading
            )
        }
        "stats settings" => {
            "STAT maxbytes 8388608\r\nSTAT item_size_max 1048576\r\nSTAT chunk_size 48\r\nEND\r\n"
                .to_owned()
        }
        "stats slabs" | "stats items" => "END\r\n".to_owned(),
        _ if line.starts_with("watch") => "OK\r\n".to_owned(),
        _ => "ERROR\r\n".to_owned(),
    };
    text.into_bytes()
}
