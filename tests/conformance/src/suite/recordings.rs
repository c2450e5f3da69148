//! Recordings and their replays (I1, I2, I7).

use crate::support::*;

pub(crate) fn recording_replays_its_tasks_with_other_handles(on: On) {
    let (_rig, client, stream) = on.start();
    let (transfer, add_one) = (transfer(&client), add_one(&client));
    let (a, b) = (stream.put(&[1_u32, 2]), stream.put(&[0_u32; 2]));
    let step = stream.record(|recorder| {
        let temporary = recorder.empty::<u32>(2)?;
        recorder.launch(&transfer, one(), across(&a, &temporary))?;
        recorder.launch(&add_one, one(), in_place(&temporary))?;
        recorder.copy(&temporary, &b)
    });
    let step = step.unwrap();
    assert_eq!((step.len(), step.parameters()), (3, 3));
    assert_eq!(stream.get(&b), [0, 0], "recording ran a task");
    step.replay(&stream).unwrap();
    assert_eq!(stream.get(&b), [2, 3]);
    let (c, d) = (stream.put(&[10_u32, 20]), stream.put(&[0_u32; 2]));
    let bound = [(0, &c), (2, &d)];
    step.replay_with(&client.new_stream(), &bound).unwrap();
    assert_eq!(stream.get(&d), [11, 21]);
    assert_eq!(stream.get(&b), [2, 3]);
    let short = stream.put(&[1_u32]);
    assert_eq!(
        error_text(step.replay_with(&stream, &[(2, &d), (0, &short)])),
        "`replay` was not accepted: parameter 0 of the recording needs a handle of at least 8 bytes, got 4"
    );
    assert_eq!(
        error_text(step.replay_with(&stream, &[(9, &c)])),
        "`replay` was not accepted: parameter 9 of the recording does not exist, the recording has 3, counted from 0"
    );
}

/// I2: the arguments of a replay may overlap although the recorded ones do not. Within one launch or copy an overlap
/// with a written binding is refused, as without a recording.
pub(crate) fn replay_orders_tasks_whose_new_arguments_alias(on: On) {
    let (_rig, client, stream) = on.start();
    let (transfer, add_one) = (transfer(&client), add_one(&client));
    let (a, b) = (stream.put(&[1_u32; 4]), stream.put(&[2_u32; 4]));
    let both = stream.record(|recorder| {
        recorder.launch(&add_one, one(), in_place(&a))?;
        recorder.launch(&add_one, one(), in_place(&b))
    });
    let same = stream.put(&[5_u32; 6]);
    let (front, back) = (same.slice(..4).unwrap(), same.slice(2..).unwrap());
    let bound = [(0, &front), (1, &back)];
    both.unwrap().replay_with(&stream, &bound).unwrap();
    let other = client.new_stream();
    assert_eq!(other.get(&same), [6, 6, 7, 7, 6, 6]);
    let launch = stream.record(|recorder| recorder.launch(&transfer, one(), across(&a, &b)));
    let copy = stream.record(|recorder| recorder.copy(&a, &b)).unwrap();
    for refuses in [&launch.unwrap(), &copy] {
        assert_eq!(
            error_text(refuses.replay_with(&stream, &bound)),
            "`replay` was not accepted: parameter 1 of the recording overlaps parameter 0 where task 0 writes one of them; copy one of them first"
        );
    }
    copy.replay(&stream).unwrap();
    assert_eq!(stream.get(&b), [1; 4]);
}

/// I7: within a replay a failure reaches the data that depends on it, and nothing else.
pub(crate) fn poisoned_parameter_fails_only_the_tasks_that_read_it(on: On) {
    let (_rig, client, stream) = on.start();
    let (transfer, boom) = (transfer(&client), boom(on, &client));
    let [a, b, c, d] = [1, 2, 0, 0].map(|value: u32| stream.put(&[value; 4]));
    let pairs = stream.record(|recorder| {
        recorder.launch(&transfer, one(), across(&a, &c))?;
        recorder.launch(&transfer, one(), across(&b, &d))
    });
    boom.launch(&stream, &a).unwrap();
    pairs.unwrap().replay(&stream).unwrap();
    stream.failure(&c);
    assert_eq!(stream.get(&d), [2; 4]);
}

/// A recording keeps its handles and kernels alive.
pub(crate) fn recording_keeps_its_handles_and_kernels_alive(on: On) {
    let (_rig, client, stream) = on.start();
    let out = stream.empty::<u32>(1).unwrap();
    let step = {
        let (transfer, n) = (transfer(&client), stream.put(&[77_u32]));
        stream.record(|recorder| recorder.launch(&transfer, one(), across(&n, &out)))
    };
    let step = step.unwrap();
    stream.drain();
    let _reuses_memory = [(); 100].map(|()| stream.put(&[3_u32]));
    step.replay(&stream).unwrap();
    assert_eq!(stream.get(&out), [77]);
    step.replay(&client.new_stream()).unwrap();
    drop(step);
    assert_eq!(stream.get(&out), [77]);
}

/// A handle with another alignment than the recorded one would misalign the elements of a launch.
pub(crate) fn a_rebound_handle_must_be_aligned_as_the_recorded_one_was(on: On) {
    let (_rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let values = stream.put(&[1_u32; 8]);
    let launch = stream.record(|recorder| recorder.launch(&add_one, one(), in_place(&values)));
    let launch = launch.unwrap();
    let fill = stream.record(|recorder| recorder.fill(&values, 7)).unwrap();
    let bytes = stream.put(&[0_u8; 64]);
    for (recording, start) in [(&launch, 1), (&fill, 2)] {
        let odd = bytes.slice(start..start + 32).unwrap();
        let refused = error_text(recording.replay_with(&stream, &[(0, &odd)]));
        let expected = format!(
            "`replay` was not accepted: parameter 0 of the recording was recorded at byte 0, the handle starts at byte {start}: \
             both must have the same offset modulo 4 bytes"
        );
        assert_eq!(refused, expected);
    }
    let even = bytes.slice(4..36).unwrap();
    launch.replay_with(&stream, &[(0, &even)]).unwrap();
    assert_eq!(stream.get(&bytes)[..8], [0, 0, 0, 0, 1, 0, 0, 0]);
}
