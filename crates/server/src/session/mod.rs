//! Stand-in: get, set, version, quit, shutdown, line by line.
#![allow(clippy::all, clippy::too_many_lines)]
use crate::context::WorkerContext;
use crate::out::Out;
use slabwise_engine::{ItemMeta, Reservation, StoreMode};
use std::io::Write;

/// What a call of [`Session::consume`] came to.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// What the session wants next.
    pub next: Next,
}

/// What a session wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More input.
    Read,
    /// To be called again once the output has drained and others had a turn.
    Yield,
    /// The connection closed, once the output has drained.
    Close,
}

/// The dialogue on one connection.
#[derive(Default)]
pub struct Session<'e> {
    upload: Option<Reservation<'e>>,
}

impl<'e> Session<'e> {
    /// A fresh dialogue.
    pub fn new() -> Self {
        Session { upload: None }
    }

    /// Serves what is complete.
    pub fn consume(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Progress {
        let mut at = 0;
        loop {
            if let Some(upload) = &mut self.upload {
                at += upload.fill(&input[at..]);
                if upload.remaining() > 0 || input.len() - at < 2 {
                    return Progress { consumed: at, next: Next::Read };
                }
                at += 2;
                let upload = self.upload.take().unwrap();
                worker.handle.store(upload, StoreMode::Set, worker.now);
                out.bytes().extend_from_slice(b"STORED\r\n");
                continue;
            }
            if out.is_full() || worker.requests_left == 0 {
                return Progress { consumed: at, next: Next::Yield };
            }
            let Some(end) = input[at..].iter().position(|&b| b == b'\n') else {
                return Progress { consumed: at, next: Next::Read };
            };
            let line = String::from_utf8_lossy(input[at..at + end].trim_ascii_end()).into_owned();
            at += end + 1;
            worker.requests_left -= 1;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["get", key] => {
                    let pinned = worker.handle.get(key.as_bytes(), worker.now, |v| {
                        let _ = write!(out.bytes(), "VALUE {key} 0 {}\r\n", v.value_len());
                        if v.value_len() > 16384 {
                            v.pin()
                        } else {
                            v.copy_value(out.bytes());
                            None
                        }
                    });
                    if let Some(pinned) = pinned {
                        if let Some(pinned) = pinned {
                            out.push_pinned(pinned)
                        }
                        out.bytes().extend_from_slice(b"\r\n");
                    }
                    out.bytes().extend_from_slice(b"END\r\n");
                }
                ["set", key, _, _, len] => {
                    let len = len.parse().unwrap();
                    self.upload = Some(
                        worker
                            .handle
                            .reserve(key.as_bytes(), len, ItemMeta::default(), worker.now)
                            .unwrap(),
                    );
                }
                ["version"] => out.bytes().extend_from_slice(b"VERSION stub\r\n"),
                ["stats", "conns"] => {
                    worker.shared.roster.for_each(worker.now, |name, value| {
                        let _ = write!(out.bytes(), "STAT {name} {value}\r\n");
                    });
                    out.bytes().extend_from_slice(b"END\r\n");
                }
                ["stats", "settings"] => {
                    for (name, value) in worker.shared.settings.stats() {
                        let _ = write!(out.bytes(), "STAT {name} {value}\r\n");
                    }
                    out.bytes().extend_from_slice(b"END\r\n");
                }
                ["stats"] => {
                    use std::sync::atomic::Ordering::Relaxed;
                    let c = &worker.shared.counters;
                    let _ = write!(
                        out.bytes(),
                        "STAT curr_connections {}\r\nSTAT rejected_connections {}\r\nSTAT listen_disabled_num {}\r\nEND\r\n",
                        c.curr_connections.load(Relaxed),
                        c.rejected_connections.load(Relaxed),
                        c.listen_disabled_num.load(Relaxed)
                    );
                }
                ["shutdown"] => {
                    worker.shared.stop();
                    return Progress { consumed: at, next: Next::Close };
                }
                ["quit"] => return Progress { consumed: at, next: Next::Close },
                _ => out.bytes().extend_from_slice(b"ERROR\r\n"),
            }
        }
    }

    /// Where the rest of a value goes.
    pub fn upload_target(&mut self) -> Option<&mut [u8]> {
        let upload = self.upload.as_mut()?;
        if upload.remaining() == 0 { None } else { Some(upload.unfilled()) }
    }

    /// Notes bytes read into it.
    pub fn upload_advance(&mut self, count: usize) {
        self.upload.as_mut().unwrap().advance(count)
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.upload.is_none()
    }
}
