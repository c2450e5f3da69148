//! Stepping in: callers that wait run the turn of a sleeping device thread, if the device allows it. No answer is lost,
//! mixed up or delayed by that (I5, I6, I8). The actors' `stepping_in/tests` check exact counts of wakes.

use std::thread;

use millstream::Error;

use crate::support::*;

/// I1, I5, I6: a caller that steps in also runs the work of other callers, in order: small tasks while it is inside the
/// device, larger ones after it has left.
pub(crate) fn callers_that_wait_concurrently_get_their_own_answers(on: On) {
    const CALLERS: u32 = 4;
    const ROUNDS: u32 = 60;
    let rig = on.open();
    let client = rig.client();
    let add = add_one(&client);
    let shared = client.new_stream().put(&[0_u32]);
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (client, add, shared) = (&client, &add, &shared);
            scope.spawn(move || {
                let stream = client.new_stream();
                for round in 0..ROUNDS {
                    let own = caller * ROUNDS + round;
                    let len = if round % 2 == 0 { 8 } else { 1 << 15 };
                    let values = stream.put(&vec![0_u32; len]);
                    stream.fill(&values, own).unwrap();
                    launch_update(&stream, add, shared).unwrap();
                    let copy = stream.empty::<u32>(len).unwrap();
                    stream.copy(&values, &copy).unwrap();
                    drop(values);
                    let got = stream.get(&copy);
                    assert_eq!(got, vec![own; len]);
                }
            });
        }
    });
    let sum = client.new_stream().get(&shared);
    assert_eq!(sum, [CALLERS * ROUNDS]);
}

/// I8: a kernel may block, since it is user code; a caller that waits for another answer does not run it.
/// Needs: Threads, HeldKernels, QueuesOverlap.
pub(crate) fn blocked_kernel_delays_no_caller_that_waits_for_another_answer(on: On) {
    let (rig, client, free) = on.start();
    let valve = rig.valve();
    let held = held(&client, &valve);
    let stuck = client.new_stream();
    let values = stuck.put(&[0_u32]);
    make_waits_expected(&free);
    held.launch(&stuck, &values).unwrap();
    valve.wait_for_arrivals(1);
    let data = free.put(&[0_u32]);
    for round in 0..20_u32 {
        free.fill(&data, round).unwrap();
        assert_eq!(free.get(&data), [round]);
    }
    valve.open();
    assert_eq!(stuck.get(&values), [1]);
}

/// I5, I10: a close ends, whichever thread is inside the device at that moment, and every caller gets an answer.
/// Needs: Threads.
pub(crate) fn close_ends_while_callers_wait_on_the_device(on: On) {
    const CALLERS: usize = 3;
    let rig = on.open();
    let client = rig.client();
    let (started, all_started) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            let (client, started) = (&client, started.clone());
            scope.spawn(move || {
                let stream = client.new_stream();
                make_waits_expected(&stream);
                started.send(()).unwrap();
                let one = |round: u32| {
                    let data = stream.create(&[round])?;
                    stream.fill(&data, round + 1)?;
                    stream.read(&data).wait()
                };
                let last = (0..).find_map(|round| match one(round) {
                    Ok(values) => {
                        assert_eq!(values, [round + 1]);
                        None
                    }
                    Err(error) => Some(error),
                });
                assert!(matches!(last, Some(Error::Closed)), "{last:?}");
            });
        }
        (0..CALLERS).for_each(|_| all_started.recv_timeout(PATIENCE).unwrap());
        let report = rig.device.close(PATIENCE);
        assert!(report.drained && report.threads_left == 0);
    });
}
