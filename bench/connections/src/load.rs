//! The clients, driven by one thread.
//!
//! ```text
//!   due (a heap of times) --begin--> active client --event: reply--> latency, next time --> due
//!   events of idle clients: only replies that their commands permit
//! ```
//!
//! The latency of a request is the time from sending it to the last byte of its reply.

use crate::active::{Active, Answer, Pattern};
use crate::findings::Findings;
use crate::idle::{Idle, State};
use crate::link::Target;
use hdrhistogram::Histogram;
use mio::{Events, Poll, Token};
use slabwise_base::{Clock, Random};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// The time in which every outstanding reply must arrive at the end, in nanoseconds.
const LAST_REPLIES_NANOS: u64 = 60_000_000_000;
/// The longest latency that is recorded, in nanoseconds.
const LATENCY_NANOS_MAX: u64 = 600_000_000_000;

/// A client; `None` in its place means that its connection has ended.
enum Client {
    Idle(Idle),
    Active(Active),
}

/// The clients of one server.
pub struct Load {
    target: Target,
    clock: Clock,
    poll: Poll,
    events: Events,
    clients: Vec<Option<Client>>,
    /// The time at which an active client sends its next request, in nanoseconds of the clock, and the client.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    pattern: Pattern,
    random: Random,
    pause_nanos: u64,
    /// The bytes of one read call.
    buffer: Vec<u8>,
    /// The results since the last call of [`Load::take_results`].
    results: Results,
    pub findings: Findings,
}

/// The replies to requests of active clients.
pub struct Results {
    /// Latencies in nanoseconds.
    pub latencies: Histogram<u64>,
    pub hits: u64,
    pub misses: u64,
    pub stores: u64,
}

impl Default for Results {
    fn default() -> Results {
        let latencies = Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3);
        let latencies = latencies.expect("the bounds and the number of digits are valid constants");
        Results { latencies, hits: 0, misses: 0, stores: 0 }
    }
}

impl Results {
    /// Adds other results.
    pub fn add(&mut self, other: &Results) {
        self.latencies += &other.latencies;
        self.hits += other.hits;
        self.misses += other.misses;
        self.stores += other.stores;
    }

    fn record(&mut self, answer: Answer, latency_nanos: u64) {
        self.latencies.saturating_record(latency_nanos);
        *match answer {
            Answer::Hit => &mut self.hits,
            Answer::Miss => &mut self.misses,
            Answer::Stored => &mut self.stores,
        } += 1;
    }
}

impl Load {
    /// Makes a load without clients. `pause` is the mean pause of an active client.
    pub fn new(target: Target, pause: Duration, seed: u64) -> io::Result<Load> {
        let mut random = Random::new(seed);
        Ok(Load {
            target,
            clock: Clock::real(),
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            clients: Vec::new(),
            due: BinaryHeap::new(),
            pattern: Pattern::new(&mut random),
            random,
            pause_nanos: pause.as_nanos() as u64,
            buffer: Vec::new(),
            results: Results::default(),
            findings: Findings::default(),
        })
    }

    /// Opens idle connections, each of which begins a command or sends nothing.
    pub fn open_idle(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let number = self.clients.len();
            let link = self.target.open(self.poll.registry(), Token(number));
            let link = link.map_err(|error| format!("connection {number}: {error}"))?;
            match Idle::begin(link, number) {
                Ok(idle) => self.clients.push(Some(Client::Idle(idle))),
                Err(reason) => {
                    self.findings.add(reason);
                    self.clients.push(None);
                }
            }
        }
        Ok(())
    }

    /// Opens active connections. Their first requests are due within twice the mean pause.
    pub fn open_active(&mut self, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let number = self.clients.len();
            let link = self.target.open(self.poll.registry(), Token(number));
            let link = link.map_err(|error| format!("connection {number}: {error}"))?;
            let active = Active::new(link, number, self.random.next_u64());
            self.clients.push(Some(Client::Active(active)));
        }
        let from = self.clients.len() - count;
        let now_nanos = self.clock.nanos();
        (from..self.clients.len()).for_each(|index| self.schedule(index, now_nanos));
        Ok(())
    }

    /// Returns the number of open connections.
    pub fn open_count(&self) -> usize {
        self.clients.iter().flatten().count()
    }

    /// Returns the results since the last call.
    pub fn take_results(&mut self) -> Results {
        std::mem::take(&mut self.results)
    }

    /// Lets the clients work for this time.
    pub fn run(&mut self, duration: Duration) -> io::Result<()> {
        let end_nanos = self.clock.nanos() + duration.as_nanos() as u64;
        loop {
            let now_nanos = self.clock.nanos();
            if now_nanos >= end_nanos {
                return Ok(());
            }
            self.begin_due(now_nanos);
            let next_nanos = self.due.peek().map_or(end_nanos, |Reverse((due, _))| *due);
            self.serve_events(next_nanos.min(end_nanos), true)?;
        }
    }

    /// Waits for the replies to all requests, lets the idle clients complete their commands, and waits for their
    /// replies. Returns the number of idle clients whose replies are right.
    pub fn finish(&mut self) -> io::Result<usize> {
        self.due.clear();
        for client in &mut self.clients {
            if let Some(Client::Idle(idle)) = client
                && let Err(reason) = idle.complete()
            {
                self.findings.add(reason);
                *client = None;
            }
        }
        let end_nanos = self.clock.nanos() + LAST_REPLIES_NANOS;
        let mut complete = 0;
        loop {
            let waiting = self.clients.iter().flatten().any(|client| match client {
                Client::Idle(_) => true,
                Client::Active(active) => active.is_waiting(),
            });
            let now_nanos = self.clock.nanos();
            if !waiting || now_nanos >= end_nanos {
                break;
            }
            complete += self.serve_events(end_nanos.min(now_nanos + 1_000_000_000), false)?;
        }
        for client in self.clients.iter().flatten() {
            match client {
                Client::Idle(_) => self.findings.add("no reply to the command of an idle client"),
                Client::Active(active) if active.is_waiting() => {
                    self.findings.add("no reply to the request of an active client");
                }
                Client::Active(_) => {}
            }
        }
        Ok(complete)
    }

    /// Starts the requests that are due.
    fn begin_due(&mut self, now_nanos: u64) {
        while let Some(&Reverse((due_nanos, index))) = self.due.peek() {
            if due_nanos > now_nanos {
                return;
            }
            self.due.pop();
            if let Some(Client::Active(active)) = &mut self.clients[index]
                && let Err(reason) = active.begin(&self.pattern, self.clock.nanos())
            {
                self.findings.add(reason);
                self.clients[index] = None;
            }
        }
    }

    /// Waits for events until this time at the latest, and serves them. `goes_on` is true if active clients send further
    /// requests. Returns the number of idle clients whose commands are complete, and closes their connections.
    fn serve_events(&mut self, until_nanos: u64, goes_on: bool) -> io::Result<usize> {
        let timeout = Duration::from_nanos(until_nanos.saturating_sub(self.clock.nanos()));
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(0),
            other => other?,
        }
        let ready: Vec<usize> = self.events.iter().map(|event| event.token().0).collect();
        let mut complete = 0;
        for index in ready {
            let outcome = match &mut self.clients[index] {
                None => continue,
                Some(Client::Idle(idle)) => match idle.progress(&mut self.buffer) {
                    Ok(State::Waiting) => Ok(()),
                    Ok(State::Complete) => {
                        complete += 1;
                        self.clients[index] = None;
                        Ok(())
                    }
                    Err(reason) => Err(reason),
                },
                Some(Client::Active(active)) => {
                    match active.progress(&self.pattern, &mut self.buffer) {
                        Ok(None) => Ok(()),
                        Ok(Some((answer, sent_nanos))) => {
                            let now_nanos = self.clock.nanos();
                            self.results.record(answer, now_nanos.saturating_sub(sent_nanos));
                            if goes_on {
                                self.schedule(index, now_nanos);
                            }
                            Ok(())
                        }
                        Err(reason) => Err(reason),
                    }
                }
            };
            if let Err(reason) = outcome {
                self.findings.add(reason);
                self.clients[index] = None;
            }
        }
        Ok(complete)
    }

    /// Sets the time of the next request of an active client.
    fn schedule(&mut self, index: usize, now_nanos: u64) {
        if let Some(Client::Active(active)) = &mut self.clients[index] {
            let due_nanos = now_nanos + active.pause_nanos(self.pause_nanos);
            self.due.push(Reverse((due_nanos, index)));
        }
    }
}
