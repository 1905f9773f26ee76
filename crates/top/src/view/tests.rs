//! Screens of the example servers.

use super::draw;
use crate::examples;
use crate::state::{Focus, Mode, State};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 50);

fn state() -> State {
    let mut state = State::new([], Duration::from_secs(1));
    state.servers = examples::servers();
    state.compare();
    state
}

/// Returns the lines of the screen, without trailing spaces.
fn screen(state: &State, size: (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1))
        .expect("the backend of the test has no errors");
    let drawn = terminal.draw(|frame| draw(frame, state)).expect("drawing has no errors");
    let cells: Vec<&str> = drawn.buffer.content.iter().map(|cell| cell.symbol()).collect();
    let lines = cells.chunks(usize::from(size.0));
    lines.map(|line| line.concat().trim_end().to_owned()).collect()
}

/// Returns the line that contains a text. Panics if there is no such line.
fn line<'a>(screen: &'a [String], text: &str) -> &'a str {
    let line = screen.iter().find(|line| line.contains(text));
    line.unwrap_or_else(|| panic!("the screen contains {text:?}:\n{}", screen.join("\n")))
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_screen_has_servers_history_classes_predictions_and_plan() {
    for size in [SMALL, LARGE] {
        let screen = screen(&state(), size);
        assert!(screen[0].contains("3 servers, 1 down, every 1 s"), "{}", screen[0]);
        let expected = "127.0.0.1:21555 45.6k 75.0% 60.0M/64.0M 1234 12 123k 5.0 1.6.45";
        assert_eq!(words(&screen[2]), expected);
        assert!(screen[4].contains("127.0.0.1:1") && screen[4].contains("cannot connect: Conn"));
        line(&screen, "127.0.0.1:21555  slabwise, up 1h00m");
        line(&screen, "requests/s 45.6k, highest 45.6k");
        line(&screen, "hit ratio 75.0%, lowest 75.0%");
        let class = words(line(&screen, "  *2"));
        assert!(class.starts_with("*2 192 48 2000 3m20s 200 20 2.0 2"), "{class}");
        line(&screen, "33.0%");
        line(&screen, "predicted miss ratio");
        for percent in ["50%", "100%", "200%", "400%"] {
            line(&screen, percent);
        }
        line(&screen, "18.0%");
        line(&screen, "space_time planned 80 page moves");
        line(&screen, "q quit");
    }
}

#[test]
fn a_memcached_server_has_no_predictions_and_no_plan() {
    for size in [SMALL, LARGE] {
        let mut state = state();
        state.move_selection(1);
        let screen = screen(&state, size);
        line(&screen, "cache.example.org:11211  memcached");
        let text = screen.join("\n");
        assert!(!text.contains("predicted") && !text.contains("planned"), "{text}");
        line(&screen, "hit ratio -, lowest -");
    }
}

#[test]
fn a_server_that_is_down_has_its_reason() {
    for size in [SMALL, LARGE] {
        let mut state = state();
        state.move_selection(2);
        let screen = screen(&state, size);
        line(&screen, "127.0.0.1:1 cannot be read: cannot connect: Connection refused");
        line(&screen, "again every 1 s");
    }
}

#[test]
fn the_selected_class_is_visible() {
    let mut state = state();
    state.focus = Focus::Classes;
    state.move_selection(i64::MAX);
    let screen = screen(&state, SMALL);
    assert!(words(line(&screen, "3840")).starts_with("40 3840 10"), "{screen:?}");
}

#[test]
fn a_filter_and_the_order_are_shown() {
    let mut state = state();
    state.focus = Focus::Classes;
    state.mode = Mode::Filter;
    state.class_list.filter = "38".to_owned();
    state.sort_by_next_column();
    let screen = screen(&state, SMALL);
    line(&screen, "classes with \"38\" sorted by pages, largest first");
    line(&screen, "Show only classes with: 38_");
    let numbers: Vec<&str> = screen
        .iter()
        .skip_while(|line| !line.contains("free chunks"))
        .skip(1)
        .map_while(|line| line.split_whitespace().next()?.parse::<u64>().ok().map(|_| line.trim()))
        .collect();
    assert_eq!(numbers.len(), 3, "the classes 4, 38 and 40 have 38 in number or size: {screen:?}");
}

#[test]
fn a_filter_that_matches_nothing_leaves_empty_tables() {
    let mut state = state();
    state.class_list.filter = "x".to_owned();
    line(&screen(&state, SMALL), "No class matches the filter.");
    state.server_list.filter = "none".to_owned();
    line(&screen(&state, SMALL), "No server matches the filter.");
}

#[test]
fn a_pause_and_the_help_are_shown() {
    let mut state = state();
    state.toggle_pause();
    state.mode = Mode::Help;
    for size in [SMALL, LARGE] {
        let screen = screen(&state, size);
        line(&screen, " paused ");
        line(&screen, "pause or continue");
        line(&screen, "slabwise empties this class");
    }
}

#[test]
fn a_small_terminal_shows_the_necessary_size() {
    for size in [(79, 24), (80, 23), (30, 8)] {
        let text = screen(&state(), size).join(" ");
        assert!(words(&text).contains("needs at least 80 columns and 24 rows"), "{text}");
    }
    screen(&state(), (1, 1));
}

#[test]
fn many_servers_leave_space_for_the_classes() {
    let addresses = (0..100).map(|number| format!("10.0.0.{number}:11211"));
    let mut state = State::new(addresses, Duration::from_secs(1));
    let example = examples::servers().swap_remove(0);
    for server in &mut state.servers {
        server.state = example.state.clone();
    }
    state.move_selection(60);
    let screen = screen(&state, SMALL);
    line(&screen, "10.0.0.60:11211  slabwise");
    line(&screen, "10.0.0.60:11211  45.6k");
    line(&screen, "free chunks");
}
