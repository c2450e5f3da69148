//! Callers that wait and step in for sleeping threads where the device lets them: nothing is lost, mixed up or held up by
//! that (I5, I6, I8). Exact counts of wakes are in the actors' `shared_actor/tests`.

use std::thread;

use millstream::Error;

use crate::support::*;

/// I1, I5, I6: a caller that steps in does the work of other callers as well, in its order: what is small inside of the device, and
/// what is not after it has left.
pub(crate) fn callers_that_wait_at_once_all_get_their_own_answers(on: On) {
    const CALLERS: u32 = 4;
    const ROUNDS: u32 = 60;
    let rig = on.open();
    let client = rig.client();
    let add = add_one(&client);
    let shared = client.new_stream().create(&[0_u32]).unwrap();
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (client, add, shared) = (&client, &add, &shared);
            scope.spawn(move || {
                let stream = client.new_stream();
                for round in 0..ROUNDS {
                    let own = caller * ROUNDS + round;
                    let len = if round % 2 == 0 { 8 } else { 1 << 15 };
                    let values = stream.create(&vec![0_u32; len]).unwrap();
                    stream.fill(&values, own).unwrap();
                    launch_update(&stream, add, shared).unwrap();
                    let copy = stream.empty::<u32>(len).unwrap();
                    stream.copy(&values, &copy).unwrap();
                    drop(values);
                    let got = stream.read(&copy).wait().unwrap();
                    assert_eq!(got, vec![own; len]);
                }
            });
        }
    });
    let all = client.new_stream().read(&shared).wait().unwrap();
    assert_eq!(all, [CALLERS * ROUNDS]);
}

/// I8: a kernel of users' code may block; a caller that waits for another answer does not run it.
pub(crate) fn a_kernel_that_blocks_holds_up_no_caller_that_waits_for_another(on: On) {
    let rig = on.open();
    let client = rig.client();
    let valve = rig.valve();
    let held = held(&client, &valve);
    let (stuck, free) = (client.new_stream(), client.new_stream());
    let values = stuck.create(&[0_u32]).unwrap();
    get_used_to_waits(&free);
    held.launch(&stuck, &values).unwrap();
    valve.wait_for_arrivals(1);
    let data = free.create(&[0_u32]).unwrap();
    for round in 0..20_u32 {
        free.fill(&data, round).unwrap();
        assert_eq!(free.read(&data).wait().unwrap(), [round]);
    }
    valve.open();
    assert_eq!(stuck.read(&values).wait().unwrap(), [1]);
}

/// I5, I10: a close ends, whichever thread is inside at that moment, and every caller gets an answer.
pub(crate) fn a_device_is_closed_while_callers_wait_on_it(on: On) {
    const CALLERS: usize = 3;
    let rig = on.open();
    let client = rig.client();
    let (began, begins) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            let (client, began) = (&client, began.clone());
            scope.spawn(move || {
                let stream = client.new_stream();
                get_used_to_waits(&stream);
                began.send(()).unwrap();
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
        (0..CALLERS).for_each(|_| begins.recv_timeout(PATIENCE).unwrap());
        let report = rig.device.close(PATIENCE);
        assert!(report.drained);
        assert_eq!(report.threads_left, 0);
    });
}
