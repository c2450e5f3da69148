//! The one-shot channel with real threads.

use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Wake, Waker};
use std::time::Duration;

#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

impl WakeCount {
    fn count(&self) -> usize {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}

#[test]
fn a_value_is_taken_once() {
    let (tx, mut rx) = reply();
    assert!(rx.try_take().is_none());
    tx.send(7);
    assert!(rx.is_ready());
    assert_eq!(rx.try_take(), Some(Ok(7)));
    assert_eq!(rx.try_take(), Some(Err(Closed)));
    assert_eq!(rx.wait(&SpinPolicy::never()), Err(Closed));
}

#[test]
fn a_wait_returns_the_value_with_and_without_spinning() {
    for policy in [SpinPolicy::never(), SpinPolicy::default()] {
        for _ in 0..if cfg!(miri) { 10 } else { 2_000 } {
            let (tx, mut rx) = reply();
            let other = std::thread::spawn(move || tx.send(Box::new(7)));
            assert_eq!(*rx.wait(&policy).unwrap(), 7);
            other.join().unwrap();
        }
    }
}

#[test]
fn a_deadline_passes_and_the_reply_can_be_waited_for_again() {
    let (tx, mut rx) = reply();
    let spin = SpinPolicy::never();
    assert!(rx.wait_until(&spin, Some(Instant::now())).is_none());
    assert!(
        rx.wait_until(&spin, Some(Instant::now() + Duration::from_millis(1)))
            .is_none()
    );
    tx.send(7);
    assert_eq!(rx.wait_until(&spin, Some(Instant::now())), Some(Ok(7)));
}

#[test]
fn only_the_last_waker_is_woken() {
    let (first, second) = (
        Arc::new(WakeCount::default()),
        Arc::new(WakeCount::default()),
    );
    let (tx, mut rx) = reply();
    for rings in [&first, &second] {
        let waker = Waker::from(rings.clone());
        assert!(rx.poll_take(&mut Context::from_waker(&waker)).is_pending());
    }
    tx.send(7);
    assert_eq!((first.count(), second.count()), (0, 1));
    let waker = Waker::from(first);
    let taken = rx.poll_take(&mut Context::from_waker(&waker));
    assert_eq!(taken, Poll::Ready(Ok(7)));
}
