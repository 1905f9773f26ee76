//! The driver: connects, reads, orders the moves that the steerer decides, and restores the settings at the end.
//!
//! ```text
//!   run --> session: connect, take over the automover, then again and again: read, decide, move, wait
//!    ^         |
//!    |         +-- the connection failed:     one log line; wait (backoff); a new session
//!    '---------+-- a signal, or a rival:      give the automover back; end
//!              '-- another error, or the first session failed: give the automover back if possible; end
//! ```
//!
//! Invariants: every call on the connection ends within the timeouts; no order is sent while another one is in progress;
//! the former mode of the automover is in the state file until it is restored.

use crate::args::Args;
use crate::curves::ColdHits;
use crate::dialogue::{Reply, reassign};
use crate::error::SteerError;
use crate::figures::Figures;
use crate::journal::Journal;
use crate::keeper::{GiveBack, Keeper, TakeOver};
use crate::metrics;
use crate::saved::{StateFile, default_path};
use crate::split::{Order, Split};
use crate::steerer::{Decision, Event, Limits, Round, Steerer};
use crate::waiting::Waiting;
use crate::wording::{describe, describe_effect, describe_end, describe_shift, saving};
use slabwise_client::{Connection, Connector};
use slabwise_observer::counters::Counters;
use slabwise_observer::settings::Settings;
use std::path::PathBuf;
use std::time::Duration;

/// The first wait after a failed connection. Each further failure doubles it.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// The longest wait after a failed connection.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The longest time that the server may take for a page move.
const MOVE_TIME_MAX: Duration = Duration::from_secs(10);
/// The shortest and the longest wait before asking whether a page has moved.
const POLL_WAITS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));
/// The number of times that an order is repeated while the server is busy.
const BUSY_TRIES_MAX: u32 = 6;
/// At the start, readings follow each other this many times faster.
const EAGER_DIVISOR: u32 = 4;

/// The end of a session without an error.
enum End {
    Signal,
    /// Somebody has switched the automover on, to this mode.
    AutomoverOn(u64),
    /// Somebody else has moved this number of pages.
    PagesMoved(u64),
}

/// The result of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The page has moved.
    Moved,
    /// The server has accepted the order, but the page has not moved in time, or a signal has arrived.
    Unfinished,
    /// The server moves no such page.
    Refused,
    /// The server has refused the order for a reason that this command does not know.
    RefusedOther,
    /// The server was busy for too long, or a signal has arrived.
    NotOrdered,
}

/// The driver of one server.
pub struct Driver<'a> {
    args: &'a Args,
    connector: Connector,
    journal: Journal,
    /// `None` in a dry run, which changes no mode and no file.
    keeper: Option<Keeper>,
    steerer: Steerer,
    figures: Figures,
    waiting: Waiting,
    has_steered: bool,
    /// The last round that was logged by a dry run.
    logged: Vec<(Order, &'static str)>,
}

/// Returns the path of the state file.
fn state_path(args: &Args) -> Result<PathBuf, SteerError> {
    let default = || default_path(&args.server.to_string()).ok_or(SteerError::NoStatePath);
    args.state.clone().map_or_else(default, Ok)
}

/// Returns the keeper of the server's settings.
pub fn keeper(args: &Args) -> Result<Keeper, SteerError> {
    Keeper::new(args.server.to_string(), StateFile::lock(&state_path(args)?)?)
}

impl<'a> Driver<'a> {
    /// Opens the log and the state file, and starts to answer requests for metrics.
    pub fn new(args: &'a Args) -> Result<Driver<'a>, SteerError> {
        let waiting = Waiting::start()?;
        let mut journal = Journal::open(args.log.as_deref())?;
        let keeper = if args.dry_run { None } else { Some(keeper(args)?) };
        let figures = Figures::new();
        if let Some(address) = &args.metrics {
            let address = metrics::start(address, figures.clone())?;
            journal.line(format_args!("metrics are at http://{address}/metrics"));
        }
        let limits = Limits { moves_per_minute: args.moves_per_minute, pages_min: args.pages_min };
        let mut steerer = Steerer::new(args.policy.clone(), ColdHits::default(), limits);
        if args.dry_run {
            steerer.tolerate_others();
        }
        Ok(Driver {
            args,
            connector: args.connector().map_err(SteerError::Security)?,
            journal,
            keeper,
            steerer,
            figures,
            waiting,
            has_steered: false,
            logged: Vec::new(),
        })
    }

    /// Steers until a signal arrives, another steerer is detected, or an error cannot be helped by a new connection.
    pub fn run(&mut self) -> Result<(), SteerError> {
        let mut backoff = BACKOFF_MIN;
        loop {
            let mut worked = false;
            let ended = self.session(&mut worked);
            self.figures.connected.set(0);
            match ended {
                Ok(end) => return self.end(end),
                // In the first session, a wrong address is an error of the operator, and waiting does not help.
                Err(error) if !error.is_of_connection() || !self.has_steered => {
                    return Err(match self.give_back() {
                        Ok(()) => error,
                        Err(not_restored) => {
                            self.journal.line(error);
                            not_restored
                        }
                    });
                }
                Err(error) => {
                    self.figures.failures.inc();
                    let server = &self.args.server;
                    self.journal.trouble(format_args!("lost {server}: {error}; connecting again"));
                }
            }
            backoff = if worked { BACKOFF_MIN } else { (backoff * 2).min(BACKOFF_MAX) };
            if self.waiting.wait(backoff) {
                return self.end(End::Signal);
            }
        }
    }

    /// Steers over one connection. `worked` becomes true after the first reading.
    fn session(&mut self, worked: &mut bool) -> Result<End, SteerError> {
        let mut connection = self.connector.open()?;
        loop {
            let settings = Settings::read(&mut connection)?;
            let mut counters = Counters::read(&mut connection)?;
            if !settings.can_reassign {
                return Err(SteerError::NoReassign);
            }
            if counters.has_storage {
                return Err(SteerError::Storage);
            }
            if let Some(end) = self.take_over(&mut connection, settings, &mut counters)? {
                return Ok(end);
            }
            self.figures.connected.set(1);
            let decision = self.steerer.observe(&counters, self.waiting.nanos());
            self.log_events();
            match decision {
                Decision::Wait => {}
                Decision::Rival(pages) => return Ok(End::PagesMoved(pages)),
                Decision::Move(round) if self.args.dry_run => self.log_plan(&round, &counters),
                Decision::Move(round) => self.carry_out(&mut connection, &round, &counters)?,
            }
            self.figures.show_split(&Split::of(&counters));
            if !*worked {
                self.journal.works(&self.args.server);
                *worked = true;
            }
            let divisor = if self.steerer.is_eager() { EAGER_DIVISOR } else { 1 };
            if self.waiting.wait(self.args.interval / divisor) {
                return Ok(End::Signal);
            }
        }
    }

    /// Switches the automover off if this process of the server has it on, and reads the counters again: pages may have moved
    /// until then.
    fn take_over(
        &mut self,
        connection: &mut Connection,
        mut settings: Settings,
        counters: &mut Counters,
    ) -> Result<Option<End>, SteerError> {
        let is_first = !std::mem::replace(&mut self.has_steered, true);
        let Some(keeper) = &mut self.keeper else {
            if is_first {
                self.journal.line("dry run: no page moves, no setting changes");
            }
            return Ok(None);
        };
        let has_restarted = keeper.has_restarted(counters.process);
        if has_restarted {
            // A slabwise that is upgraded keeps the connection, so the settings may be of the process before.
            settings = Settings::read(connection)?;
        }
        let found = keeper.take_over(connection, &settings, counters.process);
        // An error until then ends the command.
        self.has_steered = found.is_ok() || !is_first;
        let steering = format!(
            "steering {} ({}) with policy {}",
            self.args.server,
            settings.version,
            self.args.policy.name()
        );
        let found = found?;
        if is_first {
            let split = keeper.split();
            self.steerer.start_with(split, has_restarted);
        }
        match found {
            TakeOver::SwitchedOn(mode) => return Ok(Some(End::AutomoverOn(mode))),
            TakeOver::SwitchedOff(mode) => {
                self.journal.line(format_args!(
                    "{steering}: switched the automover off; its mode was {mode}"
                ));
                self.steerer.took_over(self.waiting.nanos());
                *counters = Counters::read(connection)?;
            }
            TakeOver::WasOff(mode) if is_first => self
                .journal
                .line(format_args!("{steering}: the automover is off; its former mode is {mode}")),
            TakeOver::WasOff(_) => {}
        }
        if is_first {
            self.log_limits(&settings, counters);
        }
        Ok(None)
    }

    /// Logs what the steerer cannot do on this server.
    fn log_limits(&mut self, settings: &Settings, counters: &Counters) {
        if !settings.is_segmented && self.args.policy.inputs().needs_profiles() {
            self.journal.line(
                "the LRU is not segmented, so the estimated curves are poor: use --policy tail_age, or start the \
                 server with -o lru_maintainer,lru_segmented",
            );
        }
        let largest = counters.classes.last().filter(|class| class.shown.used_chunks > class.items);
        if let Some(class) = largest {
            self.journal.line(format_args!(
                "items larger than {} bytes are chains of chunks of class {}: they are steered as one class",
                settings.chunk_size_max_bytes,
                class.shown.class.wire(),
            ));
        }
    }

    fn log_events(&mut self) {
        for event in self.steerer.take_events() {
            match event {
                Event::Restarted => {
                    self.figures.restarts.inc();
                    self.journal
                        .line("the server has restarted: moving pages to the last split again");
                }
                Event::GoalEnded(purpose, end) => {
                    self.journal.line(describe_end(purpose, end));
                }
                Event::Shifted(shift) => {
                    self.figures.shifts.inc();
                    self.journal.line(format_args!(
                        "the traffic has shifted, so pauses and holds end: {}",
                        describe_shift(shift)
                    ));
                }
                Event::Measured(effect) => {
                    self.figures.measured(effect);
                    self.journal.line(describe_effect(effect));
                }
            }
        }
    }

    /// Logs the round of a dry run, unless it is the last one again. The rate limit is that of orders.
    fn log_plan(&mut self, round: &Round, counters: &Counters) {
        self.steerer.report(round, counters, &[], round.moves.len(), self.waiting.nanos());
        if round.moves == self.logged {
            return;
        }
        self.logged.clone_from(&round.moves);
        let mut pages = Split::of(counters);
        for (order, reason) in &round.moves {
            let text = describe(*order, counters, &mut pages);
            self.journal.line(format_args!("would move {text}: {reason}{}", saving(round)));
        }
    }

    /// Orders the moves of a round, one after the other. Ends early if the server is busy, a move takes too long, the server
    /// gives an unknown reason for a refusal, or a signal has arrived. Repeats no order that was refused.
    fn carry_out(
        &mut self,
        connection: &mut Connection,
        round: &Round,
        counters: &Counters,
    ) -> Result<(), SteerError> {
        let mut pages = Split::of(counters);
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        let mut result = Ok(());
        for &(order, reason) in &round.moves {
            if refused.contains(&order) {
                continue;
            }
            let outcome = match self.order(connection, order) {
                Ok(outcome) => outcome,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            match outcome {
                Outcome::Moved | Outcome::Unfinished => {
                    accepted.push(order);
                    self.figures.moved(round.purpose);
                    let text = describe(order, counters, &mut pages);
                    self.journal.line(format_args!("moved {text}: {reason}{}", saving(round)));
                }
                Outcome::Refused | Outcome::RefusedOther => refused.push(order),
                Outcome::NotOrdered => {}
            }
            if !matches!(outcome, Outcome::Moved | Outcome::Refused) {
                break;
            }
        }
        self.steerer.report(round, counters, &accepted, refused.len(), self.waiting.nanos());
        if let Some(keeper) = &mut self.keeper {
            keeper.save_split(self.steerer.split())?;
        }
        result
    }

    /// Orders one move, and waits until the page has moved.
    fn order(&mut self, connection: &mut Connection, order: Order) -> Result<Outcome, SteerError> {
        let mut wait = POLL_WAITS.0;
        for _ in 0..BUSY_TRIES_MAX {
            // Another move may have ended while the server was busy.
            let moved_before = Counters::read_totals(connection)?.pages_moved;
            self.steerer.ordered(self.waiting.nanos());
            let reply = reassign(connection, order)?;
            if reply == Reply::Accepted {
                return self.await_move(connection, moved_before);
            }
            self.steerer.refused();
            self.figures.refused(reply.word());
            match reply {
                Reply::Disabled => return Err(SteerError::NoReassign),
                Reply::Busy => {}
                reply => {
                    let (victim, receiver) = (order.victim.wire(), order.receiver.wire());
                    self.journal.line(format_args!(
                        "the server refused to move a page from class {victim} to class {receiver}: {}",
                        reply.text(),
                    ));
                    let is_other = matches!(reply, Reply::Other(_));
                    return Ok(if is_other { Outcome::RefusedOther } else { Outcome::Refused });
                }
            }
            wait = (wait * 2).min(POLL_WAITS.1);
            if self.waiting.wait(wait) {
                break;
            }
        }
        Ok(Outcome::NotOrdered)
    }

    /// Waits until the server has moved the page.
    fn await_move(
        &mut self,
        connection: &mut Connection,
        moved_before: u64,
    ) -> Result<Outcome, SteerError> {
        let started = self.waiting.nanos();
        let mut wait = POLL_WAITS.0;
        loop {
            let totals = Counters::read_totals(connection)?;
            if totals.pages_moved > moved_before && !totals.is_moving {
                return Ok(Outcome::Moved);
            }
            let elapsed = Duration::from_nanos(self.waiting.nanos().saturating_sub(started));
            if elapsed >= MOVE_TIME_MAX || self.waiting.wait(wait) {
                return Ok(Outcome::Unfinished);
            }
            wait = (wait * 2).min(POLL_WAITS.1);
        }
    }

    /// Ends the command: restores the automover, unless somebody else has set its mode.
    fn end(&mut self, end: End) -> Result<(), SteerError> {
        match end {
            End::Signal => self.give_back(),
            End::AutomoverOn(mode) => {
                self.keeper.as_mut().map_or(Ok(()), Keeper::forget_mode)?;
                let reason = format!(
                    "somebody has switched the automover on (mode {mode}): stopped steering; start the command again \
                     to steer"
                );
                self.journal.line(&reason);
                Err(SteerError::Rival(reason))
            }
            End::PagesMoved(pages) => {
                let reason = format!(
                    "another steerer has moved {pages} pages: stopped steering; stop it, and start this command again. A \
                     slabwise without -o preset=memcached moves pages itself, and needs no steerer"
                );
                self.journal.line(&reason);
                self.give_back()?;
                Err(SteerError::Rival(reason))
            }
        }
    }

    /// Restores the former mode of the automover over a new connection.
    fn give_back(&mut self) -> Result<(), SteerError> {
        let Some(keeper) = self.keeper.as_mut().filter(|keeper| keeper.has_changed_mode()) else {
            return Ok(());
        };
        let text = give_back(&self.connector, keeper).map_err(|error| SteerError::NotRestored {
            server: self.args.server.to_string(),
            path: keeper.path().to_owned(),
            reason: error.to_string(),
        })?;
        self.journal.line(text);
        Ok(())
    }
}

/// Restores the former mode of the automover over a new connection. Returns what was done, for the log.
pub fn give_back(connector: &Connector, keeper: &mut Keeper) -> Result<String, SteerError> {
    let mut connection = connector.open()?;
    let settings = Settings::read(&mut connection)?;
    let process = Counters::read_totals(&mut connection)?.process;
    Ok(match keeper.give_back(&mut connection, &settings, process)? {
        GiveBack::Restored(mode) => format!("restored the automover: its mode is {mode}"),
        GiveBack::Nothing => "the automover needs no restoration".to_owned(),
        GiveBack::Restarted => {
            "the server has restarted: its automover has the mode of its options".to_owned()
        }
        GiveBack::ChangedByOthers(mode) => {
            format!("somebody has set the automover to mode {mode}: it was not changed")
        }
    })
}
