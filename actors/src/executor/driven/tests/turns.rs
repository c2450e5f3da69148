//! The turns of a driven device's actor: what they leave at idle, and what they run outside of the lock.

use super::*;
use crate::effects::Collector;

/// I5, I11: the thread that ends a timeline notifies the device a little later. Until then a device that wants a
/// point of it must not find that point open at each turn, and never sleep.
#[test]
fn a_device_that_wants_a_point_of_an_ended_timeline_considers_itself_lost() {
    let (executor, stream) = open_for_test(&DeviceOptions::default().max_in_flight(1));
    let mut core = executor.door.enter();
    let (actor, effects) = core.parts.as_mut().unwrap();
    effects.collector = Collector::Full;
    let _data = [1_u32, 2].map(|value| stream.create(&[value]).unwrap());
    while actor.turn(effects) {}
    // The queue is full and does not run.
    assert!(!actor.prepare_idle(Waker::noop(), effects));
    actor.end_idle();
    assert_eq!(actor.server.awaited_points().count(), 1);
    // Ended, and no control was sent.
    let ended = Timeline::new();
    ended.end();
    actor.timelines[0] = Arc::new(ended);
    assert!(actor.prepare_idle(Waker::noop(), effects));
    assert!(actor.server.is_lost());
}

/// I12: effects that wait for room at the GC actor are bounded, however often the device idles meanwhile.
#[test]
fn watches_do_not_pile_up_without_room_at_the_gc_actor_i12() {
    let (executor, stream) = open_for_test(&DeviceOptions::default());
    let mut core = executor.door.enter();
    let (actor, effects) = core.parts.as_mut().unwrap();
    effects.collector = Collector::Full;
    for _ in 0..100 {
        // Issued, dropped and never run: memory that waits for another point each time.
        drop(stream.create(&[1_u32; 1_024]).unwrap());
        while actor.turn(effects) {}
        actor.prepare_idle(Waker::noop(), effects);
        actor.end_idle();
    }
    let effects = actor.server.effects.len();
    assert!(effects <= 2, "{effects} effects are kept");
}

/// I8: a thread that waits at the door may hold a lock that a waker takes, so no waker is woken behind the door.
#[test]
fn users_wakers_are_woken_outside_of_a_driven_device_i8() {
    struct Looks(Arc<Executor<CpuDevice>>, AtomicUsize);
    impl std::task::Wake for Looks {
        fn wake(self: Arc<Self>) {
            let inside = self.0.door.try_enter();
            let wakes = if inside.is_some() { 1 } else { 100 };
            drop(inside);
            self.1.fetch_add(wakes, Ordering::SeqCst);
        }
    }
    let (executor, stream) = open_for_test(&DeviceOptions::default());
    let data = stream.create(&[1_u32; 4]).unwrap();
    let looks = Arc::new(Looks(executor.clone(), AtomicUsize::new(0)));
    let waker = Waker::from(looks.clone());
    let mut answer = stream.read(&data);
    let mut context = std::task::Context::from_waker(&waker);
    assert!(
        std::pin::Pin::new(&mut answer)
            .poll(&mut context)
            .is_pending()
    );
    while executor.step(PATIENCE) {}
    assert!(matches!(looks.1.load(Ordering::SeqCst), 1..100));
    assert_eq!(answer.wait().unwrap(), [1; 4]);
}
