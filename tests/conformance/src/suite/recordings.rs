//! Recordings and their replays (I1, I2, I7).

use crate::support::*;

pub(crate) fn recording_replays_its_tasks_with_other_handles(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, transfer, add_one) = (client.new_stream(), transfer(&client), add_one(&client));
    let (a, b) = (
        stream.create(&[1_u32, 2]).unwrap(),
        stream.create(&[0_u32; 2]).unwrap(),
    );
    let step = stream
        .record(|recorder| {
            let temporary = recorder.empty::<u32>(2)?;
            recorder.launch(&transfer, one(), across(&a, &temporary))?;
            recorder.launch(&add_one, one(), in_place(&temporary))?;
            recorder.copy(&temporary, &b)
        })
        .unwrap();
    assert_eq!((step.len(), step.parameters()), (3, 3));
    assert_eq!(
        stream.read(&b).wait().unwrap(),
        [0, 0],
        "recording ran a task"
    );
    step.replay(&stream).unwrap();
    assert_eq!(stream.read(&b).wait().unwrap(), [2, 3]);
    let (c, d) = (
        stream.create(&[10_u32, 20]).unwrap(),
        stream.empty::<u32>(2).unwrap(),
    );
    step.replay_with(&client.new_stream(), &[(0, &c), (2, &d)])
        .unwrap();
    assert_eq!(stream.read(&d).wait().unwrap(), [11, 21]);
    assert_eq!(stream.read(&b).wait().unwrap(), [2, 3]);
    let short = stream.create(&[1_u32]).unwrap();
    assert_eq!(
        error_text(step.replay_with(&stream, &[(2, &d), (0, &short)])),
        "`replay` was not accepted: parameter 0 of the recording needs a handle of at least 8 bytes, got 4"
    );
    assert_eq!(
        error_text(step.replay_with(&stream, &[(9, &c)])),
        "`replay` was not accepted: parameter 9 of the recording does not exist, the recording has 3, counted from 0"
    );
    let bytes = stream.create(&[0_u8; 16]).unwrap();
    let odd = bytes.slice(1..9).unwrap();
    assert_eq!(
        error_text(step.replay_with(&stream, &[(0, &odd)])),
        "`replay` was not accepted: parameter 0 of the recording was recorded at byte 0, the handle starts at byte 1: both must have the same offset modulo 4 bytes"
    );
}

/// I2: the arguments of a replay may overlap although the recorded ones do not.
pub(crate) fn replay_orders_tasks_whose_new_arguments_alias(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, transfer, add_one) = (client.new_stream(), transfer(&client), add_one(&client));
    let (a, b) = (
        stream.create(&[1_u32; 4]).unwrap(),
        stream.create(&[1_u32; 4]).unwrap(),
    );
    let both = stream
        .record(|recorder| {
            recorder.launch(&add_one, one(), in_place(&a))?;
            recorder.launch(&add_one, one(), in_place(&b))
        })
        .unwrap();
    let same = stream.create(&[5_u32; 6]).unwrap();
    let (front, back) = (same.slice(..4).unwrap(), same.slice(2..).unwrap());
    both.replay_with(&stream, &[(0, &front), (1, &back)])
        .unwrap();
    let other = client.new_stream();
    assert_eq!(other.read(&same).wait().unwrap(), [6, 6, 7, 7, 6, 6]);
    // Within one launch an overlap with a written binding is refused, as without a recording.
    let copy = stream
        .record(|recorder| recorder.launch(&transfer, one(), across(&a, &b)))
        .unwrap();
    assert_eq!(
        error_text(copy.replay_with(&stream, &[(0, &front), (1, &back)])),
        "`replay` was not accepted: parameter 1 of the recording overlaps parameter 0 where task 0 writes one of them; copy one of them first"
    );
}

/// A recorded copy must not overlap itself either.
pub(crate) fn replay_of_a_copy_with_overlapping_arguments_is_refused(on: On) {
    let rig = on.open();
    let stream = rig.client().new_stream();
    let (a, b) = (
        stream.create(&[1_u32; 4]).unwrap(),
        stream.create(&[2_u32; 4]).unwrap(),
    );
    let copy = stream.record(|recorder| recorder.copy(&a, &b)).unwrap();
    let same = stream.create(&[5_u32; 6]).unwrap();
    let (front, back) = (same.slice(..4).unwrap(), same.slice(2..).unwrap());
    assert_eq!(
        error_text(copy.replay_with(&stream, &[(0, &front), (1, &back)])),
        "`replay` was not accepted: parameter 1 of the recording overlaps parameter 0 where task 0 writes one of them; copy one of them first"
    );
    copy.replay(&stream).unwrap();
    assert_eq!(stream.read(&b).wait().unwrap(), [1; 4]);
}

/// I2: replays from many threads that share a temporary are ordered.
pub(crate) fn one_recording_runs_from_many_threads(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, transfer, add_one) = (client.new_stream(), transfer(&client), add_one(&client));
    let (input, output) = (
        stream.create(&[0_u32; 8]).unwrap(),
        stream.empty::<u32>(8).unwrap(),
    );
    let step = stream
        .record(|recorder| {
            let temporary = recorder.empty::<u32>(8)?;
            recorder.launch(&transfer, one(), across(&input, &temporary))?;
            for _ in 0..3 {
                recorder.launch(&add_one, one(), in_place(&temporary))?;
            }
            recorder.launch(&transfer, one(), across(&temporary, &output))
        })
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (client, step) = (client.clone(), step.clone());
            scope.spawn(move || {
                let stream = client.new_stream();
                for round in 0..50 {
                    let value = thread * 1_000 + round;
                    let (input, output) = (
                        stream.create(&[value; 8]).unwrap(),
                        stream.empty::<u32>(8).unwrap(),
                    );
                    step.replay_with(&stream, &[(0, &input), (2, &output)])
                        .unwrap();
                    assert_eq!(stream.read(&output).wait().unwrap(), [value + 3; 8]);
                }
            });
        }
    });
}

/// I7: within a replay a failure reaches the data that depends on it, and nothing else.
pub(crate) fn poisoned_parameter_fails_only_the_tasks_that_read_it(on: On) {
    let rig = on.open_small(4 << 20);
    let client = rig.client();
    let (stream, transfer, boom) = (client.new_stream(), transfer(&client), boom(on, &client));
    let make = |value: u32| stream.create(&[value; 4]).unwrap();
    let (a, b, c, d) = (make(1), make(2), make(0), make(0));
    let pairs = stream
        .record(|recorder| {
            recorder.launch(&transfer, one(), across(&a, &c))?;
            recorder.launch(&transfer, one(), across(&b, &d))
        })
        .unwrap();
    boom.launch(&stream, &a).unwrap();
    pairs.replay(&stream).unwrap();
    assert!(stream.read(&c).wait().is_err());
    assert_eq!(stream.read(&d).wait().unwrap(), [2; 4]);
}

/// A recording keeps its handles and kernels alive.
pub(crate) fn recording_keeps_its_handles_and_kernels_alive(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let out = stream.empty::<u32>(1).unwrap();
    let step = {
        let (transfer, n) = (transfer(&client), stream.create(&[77_u32]).unwrap());
        stream
            .record(|recorder| recorder.launch(&transfer, one(), across(&n, &out)))
            .unwrap()
    };
    stream.sync().wait().unwrap();
    let _reuses_memory: Vec<_> = (0..100).map(|_| stream.create(&[3_u32]).unwrap()).collect();
    step.replay(&stream).unwrap();
    assert_eq!(stream.read(&out).wait().unwrap(), [77]);
    step.replay(&client.new_stream()).unwrap();
    drop(step);
    assert_eq!(stream.read(&out).wait().unwrap(), [77]);
}

/// A handle with another alignment than the recorded one would misalign the elements of a launch.
pub(crate) fn a_rebound_handle_must_be_aligned_as_the_recorded_one_was(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, add_one) = (client.new_stream(), add_one(&client));
    let values = stream.create(&[1_u32; 8]).unwrap();
    let step = stream
        .record(|recorder| recorder.launch(&add_one, one(), in_place(&values)))
        .unwrap();
    let bytes = stream.create(&[0_u8; 64]).unwrap();
    let refused = step.replay_with(&stream, &[(0, &bytes.slice(1..33).unwrap())]);
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("starts at byte 1")
    );
    step.replay_with(&stream, &[(0, &bytes.slice(4..36).unwrap())])
        .unwrap();
    assert_eq!(
        stream.read(&bytes).wait().unwrap()[..8],
        [0, 0, 0, 0, 1, 0, 0, 0]
    );
    let words = stream.record(|recorder| recorder.fill(&values, 7)).unwrap();
    let refused = words.replay_with(&stream, &[(0, &bytes.slice(2..34).unwrap())]);
    assert!(error_text(refused).ends_with("both must have the same offset modulo 4 bytes"));
}
