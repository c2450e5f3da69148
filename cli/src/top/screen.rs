//! The terminal: keys in, frames out, and as it was before in the end, however that comes about.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame as Canvas};
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::follow;
use super::view::{self, Shown};
use crate::exit::CommandError;

/// How long a key is waited for before the file is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Follows the file until somebody has seen enough.
pub(crate) fn run(path: &Path, shown: Shown) -> Result<(), CommandError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        // Refused for signals that cannot be caught only.
        let _ = signal_hook::flag::register(signal, stop.clone());
    }
    if !io::stdout().is_terminal() {
        // Keys would come from the terminal all the same, and what is drawn would go who knows where.
        let source = io::Error::other("standard output is none");
        return Err(CommandError::Terminal { source });
    }
    // A panic restores the terminal as well, and is told after that.
    let mut terminal = ratatui::try_init().map_err(|source| {
        // It may be half a screen by now. What cannot be restored was never changed.
        let _ = ratatui::try_restore();
        CommandError::Terminal { source }
    })?;
    let outcome = follow_until(&mut terminal, path, shown, &stop);
    ratatui::restore();
    outcome.map_err(|source| CommandError::Terminal { source })
}

fn follow_until(
    terminal: &mut DefaultTerminal,
    path: &Path,
    mut shown: Shown,
    stop: &AtomicBool,
) -> io::Result<()> {
    // Relaxed: it says when, not what.
    while !stop.load(Ordering::Relaxed) {
        look(path, &mut shown);
        terminal.draw(|canvas: &mut Canvas<'_>| view::draw(canvas.buffer_mut(), &shown))?;
        if event::poll(LOOK_EVERY)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && !heed(key, &mut shown)
        {
            break;
        }
    }
    Ok(())
}

/// Takes the frame that is there now.
fn look(path: &Path, shown: &mut Shown) {
    match follow::read(path) {
        Ok(frame) => {
            shown.notice = follow::notice(&frame, follow::now_ms());
            shown.take(frame);
        }
        Err(error) => shown.notice = Some(error.to_string()),
    }
}

/// Does what a key says; no, if that is to end.
fn heed(key: KeyEvent, shown: &mut Shown) -> bool {
    match key.code {
        // Keys come as they are typed: none of them is a signal.
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('p') => shown.is_paused = !shown.is_paused,
        KeyCode::Char('s') => shown.sort = shown.sort.next(),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::view::Sort;
    use super::*;

    #[test]
    fn keys_do_what_the_last_line_says() {
        let mut shown = Shown::default();
        let press = |code, shown: &mut Shown| heed(KeyEvent::from(code), shown);
        assert!(press(KeyCode::Char('p'), &mut shown) && shown.is_paused);
        assert!(press(KeyCode::Char('p'), &mut shown) && !shown.is_paused);
        assert!(press(KeyCode::Char('s'), &mut shown) && shown.sort == Sort::Tasks);
        assert!(press(KeyCode::Char('c'), &mut shown), "not with Ctrl");
        assert!(!press(KeyCode::Char('q'), &mut shown));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!heed(interrupt, &mut shown));
    }
}
