//! A server that answers the commands of `slabwise steer` from a script: a cache with three classes, whose first class
//! has many hits in COLD and whose other classes have none. Tests change its state and its faults while it runs.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of a page, in bytes.
const PAGE_SIZE_BYTES: u64 = 1 << 20;
/// The gets that arrive between two readings, in each class.
const GETS_PER_READING: u64 = 40_000;

/// What the server does instead of a reply, to `stats` if not said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// It sends half of the reply and closes the connection.
    Cut,
    /// It carries out the next command that changes it, sends half of the reply, and closes the connection.
    CutChange,
    /// It sends lines that are not of the protocol.
    Garbage,
    /// It sends nothing.
    Silence,
    /// It sends a line without an end.
    EndlessLine,
}

/// A class of the server.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub chunk_size_bytes: u64,
    pub pages: u64,
    /// The hits of COLD between two readings.
    pub cold_hits: u64,
    /// The gets between two readings, and those that were counted until now.
    pub gets_per_reading: u64,
    pub gets: u64,
}

/// The state of the server.
#[derive(Debug)]
pub struct State {
    pub pid: u64,
    pub automove: u64,
    pub slab_reassign: bool,
    pub pages_moved: u64,
    pub classes: Vec<Class>,
    /// The number of readings of `stats` so far: the counts of requests are its multiples.
    pub readings: u64,
    /// The replies to the next orders of moves. When it is empty, orders are carried out.
    pub refusals: VecDeque<&'static str>,
    pub fault: Fault,
    /// The commands that change the server.
    pub changes: Vec<String>,
    /// A process that ends closes its connections. The number of processes that have ended.
    pub ended: u64,
    /// True if the server moves values to files.
    pub has_storage: bool,
    /// The replies to `stats` until an order is carried out; 0 if it is carried out at once.
    pub order_readings: u64,
    /// The move in progress: victim, receiver and the replies until it ends. The automover has ordered it if an order of the
    /// test has not.
    pub pending: Option<(usize, usize, u64)>,
    /// The number of orders that arrived while another one was in progress.
    pub overwritten: u64,
}

/// A running server, which ends with the test.
pub struct Fake {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Fake {
    pub fn start() -> Fake {
        let class = |chunk_size_bytes, pages, cold_hits| Class {
            chunk_size_bytes,
            pages,
            cold_hits,
            gets_per_reading: GETS_PER_READING,
            gets: 0,
        };
        let state = Arc::new(Mutex::new(State {
            pid: 100,
            automove: 1,
            slab_reassign: true,
            pages_moved: 5,
            classes: vec![class(1_000, 10, 900), class(2_000, 10, 0), class(4_000, 10, 0)],
            readings: 0,
            refusals: VecDeque::new(),
            fault: Fault::None,
            changes: Vec::new(),
            ended: 0,
            has_storage: false,
            order_readings: 0,
            pending: None,
            overwritten: 0,
        }));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Fake { address, state }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Restarts the server: another process with the automover on, and with this number of pages in each class.
    pub fn restart(&self, pages: [u64; 3]) {
        let mut state = self.state();
        (state.pid, state.automove, state.pages_moved, state.readings) = (state.pid + 1, 1, 0, 0);
        state.ended += 1;
        for (class, pages) in state.classes.iter_mut().zip(pages) {
            (class.pages, class.gets) = (pages, 0);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one client. Returns when the client closes the connection, or when a fault closes it.
fn serve(mut stream: TcpStream, shared: &Mutex<State>) {
    let Ok(reader) = stream.try_clone() else { return };
    let ended = lock(shared).ended;
    for line in BufReader::new(reader).lines() {
        let Ok(line) = line else { return };
        let mut state = lock(shared);
        // A process that has ended answers nothing.
        if state.ended != ended {
            return;
        }
        let reply = state.answer(&line);
        let fault = match state.fault {
            Fault::CutChange if line.starts_with("slabs ") => {
                state.fault = Fault::None;
                Fault::Cut
            }
            Fault::CutChange => Fault::None,
            fault if line == "stats" => fault,
            _ => Fault::None,
        };
        drop(state);
        let sent = match fault {
            Fault::None | Fault::CutChange => stream.write_all(reply.as_bytes()),
            Fault::Cut => {
                let _ = stream.write_all(&reply.as_bytes()[..reply.len() / 2]);
                return;
            }
            Fault::Garbage => stream.write_all(b"\xff\0 garbage\r\nSTAT pid \r\n\r\n"),
            Fault::EndlessLine => stream.write_all(&[b'x'; 1 << 16]),
            Fault::Silence => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}

impl State {
    fn answer(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["version"] => "VERSION 1.6.45\r\n".to_owned(),
            ["stats"] => self.general(),
            ["stats", "settings"] => self.settings(),
            ["stats", "slabs"] => self.slabs(),
            ["stats", "items"] => self.items(),
            ["slabs", "automove", mode] => {
                self.changes.push(line.to_owned());
                self.automove = mode.parse().expect("the mode is a number");
                "OK\r\n".to_owned()
            }
            ["slabs", "reassign", victim, receiver] => {
                self.changes.push(line.to_owned());
                let index = |word: &str| word.parse::<usize>().expect("a class is a number") - 1;
                let reply = self.refusals.pop_front();
                self.overwritten += u64::from(self.pending.is_some());
                if reply.is_some_and(|reply| reply.starts_with("BUSY")) {
                    // The move that made the server busy ends.
                    self.pages_moved += 1;
                }
                match self.order_readings {
                    _ if reply.is_some() => {}
                    0 => self.move_page(index(victim), index(receiver)),
                    readings => self.pending = Some((index(victim), index(receiver), readings)),
                }
                format!("{}\r\n", reply.unwrap_or("OK"))
            }
            _ => "ERROR\r\n".to_owned(),
        }
    }

    pub fn move_page(&mut self, victim: usize, receiver: usize) {
        self.classes[victim].pages -= 1;
        self.classes[receiver].pages += 1;
        self.pages_moved += 1;
    }

    fn general(&mut self) -> String {
        self.readings += 1;
        self.pending = match self.pending {
            Some((victim, receiver, 0)) => {
                self.move_page(victim, receiver);
                None
            }
            pending => pending.map(|(victim, receiver, left)| (victim, receiver, left - 1)),
        };
        self.classes.iter_mut().for_each(|class| class.gets += class.gets_per_reading);
        let gets: u64 = self.classes.iter().map(|class| class.gets).sum();
        let (pid, moved, misses) = (self.pid, self.pages_moved, gets / 10);
        let limit = self.pages() * PAGE_SIZE_BYTES;
        // The mover begins some time after it was ordered.
        let has_begun = |left| self.order_readings == 0 || left + 1 < self.order_readings;
        let running = u8::from(self.pending.is_some_and(|(_, _, left)| has_begun(left)));
        let storage = if self.has_storage { "STAT extstore_page_allocs 3\r\n" } else { "" };
        format!(
            "STAT pid {pid}\r\nSTAT uptime 50\r\nSTAT time 1050\r\nSTAT cmd_get {gets}\r\nSTAT get_misses {misses}\r\n\
             STAT limit_maxbytes {limit}\r\nSTAT slab_reassign_running {running}\r\nSTAT slabs_moved {moved}\r\n\
             {storage}STAT slab_global_page_pool 0\r\nEND\r\n"
        )
    }

    fn pages(&self) -> u64 {
        self.classes.iter().map(|class| class.pages).sum()
    }

    fn settings(&self) -> String {
        let reassign = if self.slab_reassign { "yes" } else { "no" };
        format!(
            "STAT maxbytes {}\r\nSTAT slab_reassign {reassign}\r\nSTAT slab_automove {}\r\n\
             STAT lru_segmented yes\r\nSTAT slab_chunk_max 524288\r\nEND\r\n",
            self.pages() * PAGE_SIZE_BYTES,
            self.automove,
        )
    }

    fn slabs(&self) -> String {
        let mut text = String::new();
        for (index, class) in self.classes.iter().enumerate() {
            let (number, per_page) = (index + 1, PAGE_SIZE_BYTES / class.chunk_size_bytes);
            let rows = [
                ("chunk_size", class.chunk_size_bytes),
                ("chunks_per_page", per_page),
                ("total_pages", class.pages),
                ("used_chunks", class.pages * per_page),
                ("free_chunks", 0),
                ("get_hits", class.gets / 10 * 9),
                ("cmd_set", class.gets / 10),
            ];
            for (name, value) in rows {
                let _ = write!(text, "STAT {number}:{name} {value}\r\n");
            }
        }
        let _ = write!(text, "STAT total_malloced {}\r\nEND\r\n", self.pages() * PAGE_SIZE_BYTES);
        text
    }

    fn items(&self) -> String {
        let (mut text, readings) = (String::new(), self.readings);
        for (index, class) in self.classes.iter().enumerate() {
            let items = class.pages * (PAGE_SIZE_BYTES / class.chunk_size_bytes);
            let rows = [
                ("number", items),
                ("number_cold", items / 2),
                ("age", 5),
                ("evicted", class.gets / 10),
                ("outofmemory", 0),
                ("hits_to_cold", readings * class.cold_hits),
            ];
            for (name, value) in rows {
                let _ = write!(text, "STAT items:{}:{name} {value}\r\n", index + 1);
            }
        }
        text + "END\r\n"
    }
}
