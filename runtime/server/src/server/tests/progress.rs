//! Everything ends: what blocks blocks only its own, what completes is noticed, what is asked is
//! answered (I5).

use millstream_protocol::access::Access;
use millstream_protocol::message::Scope;
use millstream_protocol::options::DeviceOptions;

use super::ledger::Call;
use super::rig::Rig;

fn rig(queues: usize) -> Rig {
    Rig::new(queues, DeviceOptions::default().max_tasks(100))
}

/// How often a launch was issued, on whichever queue.
fn runs_of(rig: &Rig, number: u64) -> usize {
    let is_it = |call: &Call| matches!(call, Call::Run(_, other) if *other == number);
    rig.calls().into_iter().filter(is_it).count()
}

#[test]
fn a_host_function_blocks_its_stream_alone() {
    let mut rig = rig(1);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&b, 64));
    rig.host(&a, 1, &[], Ok(()));
    rig.launch(&a, &kernel, 2, &[x.update()]);
    for task in 3..=5 {
        rig.launch(&b, &kernel, task, &[y.update()]);
    }
    rig.rest();
    assert_eq!((rig.order(0), rig.hosts()), (vec![3, 4, 5], 1));
    rig.drain();
    assert_eq!(rig.order(0), [3, 4, 5, 2]);
}

#[test]
fn a_sync_of_a_stream_behind_a_host_function_answers_after_it() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&b, 64));
    rig.host(&a, 1, &[x.update()], Ok(()));
    rig.launch(&b, &kernel, 2, &[x.read(), y.write()]);
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
    // The host function; then the parts of the asks, which run as such when their turn comes.
    rig.run_host(0);
    rig.rest();
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

#[test]
fn a_sync_of_an_idle_device_answers_at_once() {
    let mut rig = rig(2);
    let _stream = rig.stream();
    let mut answer = rig.sync_all(Scope::Device);
    rig.rest();
    assert!(answer.look(&rig).unwrap().is_ok());
}

#[test]
fn a_stream_that_is_dropped_with_tasks_runs_them_and_goes() {
    let mut rig = rig(1);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 64);
    rig.host(&a, 1, &[], Ok(()));
    rig.launch(&a, &kernel, 2, &[x.update()]);
    rig.launch(&b, &kernel, 3, &[x.update()]);
    drop(a);
    rig.rest();
    assert_eq!(
        (rig.order(0), rig.server.scheduler.stream_count()),
        (vec![], 2)
    );
    rig.drain();
    assert_eq!(
        (rig.order(0), rig.server.scheduler.stream_count()),
        (vec![2, 3], 1)
    );
}

/// I1, I5: whichever of them goes last, and where two bindings wait for one task, or one stream holds two.
#[test]
fn a_task_that_waits_for_held_tasks_of_several_streams_goes_once_when_the_last_has_gone() {
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
        let kernel = rig.kernel();
        let streams = [rig.stream(), rig.stream(), rig.stream()];
        let [x, y, z] = [0, 1, 2].map(|index: usize| rig.slice(&streams[index], 64));
        let (last, shared, own) = (
            rig.stream(),
            rig.slice(&streams[0], 64),
            rig.slice(&streams[2], 64),
        );
        rig.host(&streams[0], 0, &[x.update(), shared.read()], Ok(()));
        rig.host(&streams[1], 0, &[y.update(), shared.read()], Ok(()));
        rig.host(&streams[2], 0, &[z.update()], Ok(()));
        rig.launch(&streams[2], &kernel, 1, &[own.write()]);
        let bindings = [
            shared.write(),
            x.read(),
            y.part(0..32, Access::Read),
            y.part(32..64, Access::Read),
            z.read(),
            own.update(),
        ];
        rig.launch(&last, &kernel, 2, &bindings);
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

/// A completion that is seen in passing, because a queue was full, still sets free what waits for it.
#[test]
fn what_is_seen_in_passing_is_taken_up() {
    let mut rig = Rig::new(2, DeviceOptions::default().max_in_flight(1));
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&a, 64));
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.host(&b, 2, &[x.read()], Ok(()));
    rig.rest();
    assert_eq!(rig.hosts(), 0);
    rig.complete();
    // The device looks whether there is room for this one, and sees task 1 complete.
    rig.launch(&a, &kernel, 3, &[y.write()]);
    rig.rest();
    assert_eq!(rig.hosts(), 1);
    rig.drain();
    assert_eq!(rig.held(), 0);
}

/// I10: whoever waits for something of a device that gives up is told.
#[test]
fn an_abandoned_device_answers_every_ask_and_lets_go_of_every_sender() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 64);
    rig.host(&a, 1, &[x.update()], Ok(()));
    rig.launch(&b, &kernel, 2, &[x.update()]);
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
    // Who waits for credit of a stream waits no longer.
    let now = std::time::Instant::now();
    let wait = b.credit.acquire_deadline(1 << 20, &Default::default(), now);
    assert!(matches!(wait, Some(Err(_))), "{wait:?}");
}

/// I5: nor is who was to be told by user code that the device had decided to run, and that nobody fetched.
#[test]
fn an_abandoned_device_lets_go_of_user_code_that_it_was_about_to_hand_out() {
    let mut rig = rig(1);
    let a = rig.stream();
    let x = rig.slice(&a, 64);
    let mut guard = rig.guard(&a, 1, &[x.update()], Ok(()));
    rig.admit();
    assert!(guard.look(&rig).is_none());
    rig.abandon();
    assert!(guard.look(&rig).unwrap().is_err());
}
