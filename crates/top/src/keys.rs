//! The keys: what each key changes in the state.

use crate::state::{Focus, Mode, PAGE_ROWS, State};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The keys and their effects, in the order of the help.
pub const KEYS: [(&str, &str); 10] = [
    ("q, Esc, Ctrl-C", "quit"),
    ("Up, Down, k, j", "select a row"),
    ("PgUp, PgDn", "select a row ten rows away"),
    ("Home, End, g, G", "select the first or the last row"),
    ("Tab", "change between servers and classes"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "show only rows that contain a text"),
    ("Space", "pause or continue"),
    ("?", "show or hide this help"),
];

/// Whether the command continues after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The command continues.
    Continue,
    /// The command ends.
    Quit,
}

/// Applies a pressed key to the state.
pub fn press(state: &mut State, key: KeyEvent) -> Next {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return if key.code == KeyCode::Char('c') { Next::Quit } else { Next::Continue };
    }
    match state.mode {
        Mode::Command => return command(state, key.code),
        Mode::Filter => edit_filter(state, key.code),
        Mode::Help => state.mode = Mode::Command,
    }
    Next::Continue
}

fn command(state: &mut State, code: KeyCode) -> Next {
    match code {
        KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
        KeyCode::Up | KeyCode::Char('k') => state.move_selection(-1),
        KeyCode::Down | KeyCode::Char('j') => state.move_selection(1),
        KeyCode::PageUp => state.move_selection(-PAGE_ROWS),
        KeyCode::PageDown => state.move_selection(PAGE_ROWS),
        KeyCode::Home | KeyCode::Char('g') => state.move_selection(i64::MIN),
        KeyCode::End | KeyCode::Char('G') => state.move_selection(i64::MAX),
        KeyCode::Tab | KeyCode::BackTab => {
            state.focus = match state.focus {
                Focus::Servers => Focus::Classes,
                Focus::Classes => Focus::Servers,
            }
        }
        KeyCode::Char('s') => state.sort_by_next_column(),
        KeyCode::Char('r') => {
            let list = state.focused_list();
            list.reversed = !list.reversed;
        }
        KeyCode::Char('/') => state.mode = Mode::Filter,
        KeyCode::Char(' ') => state.toggle_pause(),
        KeyCode::Char('?') => state.mode = Mode::Help,
        _ => {}
    }
    Next::Continue
}

/// Changes the filter of the focused table. Enter keeps the filter, and Esc removes it.
fn edit_filter(state: &mut State, code: KeyCode) {
    /// The maximum length of a filter in characters.
    const FILTER_LEN_MAX: usize = 40;
    let filter = &mut state.focused_list().filter;
    match code {
        KeyCode::Char(c) if filter.chars().count() < FILTER_LEN_MAX => filter.push(c),
        KeyCode::Backspace => {
            filter.pop();
        }
        KeyCode::Esc => {
            filter.clear();
            state.mode = Mode::Command;
        }
        KeyCode::Enter => state.mode = Mode::Command,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{Next, press};
    use crate::state::{Focus, Mode, State};
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use std::time::Duration;

    fn state() -> State {
        State::new(["a:1", "b:2", "c:3"].map(str::to_owned), Duration::from_secs(1))
    }

    fn press_all(state: &mut State, codes: &[KeyCode]) -> Next {
        let presses = codes.iter().map(|&code| press(state, code.into()));
        presses.last().expect("the test presses a key")
    }

    fn selected(state: &State) -> Option<&str> {
        state.selected_server().map(|server| server.address.as_str())
    }

    #[test]
    fn q_escape_and_control_c_quit() {
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut state(), code.into()), Next::Quit);
        }
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for mode in [Mode::Command, Mode::Filter, Mode::Help] {
            let mut state = state();
            state.mode = mode;
            assert_eq!(press(&mut state, control_c), Next::Quit);
        }
        assert_eq!(press(&mut state(), KeyCode::Char('c').into()), Next::Continue);
    }

    #[test]
    fn arrows_and_letters_select() {
        let mut state = state();
        press_all(&mut state, &[KeyCode::Down, KeyCode::Char('j'), KeyCode::Up]);
        assert_eq!(selected(&state), Some("b:2"));
        press_all(&mut state, &[KeyCode::End]);
        assert_eq!(selected(&state), Some("c:3"));
        press_all(&mut state, &[KeyCode::Home]);
        assert_eq!(selected(&state), Some("a:1"));
        press_all(&mut state, &[KeyCode::PageDown, KeyCode::Char('k')]);
        assert_eq!(selected(&state), Some("b:2"));
    }

    #[test]
    fn tab_changes_the_table_that_s_and_r_sort() {
        let mut state = state();
        press_all(&mut state, &[KeyCode::Tab, KeyCode::Char('s'), KeyCode::Char('r')]);
        assert_eq!(state.focus, Focus::Classes);
        assert_eq!((state.class_list.sort, state.class_list.reversed), (2, true));
        assert_eq!((state.server_list.sort, state.server_list.reversed), (0, false));
        press_all(&mut state, &[KeyCode::Tab]);
        assert_eq!(state.focus, Focus::Servers);
    }

    #[test]
    fn a_filter_contains_the_typed_characters() {
        let mut state = state();
        let keys = [KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Backspace, KeyCode::Char('c')];
        assert_eq!(press_all(&mut state, &keys), Next::Continue);
        press_all(&mut state, &[KeyCode::Enter]);
        assert_eq!((state.mode, selected(&state)), (Mode::Command, Some("c:3")));
        press_all(&mut state, &[KeyCode::Char('/'), KeyCode::Esc]);
        assert_eq!((state.mode, state.server_list.filter.as_str()), (Mode::Command, ""));
    }

    #[test]
    fn any_key_hides_the_help() {
        let mut state = state();
        press_all(&mut state, &[KeyCode::Char('?')]);
        assert_eq!(state.mode, Mode::Help);
        assert_eq!(press_all(&mut state, &[KeyCode::Char('q')]), Next::Continue);
        assert_eq!(state.mode, Mode::Command);
    }

    #[test]
    fn space_pauses() {
        let mut state = state();
        press_all(&mut state, &[KeyCode::Char(' ')]);
        assert!(state.is_paused());
        press_all(&mut state, &[KeyCode::Char(' ')]);
        assert!(!state.is_paused());
    }
}
