//! memcached's side of the demo: a real server, or an engine that is configured as memcached.
//!
//! ```text
//!   RealMemcached        a thread --replay--> memcached (a process)
//!                            '--counts at each sample--> sample() <--stats slabs-- memcached
//!   SimulatedMemcached   sample() --the requests up to the sample--> engine in virtual time
//! ```
//!
//! The thread waits at each sample until the demo takes its counts. The two servers of the demo therefore have the same
//! number of requests at each sample, even if one of them is slower.

use super::args::{Args, DemoError, Due, open};
use super::view::Sample;
use crate::trial::served::{Served, ServedSetup};
use crate::vtime::MoverName;
use crate::wire::Server;
use slabwise_base::Clock;
use slabwise_client::SlabClass;
use slabwise_engine::{Engine, EvictionKind};
use slabwise_replay::workload::{Request, Workload};
use slabwise_replay::{Report, Window, drive};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Virtual time of a visit of memcached's mover to a chunk. The value matters little, because memcached moves few
/// pages.
const VISIT_NS: f64 = 100.0;

/// memcached's side of the demo.
pub enum Memcached<'e> {
    Real(Box<RealMemcached>),
    Simulated(Box<SimulatedMemcached<'e>>),
}

impl Memcached<'_> {
    /// Takes a sample. Before the sample, a simulated memcached serves requests until it has served `requests`. A real
    /// one has served about as many.
    pub fn sample(&mut self, requests: u64) -> Result<Sample, DemoError> {
        match self {
            Memcached::Real(real) => real.sample(),
            Memcached::Simulated(simulated) => simulated.sample(requests),
        }
    }

    /// Waits until memcached has served all requests, and takes the last sample. `requests` is the number of all
    /// requests.
    pub fn last_sample(&mut self, requests: u64) -> Result<Sample, DemoError> {
        if let Memcached::Real(real) = self {
            real.finish()?;
        }
        self.sample(requests)
    }
}

/// Returns the first program with the name `memcached` in `$PATH`.
pub fn installed() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join("memcached"))
        .find(|path| path.is_file())
}

/// A memcached server, and the thread that replays the workload to it.
pub struct RealMemcached {
    server: Server,
    version: String,
    /// The counts of the replay; a disconnected channel before and after the replay.
    counts: Receiver<Window>,
    /// The last counts.
    last: Window,
    replay: Option<JoinHandle<Result<Report, DemoError>>>,
}

impl RealMemcached {
    /// Starts the server below a supervisor (see [`Server::start_supervised`]).
    pub fn start(
        program: &Path,
        memory_mib: u64,
        supervisor: &[&str],
    ) -> Result<RealMemcached, DemoError> {
        let command = [program.display().to_string()];
        let mut server = Server::start_supervised(&command, memory_mib, supervisor)?;
        let version = server.ask_line("version")?.replacen("VERSION ", "", 1);
        let (_, counts) = sync_channel(0);
        Ok(RealMemcached { server, version, counts, last: Window::default(), replay: None })
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// Starts the thread that replays the workload of the arguments.
    pub fn start_replay(&mut self, args: &Args, due: Due) {
        let (sender, counts) = sync_channel(0);
        let (address, args) = (self.server.address(), args.clone());
        self.counts = counts;
        self.replay = Some(std::thread::spawn(move || {
            let on_round = send_counts(sender, due);
            drive(&address, open(&args)?, &args.pace(), &Clock::real(), on_round)
        }));
    }

    fn sample(&mut self) -> Result<Sample, DemoError> {
        match self.counts.recv() {
            Ok(counts) => self.last = counts,
            Err(_) => self.finish()?,
        }
        let classes = bytes_of(&self.server.classes()?);
        Ok(Sample { classes, gets: self.last.gets, misses: self.last.misses })
    }

    /// Waits until the replay has ended.
    fn finish(&mut self) -> Result<(), DemoError> {
        while self.counts.recv().is_ok() {}
        let Some(replay) = self.replay.take() else { return Ok(()) };
        let replayed = replay.join().expect("the replay of memcached does not panic");
        let report = replayed.map_err(|error| format!("the replay to memcached: {error}"))?;
        let Report { requests, gets, misses, .. } = report;
        self.last = Window { requests, gets, misses, miss_ratio: 0.0 };
        Ok(())
    }
}

/// Returns a function for [`drive`] that sends the counts of the replay when a sample is due. The function fails if the
/// demo has ended.
fn send_counts(
    sender: SyncSender<Window>,
    mut due: Due,
) -> impl FnMut(&Window) -> Result<(), DemoError> {
    move |so_far| match due.is_due(so_far.requests) {
        true => Ok(sender.send(so_far.clone()).map_err(|_| "the demo has ended")?),
        false => Ok(()),
    }
}

/// Returns the chunk size, and the bytes of all pages, of each class.
pub fn bytes_of(classes: &[SlabClass]) -> Vec<(u64, u64)> {
    let bytes = |class: &SlabClass| (class.chunk_size_bytes, class.page_size_bytes * class.pages);
    classes.iter().map(bytes).collect()
}

/// An engine that is configured as memcached, and the requests that it has not yet served.
pub struct SimulatedMemcached<'e> {
    served: Served<'e>,
    requests: Workload,
    /// Number of requests that it has served.
    served_requests: u64,
}

/// Returns the configuration of a server that has memcached's pages, chunk sizes and mover.
fn setup() -> ServedSetup {
    ServedSetup {
        name: "memcached".to_owned(),
        is_memcached: true,
        policy: "automove".to_owned(),
        eviction: EvictionKind::Segmented,
        mover: MoverName::Stock,
        scale_min: 0.0,
    }
}

/// Creates the engine of a simulated memcached.
pub fn engine(args: &Args) -> Result<Engine, DemoError> {
    let config = setup().engine_config(args.memory << 20, args.seed);
    Ok(Engine::new(config).map_err(|error| format!("simulated memcached: {error}"))?)
}

impl<'e> SimulatedMemcached<'e> {
    /// Simulates memcached on an engine that [`engine`] has created.
    pub fn new(engine: &'e Engine, args: &Args) -> Result<SimulatedMemcached<'e>, DemoError> {
        let served = Served::new(&setup(), engine, (args.requests_per_second(), VISIT_NS))?;
        Ok(SimulatedMemcached { served, requests: open(args)?, served_requests: 0 })
    }

    fn sample(&mut self, requests: u64) -> Result<Sample, DemoError> {
        let missing = requests - self.served_requests;
        let next = self.requests.by_ref().take(missing as usize);
        self.served.serve(&next.collect::<Result<Vec<Request>, _>>()?);
        self.served_requests = requests;
        let classes = self.served.classes();
        let classes = classes.iter().filter(|class| class.class.is_some()).map(|class| {
            let page_bytes = class.chunk_size_bytes * class.chunks_per_page;
            (class.chunk_size_bytes as u64, page_bytes as u64 * class.pages)
        });
        let (gets, misses) = (self.served.gets, self.served.misses);
        Ok(Sample { classes: classes.collect(), gets, misses })
    }
}
