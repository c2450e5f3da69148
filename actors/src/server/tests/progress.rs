//! Everything ends: a blocked task blocks only its own stream, completions are processed, requests are answered (I5).

use std::time::{Duration, Instant};

use millstream_protocol::{Access, CancelToken, DeviceOptions, Scope, Terms};

use super::rig::Rig;
use super::script::Call;

fn rig(queues: usize) -> Rig {
    Rig::new(queues, DeviceOptions::default().max_tasks(100))
}

/// Returns how often a launch was issued, on any queue.
fn runs_of(rig: &Rig, number: u64) -> usize {
    let is_it = |call: &Call| matches!(call, Call::Run(_, other) if *other == number);
    rig.calls().into_iter().filter(is_it).count()
}

#[test]
fn sync_behind_a_host_function_is_answered_after_it() {
    let mut rig = rig(2);
    let [(a, x), (b, y)] = rig.owners(64);
    rig.host(&a, &[x.update()]);
    rig.launch(&b, 2, &[x.read(), y.write()]);
    let mut own = rig.sync(&b);
    let mut device = rig.sync_all(Scope::Device);
    let mut only_b = rig.sync_all(Scope::Streams(vec![b.id()]));
    rig.rest();
    let answers = [&mut own, &mut device, &mut only_b];
    assert!(
        answers
            .into_iter()
            .all(|answer| answer.look(&rig).is_none())
    );
    // The parts of the syncs are issued behind what the host function held back; none of them is a host function.
    rig.run_host(0);
    rig.rest();
    assert_eq!(rig.hosts(), 0, "a sync needs no thread for user code");
    let answers = [&mut own, &mut device, &mut only_b];
    assert!(
        answers
            .into_iter()
            .all(|answer| answer.look(&rig).is_none()),
        "task 2 has not completed"
    );
    rig.drain();
    for answer in [&mut own, &mut device, &mut only_b] {
        assert!(answer.look(&rig).unwrap().is_ok());
    }
}

/// I12: a turn takes a bounded number of steps, however many handles were dropped before it.
#[test]
fn a_turn_processes_a_bounded_number_of_drops_i12() {
    const SLICES: usize = 3_000;
    let mut rig = rig(1);
    let stream = rig.stream();
    let slices: Vec<_> = (0..SLICES).map(|_| rig.slice(&stream, 64)).collect();
    rig.rest();
    let live = |rig: &super::rig::Rig| rig.actor.server.live_slices() as usize;
    assert_eq!(live(&rig), SLICES);
    drop(slices);
    rig.actor.server.process_drops();
    let mut left = live(&rig);
    assert!((SLICES - 1_000..SLICES).contains(&left), "{left} left");
    // The rest is work for the next turns, and no task is needed for it.
    while left > 0 {
        assert!(rig.actor.server.has_drops());
        rig.actor.server.process_drops();
        assert!(live(&rig) < left);
        left = live(&rig);
    }
    assert!(!rig.actor.server.has_drops());
}

/// I1, I5: in any order of the awaited tasks, also if two bindings await one task, or one stream holds two.
#[test]
fn task_that_awaits_several_streams_is_issued_once_after_the_last_i1_i5() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for (order, queues) in orders.iter().flat_map(|order| [(order, 1), (order, 3)]) {
        let mut rig = rig(queues);
        let streams = [rig.stream(), rig.stream(), rig.stream()];
        let [x, y, z] = [0, 1, 2].map(|index: usize| rig.slice(&streams[index], 64));
        let (last, shared, own) = (
            rig.stream(),
            rig.slice(&streams[0], 64),
            rig.slice(&streams[2], 64),
        );
        rig.host(&streams[0], &[x.update(), shared.read()]);
        rig.host(&streams[1], &[y.update(), shared.read()]);
        rig.host(&streams[2], &[z.update()]);
        rig.launch(&streams[2], 1, &[own.write()]);
        let bindings = [
            shared.write(),
            x.read(),
            y.part(0..32, Access::Read),
            y.part(32..64, Access::Read),
            z.read(),
            own.update(),
        ];
        rig.launch(&last, 2, &bindings);
        rig.rest();
        let mut running = vec![0, 1, 2];
        for (ended, stream) in order.iter().enumerate() {
            assert_eq!(runs_of(&rig, 2), 0, "after {ended} of {order:?}");
            let nth = running.iter().position(|other| other == stream).unwrap();
            running.swap_remove(nth);
            assert!(rig.run_host(nth));
            rig.rest();
        }
        assert_eq!(
            (runs_of(&rig, 2), rig.held()),
            (1, 0),
            "{order:?} on {queues} queues"
        );
        rig.drain();
    }
}

/// A completion that a full queue's refresh sees still frees what waits for it.
#[test]
fn completion_seen_by_a_refresh_is_processed() {
    let mut rig = Rig::new(2, DeviceOptions::default().max_in_flight(1));
    let [a, b] = rig.streams();
    let [x, y] = rig.slices(&a, 64);
    rig.launch(&a, 1, &[x.write()]);
    rig.host(&b, &[x.read()]);
    rig.rest();
    assert_eq!(rig.hosts(), 0);
    rig.complete();
    // The device refreshes the queue to find room for this task, and sees that task 1 has completed.
    rig.launch(&a, 3, &[y.write()]);
    rig.rest();
    assert_eq!(rig.hosts(), 1);
    rig.drain();
    assert_eq!(rig.held(), 0);
}

/// I10: every caller of a device that is closed is answered.
#[test]
fn abandoned_device_answers_every_request_and_releases_every_sender_i10() {
    let mut rig = rig(2);
    let [a, b] = rig.streams();
    let x = rig.slice(&a, 64);
    rig.host(&a, &[x.update()]);
    rig.launch(&b, 2, &[x.update()]);
    let mut answers = [
        rig.copy_out(&b, &[x.read()]),
        rig.sync(&a),
        rig.sync_all(Scope::Device),
    ];
    rig.rest();
    assert!(answers.iter_mut().all(|answer| answer.look(&rig).is_none()));
    assert!(rig.abandon() > 0);
    rig.forget_hosts();
    for answer in &mut answers {
        assert!(answer.look(&rig).unwrap().is_err());
    }
    // A caller that waits for credit of a stream returns.
    let now = std::time::Instant::now();
    let wait = b
        .credit
        .acquire_in_order((1 << 20, false), &Default::default(), Some(now));
    assert!(matches!(wait, Some(Err(_))), "{wait:?}");
}

/// I5: the same for a caller whose answer would come from user code that was about to run.
#[test]
fn abandoned_device_drops_user_code_that_was_about_to_run_i5() {
    let mut rig = rig(1);
    let a = rig.stream();
    let x = rig.slice(&a, 64);
    let mut guard = rig.guard(&a, &[x.update()]);
    rig.admit();
    assert!(guard.look(&rig).is_none());
    rig.abandon();
    assert!(guard.look(&rig).unwrap().is_err());
}

/// I11, I12: the server forgets the caller of a task under a deadline once the task goes on as a copy. Otherwise the
/// deadline would wake the device forever.
#[test]
fn late_bytes_of_a_task_under_a_deadline_leave_no_caller_behind() {
    let mut rig = rig(1);
    let a = rig.stream();
    let [x, y] = rig.slices(&a, 64);
    rig.launch(&a, 1, &[x.write()]);
    let in_an_hour = Instant::now() + Duration::from_secs(3_600);
    let terms = Terms::of(&CancelToken::new()).with_deadline(in_an_hour);
    rig.staged(&a, &[x.read(), y.write()], vec![7; 64], Some(terms));
    rig.rest();
    assert_eq!(rig.actor.server.next_deadline(), Some(in_an_hour));
    rig.drain();
    assert_eq!(rig.held(), 0);
    assert!(rig.actor.server.withdrawals.is_empty());
    assert_eq!(rig.actor.server.next_deadline(), None);
}
