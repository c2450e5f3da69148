//! `millstream top` on a pseudo-terminal: it ends on signals, on keys, and if its terminal is gone.
//!
//! The child has no controlling terminal, so the kernel sends it no SIGHUP. It must detect a terminal that is gone by
//! reading and writing.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A timeout far longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Publishes the metrics of a short soak.
fn metrics(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    let path = folder.join("metrics.json");
    let mut soak = Command::new(env!("CARGO_BIN_EXE_millstream"));
    soak.args(["soak", "--rounds", "1", "--threads", "1", "--publish"]);
    assert!(soak.arg(&path).output().unwrap().status.success());
    path
}

/// Opens a pseudo-terminal.
fn terminal() -> (OwnedFd, File) {
    // Children of other tests must not inherit it, since the terminal is gone only once all copies are closed.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize {
        ws_row: 40,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    // Without this flag the terminal could become the controlling terminal of the test.
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        OpenptFlags::NOCTTY.bits().cast_signed(),
    );
    (master, options.open(path).unwrap())
}

/// `millstream top` on a pseudo-terminal. Killed on drop, so that a failed test leaves no process.
struct Top {
    child: Child,
    master: Option<File>,
}

impl Top {
    /// Starts the command with the terminal as input and output, and waits for the first frame.
    fn start(test: &str) -> Self {
        let (master, slave) = terminal();
        Self::start_with(test, slave.try_clone().unwrap(), slave, master)
    }

    fn start_with(test: &str, input: File, output: File, master: OwnedFd) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.arg("top").arg(metrics(test)).stdin(input);
        let child = command.stdout(output).stderr(Stdio::null()).spawn();
        // The command holds the parent's copies of the terminal.
        drop(command);
        let mut top = Self {
            child: child.unwrap(),
            master: Some(master.into()),
        };
        top.await_text("quit");
        top
    }

    fn master(&mut self) -> &mut File {
        self.master.as_mut().unwrap()
    }

    /// Reads what the command draws until it contains `text`.
    fn await_text(&mut self, text: &str) {
        let (mut drawn, mut buffer) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&drawn).contains(text) {
            let count = self.master().read(&mut buffer).unwrap();
            drawn.extend(&buffer[..count]);
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the command.
    fn end(mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status,
                None => assert!(Instant::now() < deadline, "top does not end"),
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_terminal_that_is_gone_ends_top() {
    let mut top = Top::start("gone");
    drop(top.master.take());
    top.end();
}

#[test]
fn signals_end_top_and_restore_the_terminal() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut top = Top::start("signals");
        top.signal(signal);
        // Leaves the alternate screen.
        top.await_text("\u{1b}[?1049l");
        assert_eq!(top.end().code(), Some(0), "{signal:?}");
    }
}

/// The terminal of the keys is gone, and the terminal of the frames remains.
#[test]
fn end_of_the_input_ends_top() {
    let (keys, input) = terminal();
    let (master, output) = terminal();
    let mut top = Top::start_with("input", input, output, master);
    drop(keys);
    top.await_text("\u{1b}[?1049l");
    // The read fails, which is reported.
    assert_eq!(top.end().code(), Some(1));
}

#[test]
fn q_ends_top_and_an_arrow_key_does_not() {
    let mut top = Top::start("keys");
    top.master().write_all(b"\x1b[Ap").unwrap();
    top.await_text("resume");
    top.master().write_all(b"q").unwrap();
    assert_eq!(top.end().code(), Some(0));
}

/// A signal is obeyed also while the terminal accepts no output. Each key is drawn, until the terminal's buffer is full.
#[test]
fn a_terminal_that_is_not_read_does_not_keep_top() {
    let mut top = Top::start("full");
    for _ in 0..40 {
        top.master().write_all(&[b'p'; 100]).unwrap();
    }
    top.signal(Signal::TERM);
    top.end();
}
