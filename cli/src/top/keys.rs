//! The keys of a terminal in raw mode, and the thread that reads them.
//!
//! crossterm's `event::poll` is not used: once the terminal is gone it never returns, and takes a core. Its loop
//! ignores an end of the input and every error other than "would block".

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::sync::mpsc::SyncSender;
use std::thread;

/// The most bytes of one read. No key is longer.
const BYTES_MAX: usize = 1024;
const ESCAPE: u8 = 0x1b;
/// Ctrl-C. In raw mode it is a key and not a signal.
const INTERRUPT: u8 = 0x03;

/// A key that the command knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Quit,
    Pause,
    Sort,
}

/// What the screen waits for.
#[derive(Debug)]
pub(super) enum Input {
    Key(Key),
    /// The terminal has another size, or a signal has set the stop flag.
    Woken,
    /// The input has ended.
    Ended,
    /// Keys cannot be read any longer.
    Failed(io::Error),
}

/// Starts a thread that reads keys from the terminal until it is gone.
pub(super) fn start(inputs: SyncSender<Input>) -> io::Result<()> {
    let terminal: Box<dyn Read + Send> = match io::stdin().is_terminal() {
        true => Box::new(io::stdin()),
        false => Box::new(File::open("/dev/tty")?),
    };
    let thread = thread::Builder::new().name("keys".to_owned());
    // The thread ends with the process: nothing interrupts its read.
    thread.spawn(move || read(terminal, &inputs)).map(drop)
}

/// Sends keys until the input ends, a read fails or the receiver is dropped.
fn read(mut terminal: impl Read, inputs: &SyncSender<Input>) {
    let mut bytes = [0; BYTES_MAX];
    loop {
        let sent = match terminal.read(&mut bytes) {
            Ok(0) => {
                let _ = inputs.send(Input::Ended);
                return;
            }
            Ok(count) => keys(&bytes[..count]).try_for_each(|key| inputs.send(Input::Key(key))),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => {
                let _ = inputs.send(Input::Failed(error));
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Returns the known keys of the bytes of one read. An escape character that other bytes follow begins a sequence, such
/// as that of an arrow key.
fn keys(bytes: &[u8]) -> impl Iterator<Item = Key> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            let (first, behind) = rest.split_first()?;
            rest = behind;
            match *first {
                b'q' | INTERRUPT => return Some(Key::Quit),
                b'p' => return Some(Key::Pause),
                b's' => return Some(Key::Sort),
                ESCAPE if rest.is_empty() => return Some(Key::Quit),
                ESCAPE => rest = behind_sequence(rest),
                _ => {}
            }
        }
    })
}

/// Returns the bytes behind an escape sequence. `bytes` begins behind its escape character.
fn behind_sequence(bytes: &[u8]) -> &[u8] {
    let length = match bytes {
        // Parameters, then a final byte from `@` to `~`.
        [b'[', sequence @ ..] => {
            let last = sequence
                .iter()
                .position(|byte| (b'@'..=b'~').contains(byte));
            last.map_or(bytes.len(), |last| last + 2)
        }
        [b'O', ..] => 2,
        _ => 1,
    };
    bytes.get(length..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn of(bytes: &[u8]) -> Vec<Key> {
        keys(bytes).collect()
    }

    #[test]
    fn keys_are_found_between_escape_sequences() {
        assert_eq!(of(b"xps"), [Key::Pause, Key::Sort]);
        assert_eq!(of(b"q"), [Key::Quit]);
        assert_eq!(of(&[INTERRUPT]), [Key::Quit]);
        assert_eq!(of(&[b'p', ESCAPE]), [Key::Pause, Key::Quit]);
        // The arrow up, F1, a longer sequence, and Alt-Q.
        assert_eq!(
            of(b"\x1b[Ap\x1bOPs\x1b[15;2~p\x1bq"),
            [Key::Pause, Key::Sort, Key::Pause]
        );
        assert_eq!(of(b"\x1b[15;2"), []);
        assert_eq!(of(b"\x1bO"), []);
    }

    /// A terminal that is gone fails every read, or has no more input.
    struct Gone {
        error: bool,
        reads: usize,
    }

    impl Read for Gone {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            match self.reads {
                1 => Err(ErrorKind::Interrupted.into()),
                2 => {
                    bytes[0] = b'p';
                    Ok(1)
                }
                _ if self.error => Err(io::Error::other("gone")),
                _ => Ok(0),
            }
        }
    }

    #[test]
    fn a_terminal_that_is_gone_is_not_read_again() {
        for error in [true, false] {
            let (sender, inputs) = mpsc::sync_channel(4);
            let mut gone = Gone { error, reads: 0 };
            read(&mut gone, &sender);
            drop(sender);
            assert_eq!(gone.reads, 3);
            assert!(matches!(inputs.recv(), Ok(Input::Key(Key::Pause))));
            let last = inputs.recv().unwrap();
            match error {
                true => assert!(matches!(last, Input::Failed(_)), "{last:?}"),
                false => assert!(matches!(last, Input::Ended), "{last:?}"),
            }
        }
    }
}
