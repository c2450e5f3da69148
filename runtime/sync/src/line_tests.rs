use super::*;
use crate::channel::{Receiver, Sender, unbounded};
use std::thread;
use std::time::Duration;

/// Ends whose batches are late, or not.
struct Late {
    is_late: bool,
    thread: Sender<Sent<Self>>,
}

impl Ends for Late {
    type Batch = u64;

    fn wait(&mut self, _: &mut u64, _: Instant) -> bool {
        !self.is_late
    }

    fn complete(&mut self, _: u64) {}

    fn remind(&mut self, reminder: Sent<Self>) {
        self.thread
            .send(reminder)
            .expect("the test keeps the receiver");
    }
}

fn line(is_late: bool) -> (Holder<Late>, Sender<Sent<Late>>, Receiver<Sent<Late>>) {
    let (thread, incoming) = unbounded();
    let ends = Late {
        is_late,
        thread: thread.clone(),
    };
    (Holder::new(ends), thread, incoming)
}

fn receive(incoming: &Receiver<Sent<Late>>) -> Vec<u64> {
    let sent = incoming.try_recv().expect("a message was sent");
    sent.batches().collect()
}

#[test]
fn only_a_batch_after_all_others_is_held() {
    let (mut holder, ..) = line(false);
    assert!(!holder.hold(&mut vec![2], 1, 2, 0));
    assert!(holder.hold(&mut vec![2, 3], 1, 3, 1));
    Line::run(holder.line(), Instant::now());
    assert_eq!(holder.line().take(), None);
}

#[test]
fn reminders_that_were_overtaken_do_not_gather() {
    let (mut holder, thread, incoming) = line(true);
    let mut completed = 0;
    for _ in 0..3 {
        let next = completed + 1;
        assert!(holder.hold(&mut vec![next], completed, next, completed));
        thread.send(holder.sent(next + 1, completed)).unwrap();
        Line::run(holder.line(), Instant::now());
        assert!(incoming.len() <= 2, "a batch and one reminder");
        // A reminder that comes after its batch stays in the channel.
        while completed < next + 1 {
            completed = receive(&incoming).last().copied().unwrap_or(completed);
        }
    }
}

#[test]
fn what_is_held_at_the_close_goes_to_the_thread() {
    let (mut holder, thread, incoming) = line(false);
    assert!(holder.hold(&mut vec![1], 0, 1, 0));
    holder.close();
    drop(thread);
    assert_eq!(receive(&incoming), [1]);
    assert!(incoming.recv().is_err(), "the line has dropped its sender");
}

/// Ends that stay inside `complete`, as a waker may that waits for a lock.
struct Blocked {
    entered: Sender<()>,
    leave: Receiver<()>,
}

impl Ends for Blocked {
    type Batch = u64;

    fn wait(&mut self, _: &mut u64, _: Instant) -> bool {
        true
    }

    fn complete(&mut self, _: u64) {
        self.entered.send(()).expect("the test keeps the receiver");
        let left = self.leave.recv_timeout(Duration::from_secs(10));
        left.expect("no other thread blocks at the line");
    }

    fn remind(&mut self, _: Sent<Self>) {}
}

#[test]
fn no_caller_blocks_at_a_locked_line() {
    let ((entered, has_entered), (may_leave, leave)) = (unbounded(), unbounded());
    let mut holder = Holder::new(Blocked { entered, leave });
    assert!(holder.hold(&mut vec![1], 0, 1, 0));
    let line = holder.line().clone();
    let caller = thread::spawn(move || Line::run(&line, Instant::now()));
    has_entered.recv().unwrap();
    // Its cursor was published, and a waker runs.
    let mut batches = vec![2];
    assert!(!holder.hold(&mut batches, 1, 2, 1));
    holder.line().is_waiting.store(true, Ordering::Relaxed);
    Line::run(holder.line(), Instant::now());
    may_leave.send(()).unwrap();
    caller.join().unwrap();
    assert_eq!(batches, [2]);
}
