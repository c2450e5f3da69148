//! The terminal: reads keys, draws frames, and restores the terminal however the command ends.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame as Canvas};
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::follow;
use super::view::{self, View};
use crate::exit::CommandError;

/// The time between reads of the file.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);

/// Follows the file until the user quits.
pub(crate) fn run(path: &Path, view: View) -> Result<(), CommandError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        // Registration fails only for signals that cannot be caught.
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
    if !io::stdout().is_terminal() {
        // Keys would still come from the terminal, but the drawing would go to a pipe or file.
        let source = io::Error::other("standard output is not a terminal");
        return Err(CommandError::Terminal { source });
    }
    // ratatui's panic hook restores the terminal before the panic is reported.
    let mut terminal = ratatui::try_init().map_err(|source| {
        // Initialization may have changed part of the terminal's state. If that cannot be restored, it was not changed.
        let _ = ratatui::try_restore();
        CommandError::Terminal { source }
    })?;
    let outcome = follow_until(&mut terminal, path, view, &stop);
    ratatui::restore();
    outcome.map_err(|source| CommandError::Terminal { source })
}

fn follow_until(
    terminal: &mut DefaultTerminal,
    path: &Path,
    mut view: View,
    stop: &AtomicBool,
) -> io::Result<()> {
    // Relaxed: no data depends on the flag.
    while !stop.load(Ordering::Relaxed) {
        refresh(path, &mut view);
        terminal.draw(|canvas: &mut Canvas<'_>| view::draw(canvas.buffer_mut(), &view))?;
        if event::poll(REFRESH_INTERVAL)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && !handle_key(key, &mut view)
        {
            break;
        }
    }
    Ok(())
}

/// Reads the current frame.
fn refresh(path: &Path, view: &mut View) {
    match follow::read(path) {
        Ok(frame) => {
            view.notice = follow::notice(&frame, follow::now_ms());
            view.update(frame);
        }
        Err(error) => view.notice = Some(error.to_string()),
    }
}

/// Handles a key. Returns `false` if the user quits.
fn handle_key(key: KeyEvent, view: &mut View) -> bool {
    match key.code {
        // In raw mode Ctrl-C is a key and not a signal.
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('p') => view.is_paused = !view.is_paused,
        KeyCode::Char('s') => view.sort = view.sort.next(),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::view::Sort;
    use super::*;

    #[test]
    fn keys_pause_sort_and_quit() {
        let mut view = View::default();
        let press = |code, view: &mut View| handle_key(KeyEvent::from(code), view);
        assert!(press(KeyCode::Char('p'), &mut view) && view.is_paused);
        assert!(press(KeyCode::Char('p'), &mut view) && !view.is_paused);
        assert!(press(KeyCode::Char('s'), &mut view) && view.sort == Sort::Tasks);
        assert!(press(KeyCode::Char('c'), &mut view), "`c` without Ctrl");
        assert!(!press(KeyCode::Char('q'), &mut view));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!handle_key(interrupt, &mut view));
    }
}
