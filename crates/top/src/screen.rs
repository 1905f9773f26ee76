//! The loop of the terminal view: it records updates, reads keys and draws.

use crate::args::Args;
use crate::keys::{Next, press};
use crate::poll::Pollers;
use crate::state::State;
use crate::view;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGINT, SIGTERM};
use slabwise_base::Clock;
use slabwise_client::Connector;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest time between the arrival of an update and its drawing.
const TICK: Duration = Duration::from_millis(100);

/// Shows the servers until the user quits or a signal arrives. Restores the terminal, also after an error or a panic.
pub fn run(args: &Args, servers: &[Connector]) -> io::Result<()> {
    let stopped = Arc::new(AtomicBool::new(false));
    // SIGHUP ends the process at once: the terminal is gone, and waiting for its events would not end.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    let pollers = Pollers::start(servers, args.interval)?;
    let state = State::new(servers.iter().map(|it| it.address.to_string()), args.interval);
    let result = ratatui::try_init().and_then(|terminal| show(terminal, state, &pollers, &stopped));
    ratatui::restore();
    result
}

fn show(
    mut terminal: DefaultTerminal,
    mut state: State,
    pollers: &Pollers,
    stopped: &AtomicBool,
) -> io::Result<()> {
    let clock = Clock::real();
    let interval_nanos = u64::try_from(state.interval.as_nanos()).unwrap_or(u64::MAX);
    let (mut changed, mut is_compared, mut next_comparison_nanos) = (true, true, 0);
    while !stopped.load(Ordering::Relaxed) {
        if changed {
            terminal.draw(|frame| view::draw(frame, &state))?;
            changed = false;
        }
        if event::poll(TICK)? {
            changed = true;
            let pressed = match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => press(&mut state, key),
                _ => Next::Continue,
            };
            if pressed == Next::Quit {
                return Ok(());
            }
        }
        while let Some(update) = pollers.next() {
            state.record(update);
            (changed, is_compared) = (true, false);
        }
        if !is_compared && clock.nanos() >= next_comparison_nanos {
            state.compare();
            (changed, is_compared) = (true, true);
            next_comparison_nanos = clock.nanos().saturating_add(interval_nanos);
        }
    }
    Ok(())
}
