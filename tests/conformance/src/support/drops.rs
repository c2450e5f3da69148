//! Values that tell the test when, and where, the runtime drops them.

use std::sync::mpsc;
use std::thread;

use super::PATIENCE;

fn thread_name() -> Option<String> {
    thread::current().name().map(str::to_owned)
}

/// Sends the name of the thread that drops it.
pub struct SendsOnDrop(mpsc::Sender<Option<String>>);

impl SendsOnDrop {
    /// Creates the value, and where its drop arrives.
    pub fn new() -> (Self, mpsc::Receiver<Option<String>>) {
        let (sender, dropped) = mpsc::channel();
        (Self(sender), dropped)
    }
}

impl Drop for SendsOnDrop {
    fn drop(&mut self) {
        // A test that failed has dropped the receiver.
        self.0.send(thread_name()).ok();
    }
}

/// Sends the name of the thread that drops it, and then blocks until the test drops the sender.
pub struct BlocksOnDrop {
    dropped: mpsc::Sender<Option<String>>,
    released: mpsc::Receiver<()>,
}

impl BlocksOnDrop {
    /// Creates the value, where its drop arrives, and the sender whose drop ends its destructor.
    pub fn new() -> (Self, mpsc::Receiver<Option<String>>, mpsc::Sender<()>) {
        let ((sender, dropped), (release, released)) = (mpsc::channel(), mpsc::channel());
        let blocks = Self {
            dropped: sender,
            released,
        };
        (blocks, dropped, release)
    }
}

impl Drop for BlocksOnDrop {
    fn drop(&mut self) {
        self.dropped.send(thread_name()).ok();
        // Bounded, so that a test that fails ends.
        let _ = self.released.recv_timeout(PATIENCE);
    }
}
