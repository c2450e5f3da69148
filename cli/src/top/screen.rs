//! The terminal: draws frames, obeys keys and signals, and restores the terminal however the command ends.
//!
//! Three threads: one reads keys, one receives signals, and the main thread draws. The main thread waits only for what
//! the other two send, so neither a terminal that is gone nor one that sends nothing keeps it.

use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use ratatui::Frame as Canvas;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{LeaveAlternateScreen, disable_raw_mode};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::follow;
use super::keys::{self, Input, Key};
use super::view::{self, View};
use crate::exit::CommandError;

/// The time between reads of the file.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);

/// The most inputs that wait for the main thread. Further keys wait in the terminal.
const INPUTS_MAX: usize = 64;

/// How long the command may take to end after a signal. A terminal that accepts no output can block it.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Follows the file until the user quits, a signal ends the command or the terminal is gone.
pub(crate) fn run(path: &Path, view: View) -> Result<(), CommandError> {
    follow_on_terminal(path, view).map_err(|source| CommandError::Terminal { source })
}

fn follow_on_terminal(path: &Path, mut view: View) -> io::Result<()> {
    if !io::stdout().is_terminal() {
        // Keys would still come from the terminal, but the drawing would go to a pipe or file.
        return Err(io::Error::other("standard output is not a terminal"));
    }
    let (sender, inputs) = mpsc::sync_channel(INPUTS_MAX);
    let stop = Arc::new(AtomicBool::new(false));
    start_signals(sender.clone(), stop.clone())?;
    // ratatui's panic hook restores the terminal before the panic is reported. If the initialization fails, it may have
    // changed part of the terminal's state.
    let outcome = ratatui::try_init().and_then(|terminal| {
        // If its terminal is gone, its drop prints an error to that terminal, which panics. So it is not dropped.
        let mut terminal = ManuallyDrop::new(terminal);
        keys::start(sender).and_then(|()| {
            follow_until(&inputs, &stop, &mut view, |view| {
                refresh(path, view);
                let draw = |canvas: &mut Canvas<'_>| view::draw(canvas.buffer_mut(), view);
                terminal.draw(draw).map(drop)
            })
        })
    });
    restore();
    outcome
}

/// Restores the terminal as far as it is still there. `ratatui::restore` would print an error to the terminal that is
/// gone, which panics, and would not leave the alternate screen if only the input is gone.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
}

/// Starts a thread that sets `stop` at the first signal that ends the command, and wakes the main thread.
fn start_signals(inputs: SyncSender<Input>, stop: Arc<AtomicBool>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGWINCH])?;
    let obey = move || {
        for signal in signals.forever() {
            if signal == SIGWINCH {
                // If the channel is full, the main thread is awake and draws anyway.
                let _ = inputs.try_send(Input::Woken);
                continue;
            }
            // Relaxed: no data depends on the flag.
            stop.store(true, Ordering::Relaxed);
            let _ = inputs.try_send(Input::Woken);
            thread::sleep(END_TIMEOUT);
            // The main thread is blocked by a terminal that accepts no output, so the process ends as it would have
            // without a handler.
            let _ = emulate_default_handler(signal);
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(obey).map(drop)
}

/// Draws until an input or `stop` ends the command. `draw` also reads the current frame.
fn follow_until(
    inputs: &Receiver<Input>,
    stop: &AtomicBool,
    view: &mut View,
    mut draw: impl FnMut(&mut View) -> io::Result<()>,
) -> io::Result<()> {
    // Relaxed: no data depends on the flag.
    while !stop.load(Ordering::Relaxed) {
        draw(view)?;
        match inputs.recv_timeout(REFRESH_INTERVAL) {
            Ok(Input::Key(Key::Pause)) => view.is_paused = !view.is_paused,
            Ok(Input::Key(Key::Sort)) => view.sort = view.sort.next(),
            Ok(Input::Failed(error)) => return Err(error),
            Ok(Input::Key(Key::Quit) | Input::Ended) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(Input::Woken) | Err(RecvTimeoutError::Timeout) => {}
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

#[cfg(test)]
mod tests {
    use super::super::view::Sort;
    use super::*;

    /// Returns the view, the number of drawings and the outcome after these inputs. More inputs could follow.
    fn after(inputs: impl IntoIterator<Item = Input>) -> (View, usize, io::Result<()>) {
        let (sender, receiver) = mpsc::sync_channel(INPUTS_MAX);
        inputs
            .into_iter()
            .for_each(|input| sender.send(input).unwrap());
        let (mut view, mut drawn) = (View::default(), 0);
        let outcome = follow_until(&receiver, &AtomicBool::new(false), &mut view, |_| {
            drawn += 1;
            Ok(())
        });
        (view, drawn, outcome)
    }

    #[test]
    fn keys_pause_sort_and_quit() {
        let [pause, sort, quit] = [Key::Pause, Key::Sort, Key::Quit];
        let (view, drawn, outcome) = after([pause, sort, quit].map(Input::Key));
        assert!(view.is_paused && view.sort == Sort::Tasks && outcome.is_ok());
        assert_eq!(drawn, 3);
        let (view, ..) = after([pause, pause, quit].map(Input::Key));
        assert!(!view.is_paused);
    }

    #[test]
    fn end_of_the_input_and_its_failure_end_the_command_at_once() {
        let (_, drawn, outcome) = after([Input::Woken, Input::Ended, Input::Woken]);
        assert!(outcome.is_ok());
        assert_eq!(drawn, 2);
        let (_, drawn, outcome) = after([Input::Failed(io::Error::other("gone"))]);
        assert_eq!(
            (drawn, outcome.unwrap_err().to_string()),
            (1, "gone".into())
        );
    }

    #[test]
    fn a_signal_ends_the_command_before_keys_that_wait() {
        let (sender, receiver) = mpsc::sync_channel(INPUTS_MAX);
        let (stop, mut view, mut drawn) = (AtomicBool::new(false), View::default(), 0);
        (0..3).for_each(|_| sender.send(Input::Key(Key::Pause)).unwrap());
        let outcome = follow_until(&receiver, &stop, &mut view, |_| {
            drawn += 1;
            stop.store(true, Ordering::Relaxed);
            Ok(())
        });
        assert!(outcome.is_ok());
        assert_eq!(drawn, 1);
    }

    #[test]
    fn a_terminal_that_cannot_be_drawn_ends_the_command() {
        let (_sender, receiver) = mpsc::sync_channel(INPUTS_MAX);
        let (stop, mut view) = (AtomicBool::new(false), View::default());
        let gone = |_: &mut View| Err(io::Error::other("gone"));
        assert!(follow_until(&receiver, &stop, &mut view, gone).is_err());
    }
}
