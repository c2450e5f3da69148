//! The timeline with real threads.

use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;
use std::time::Duration;

#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl WakeCount {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn progress_is_monotonic() {
    let timeline = Timeline::new();
    timeline.publish(5);
    timeline.publish(3);
    assert_eq!(timeline.completed(), 5);
    assert_eq!(timeline.wait(5, &SpinPolicy::never()), Ok(()));
}

#[test]
fn the_end_fails_waits_for_cursors_that_have_not_completed() {
    let timeline = Timeline::new();
    timeline.publish(5);
    timeline.end();
    let spin = SpinPolicy::default();
    assert!(timeline.has_ended());
    assert_eq!(
        (timeline.wait(5, &spin), timeline.wait(6, &spin)),
        (Ok(()), Err(Ended))
    );
    assert!(timeline.register(6, Waker::noop()).is_none());
}

#[test]
fn a_deadline_ends_a_wait_and_removes_its_entry() {
    let timeline = Timeline::new();
    let until = Instant::now() + Duration::from_millis(1);
    assert_eq!(
        timeline.wait_until(1, &SpinPolicy::never(), Some(until)),
        None
    );
    assert_eq!(
        timeline.next_target.load(Ordering::SeqCst),
        NO_TARGET,
        "the entry was removed"
    );
}

#[test]
fn wakers_are_woken_once_when_their_target_is_reached() {
    let timeline = Timeline::new();
    let rings: Vec<_> = (0..20).map(|_| Arc::new(WakeCount::default())).collect();
    for (i, ring) in rings.iter().enumerate().rev() {
        let waker = Waker::from(ring.clone());
        assert!(timeline.register(i as u64 + 1, &waker).is_some());
    }
    timeline.publish(12);
    timeline.publish(13);
    let counts: Vec<_> = rings.iter().map(|ring| ring.count()).collect();
    assert_eq!(counts, [[1; 13].as_slice(), &[0; 7]].concat());
    timeline.end();
    assert!(rings.iter().all(|ring| ring.count() == 1));
}

#[test]
fn a_cancelled_waker_is_not_woken_and_a_replaced_one_is() {
    let timeline = Timeline::new();
    let (first, second) = (
        Arc::new(WakeCount::default()),
        Arc::new(WakeCount::default()),
    );
    let waker = Waker::from(first.clone());
    let (a, b) = (
        timeline.register(1, &waker).unwrap(),
        timeline.register(1, &waker).unwrap(),
    );
    assert!(timeline.cancel(a) && !timeline.cancel(a));
    assert!(timeline.replace(b, &Waker::from(second.clone())));
    timeline.publish(1);
    assert_eq!((first.count(), second.count()), (0, 1));
    assert!(!timeline.replace(b, &waker) && !timeline.cancel(b));
}

#[test]
fn every_wait_ends() {
    const END: u64 = if cfg!(miri) { 50 } else { 3_000 };
    let timeline = Arc::new(Timeline::new());
    let waiters: Vec<_> = [SpinPolicy::never(), SpinPolicy::default()]
        .map(|policy| {
            let timeline = timeline.clone();
            std::thread::spawn(move || {
                (1..=END).for_each(|c| timeline.wait(c, &policy).unwrap());
                timeline.wait(END + 1, &policy)
            })
        })
        .into();
    (1..=END).for_each(|c| timeline.publish(c));
    timeline.end();
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), Err(Ended));
    }
}

/// I5: cloning, waking and dropping a waker run foreign code, which may call the timeline.
#[test]
fn no_code_of_a_waker_runs_under_the_lock() {
    let timeline = Arc::new(Timeline::new());
    let acting = || {
        let timeline = timeline.clone();
        crate::wait::tests::acting(move || assert!(timeline.waiters.try_lock().is_ok()))
    };
    let keys = [1, 2, 3].map(|cursor| timeline.register(cursor, &acting()).unwrap());
    assert!(keys.iter().all(|key| timeline.replace(*key, &acting())));
    timeline.publish(1);
    assert!(!timeline.replace(keys[0], &acting()));
    assert!(timeline.cancel(keys[1]));
    timeline.end();
}

/// As many waiters as a busy service may have at once. Under Miri each access costs its length.
const WAITERS: u64 = if cfg!(miri) { 256 } else { 100_000 };

fn waiter() -> Waiter {
    Waiter::Task(Waker::noop().clone())
}

/// The numbers below `WAITERS` in an order without pattern: the multiplier is coprime to it.
fn shuffled() -> impl Iterator<Item = u64> {
    (0..WAITERS).map(|i| i * 70_001 % WAITERS)
}

/// Cancels a waiter, and returns the number of keys that were visited: all of them if the cancelled ones were removed.
fn cancel(waiters: &mut Waiters, key: WaitKey) -> usize {
    let before = waiters.order.len();
    assert!(waiters.remove(key).is_some());
    match waiters.order.len() < before {
        true => before,
        false => 1,
    }
}

/// I5, I9, I12: whatever the order in which waiters come and are cancelled, a cancellation takes a constant number of
/// steps on average, the others are woken in the order of their targets, and then the memory of many is freed.
#[test]
fn many_waiters_are_woken_in_order_and_cancelled_in_any_i5_i9_i12() {
    let mut waiters = Waiters::default();
    let keys: Vec<_> = shuffled()
        .map(|target| waiters.insert(target, waiter()))
        .collect();
    let mut steps = 0;
    for at in shuffled().filter(|at| at % 2 == 0) {
        steps += cancel(&mut waiters, keys[at as usize]);
        assert!(waiters.remove(keys[at as usize]).is_none(), "once");
    }
    assert!(steps as u64 <= 2 * WAITERS, "{steps} steps");
    let mut left: Vec<_> = shuffled().skip(1).step_by(2).collect();
    left.sort_unstable();
    let next = |waiters: &mut Waiters| {
        let target = waiters.first()?.target;
        waiters.pop_reached(target).map(|_| target)
    };
    assert_eq!(
        std::iter::from_fn(|| next(&mut waiters)).collect::<Vec<_>>(),
        left
    );
    // Under Miri there are too few.
    if !cfg!(miri) {
        assert_eq!(waiters.order.capacity() + waiters.list.capacity(), 0);
    }
}

#[test]
fn equal_targets_are_woken_in_the_order_of_registration() {
    let mut waiters = Waiters::default();
    let keys: Vec<_> = (0..100).map(|i| waiters.insert(i % 3, waiter())).collect();
    waiters.remove(keys[4]);
    let next = |waiters: &mut Waiters| {
        let key = waiters.first()?;
        waiters
            .pop_reached(u64::MAX)
            .map(|_| (key.target, key.ticket))
    };
    let woken: Vec<_> = std::iter::from_fn(|| next(&mut waiters)).collect();
    assert!(woken.is_sorted() && woken.len() == 99);
}

/// I5: a late cancellation does not remove the next waiter that has its slot.
#[test]
fn an_old_key_does_not_find_the_next_waiter_of_its_slot_i5() {
    let mut waiters = Waiters::default();
    let old = waiters.insert(1, waiter());
    waiters.remove(old);
    let new = waiters.insert(1, waiter());
    assert_eq!(old.slot, new.slot);
    assert!(waiters.get_mut(old).is_none() && waiters.remove(old).is_none());
    assert!(waiters.get_mut(new).is_some());
}

/// I12: a caller that waits again and again for a cursor that does not come leaves nothing behind, and each wait takes a
/// constant number of steps on average, however many others wait.
#[test]
fn cancelled_waiters_are_forgotten_i12() {
    const ROUNDS: usize = 1_000;
    let mut waiters = Waiters::default();
    for others in [3, 300] {
        while waiters.list.len() < others {
            let _kept = waiters.insert(1, waiter());
        }
        let mut steps = 0;
        for _ in 0..ROUNDS {
            let key = waiters.insert(7, waiter());
            steps += cancel(&mut waiters, key);
            assert!(waiters.order.len() <= 2 * others + 2);
        }
        assert!(steps <= 4 * ROUNDS, "{steps} steps beside {others}");
        assert_eq!(waiters.list.len(), others);
    }
}

/// I9: the memory for a few waiters is allocated once.
#[test]
fn a_few_waiters_allocate_once_i9() {
    let mut waiters = Waiters::default();
    let mut capacity = None;
    for round in 0..1_000 {
        let keys: Vec<_> = (0..64)
            .map(|i| waiters.insert(round + i, waiter()))
            .collect();
        waiters.remove(keys[(round % 64) as usize]);
        while waiters.pop_reached(u64::MAX).is_some() {}
        let now = (waiters.list.capacity(), waiters.order.capacity());
        assert!(now.0 >= 64 && now.1 >= 64, "none waits, and it is kept");
        assert_eq!(*capacity.get_or_insert(now), now);
    }
}
