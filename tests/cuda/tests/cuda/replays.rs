//! Replays of recordings: the first is issued task by task, and later ones as one graph of the driver.

use millstream_client::KernelHandle;
use millstream_client::arguments::{CubeCount, read, update, write};
use millstream_client::handle::Handle;
use millstream_client::{Recording, Stream};
use millstream_cuda::CudaLaunch;
use millstream_protocol::{Health, recording::RecordedWord};
use rstest::rstest;

use crate::support::*;

const LEN: usize = 64;

/// A recording of launches, copies and fills, and its output `tail`.
struct Rig {
    stream: Stream,
    tail: Handle<f32>,
    recording: Recording,
}

fn record(stream: &Stream, saxpy: &KernelHandle) -> Rig {
    let x = stream.create(&[1.0_f32; LEN]).unwrap();
    let y = stream.create(&[0.0_f32; LEN]).unwrap();
    let tail = stream.empty::<f32>(LEN).unwrap();
    let one = CubeCount::Static(1, 1, 1);
    let recording = stream.record(|r| {
        r.fill(&y, 0.5_f32)?;
        r.launch(
            saxpy,
            one.clone(),
            (read(&x), update(&y), 2.0_f32, LEN as u32),
        )?;
        r.copy(&y, &tail)?;
        r.copy(&y.slice(1..3).unwrap(), &tail.slice(5..7).unwrap())?;
        r.fill(&tail.slice(1..3).unwrap(), 0_f32)?;
        r.launch(
            saxpy,
            one.clone(),
            (read(&y), update(&tail), 1.0_f32, LEN as u32),
        )
    });
    let stream = stream.clone();
    Rig {
        stream,
        tail,
        recording: recording.unwrap(),
    }
}

/// Returns the `tail` that the recording computes if all elements of its input are `x`.
fn expected(x: f32) -> [f32; LEN] {
    let y = 2.0 * x + 0.5;
    let mut tail = [2.0 * y; LEN];
    tail[1..3].fill(y);
    tail
}

/// I1, I2: replays compute the same as their tasks, in the order of their stream and with any bound handles. From the
/// second on, each is one launch of a graph.
#[rstest]
fn replays_are_launched_as_one_graph_i1_i2(#[values(1, 2, 3, 4, 5, 6)] seed: u64) {
    let gpu = gpu(seed);
    let device = open(2);
    let client = device.new_client();
    let saxpy = client.kernel(saxpy()).unwrap();
    let rig = record(&client.new_stream(), &saxpy);
    let others: Vec<_> = (2..5)
        .map(|x| rig.stream.create(&[x as f32; LEN]).unwrap())
        .collect();
    rig.recording.replay(&rig.stream).unwrap();
    assert_eq!(rig.stream.read(&rig.tail).wait().unwrap(), expected(1.0));
    assert_eq!(
        gpu.calls("cuGraphLaunch"),
        0,
        "the first replay is issued task by task"
    );
    let launches = gpu.calls("cuLaunchKernel");
    for round in 1..5 {
        rig.recording.replay(&rig.stream).unwrap();
        assert_eq!(rig.stream.read(&rig.tail).wait().unwrap(), expected(1.0));
        assert_eq!(gpu.calls("cuGraphLaunch"), round);
    }
    assert_eq!(
        gpu.calls("cuGraphExecKernelNodeSetParams_v2"),
        0,
        "no node changes if the replay binds the same handles"
    );
    for (nth, other) in others.iter().enumerate() {
        let again = rig.recording.replay_with(&rig.stream, &[(1, other)]);
        again.unwrap();
        assert_eq!(
            rig.stream.read(&rig.tail).wait().unwrap(),
            expected(2.0 + nth as f32)
        );
        assert_eq!(
            gpu.calls("cuGraphExecKernelNodeSetParams_v2"),
            1 + nth as u64,
            "one node uses the bound handle"
        );
    }
    assert_eq!(gpu.calls("cuGraphInstantiateWithFlags"), 1);
    assert_eq!(gpu.calls("cuLaunchKernel"), launches);
}

/// I12: the tasks of a long recording are issued one by one as the stream has room, in the first replay and while spans
/// are recorded. All at once, they would fill the stream, and the driver would block the device thread; the fake reports
/// that. Later replays are one graph.
#[rstest]
fn a_long_replay_does_not_fill_the_stream_i12(#[values(false, true)] traced: bool) {
    const TASKS: u32 = 3_000;
    let gpu = gpu(1);
    let (_device, client, stream) = opened(1);
    let x = stream.create(&[0_u32; LEN]).unwrap();
    let recording = stream.record(|r| (1..=TASKS).try_for_each(|value| r.fill(&x, value)));
    let recording = recording.unwrap();
    stream.sync().wait().unwrap();
    // The device's turn does not wait for the beginning of a profile either.
    let profile = traced.then(|| stream.start_profile().unwrap());
    let memsets = gpu.calls("cuMemsetD32Async");
    gpu.hold_all();
    recording.replay(&stream).unwrap();
    while gpu.calls("cuMemsetD32Async") == memsets {
        std::thread::yield_now();
    }
    // The device thread answers once it has issued what it can.
    client.memory_usage().wait().unwrap();
    gpu.release_all();
    assert_eq!(stream.read(&x).wait().unwrap(), [TASKS; LEN]);
    recording.replay(&stream).unwrap();
    assert_eq!(stream.read(&x).wait().unwrap(), [TASKS; LEN]);
    let (graphs, rounds) = match traced {
        true => (0, 2),
        false => (1, 1),
    };
    assert_eq!(gpu.calls("cuGraphLaunch"), graphs);
    let memsets = gpu.calls("cuMemsetD32Async") - memsets;
    assert_eq!(memsets, rounds * u64::from(TASKS));
    if let Some(profile) = profile {
        stream.end_profile(profile).wait().unwrap();
    }
}

/// I1, I2: three chains of two tasks access different buffers, and two more tasks add up their results. The graph has
/// edges only between dependent tasks. The fake executes nodes in any order that the edges permit, and reports races.
#[rstest]
fn independent_branches_of_a_replay_are_not_ordered_i1_i2(#[values(1, 2, 3, 4, 5, 6)] seed: u64) {
    let gpu = gpu(seed);
    let device = open(1);
    let client = device.new_client();
    let saxpy = client.kernel(saxpy()).unwrap();
    let stream = client.new_stream();
    let x = stream.create(&[1.0_f32; LEN]).unwrap();
    let [a, b, c] = [0; 3].map(|_| stream.create(&[0.0_f32; LEN]).unwrap());
    let one = CubeCount::single();
    let recording = stream.record(|r| {
        for (branch, factor) in [(&a, 2.0_f32), (&b, 3.0), (&c, 4.0)] {
            r.fill(branch, 0.5_f32)?;
            let arguments = (read(&x), update(branch), factor, LEN as u32);
            r.launch(&saxpy, one.clone(), arguments)?;
        }
        for branch in [&b, &c] {
            let arguments = (read(branch), update(&a), 1.0_f32, LEN as u32);
            r.launch(&saxpy, one.clone(), arguments)?;
        }
        Ok(())
    });
    let recording = recording.unwrap();
    for _ in 0..4 {
        recording.replay(&stream).unwrap();
        assert_eq!(stream.read(&a).wait().unwrap(), [10.5; LEN]);
    }
    // Three edges from fills to launches, two to the launch that adds `b` to `a`, two to the launch that adds `c`.
    // There is no edge from `c`'s launch to the launch that adds `b`.
    assert_eq!(gpu.graphs(), ["8 nodes, 7 edges, longest path 4"]);
}

/// I2: a replay orders tasks whose arguments overlap, even if the recorded ones did not. It is issued task by task
/// then, since the graph lacks the edges.
#[rstest]
fn a_replay_orders_tasks_whose_arguments_overlap_i2(#[values(1, 2, 3, 4, 5, 6)] seed: u64) {
    let gpu = gpu(seed);
    let device = open(1);
    let client = device.new_client();
    let saxpy = client.kernel(saxpy()).unwrap();
    let stream = client.new_stream();
    let x = stream.create(&[1.0_f32; LEN]).unwrap();
    let one = CubeCount::single();
    let mut parameters = Vec::new();
    let recording = stream.record(|r| {
        for factor in [1.0_f32, 10.0, 100.0] {
            let y = r.parameter::<f32>(LEN)?;
            r.launch(
                &saxpy,
                one.clone(),
                (read(&x), update(&y), factor, LEN as u32),
            )?;
            r.launch(&saxpy, one.clone(), (read(&x), update(&y), factor, 8_u32))?;
            parameters.push(y);
        }
        Ok(())
    });
    let recording = recording.unwrap();
    let places: Vec<usize> = parameters
        .iter()
        .map(|y| recording.parameter_of(y).unwrap())
        .collect();
    let both = stream.create(&[0.0_f32; 3 * LEN]).unwrap();
    let part = |nth: usize| both.slice(nth * LEN..(nth + 1) * LEN).unwrap();
    let mut expected = vec![0.0; 3 * LEN];
    // The part of one buffer that each of the three parameters binds, and whether the replay launches the graph.
    for (turn, (parts, launched)) in [
        ([0, 1, 2], 0),
        ([0, 1, 2], 1),
        ([2, 0, 1], 1),
        ([0, 0, 1], 0),
        ([1, 1, 1], 0),
        ([0, 1, 2], 1),
    ]
    .into_iter()
    .enumerate()
    {
        let handles = parts.map(part);
        let bound: Vec<_> = places.iter().copied().zip(handles.each_ref()).collect();
        let bound: Vec<_> = bound.iter().map(|(at, y)| (*at, y.as_bytes())).collect();
        let before = gpu.calls("cuGraphLaunch");
        recording.replay_args(&stream, &bound, &[]).unwrap();
        for (part, factor) in parts.iter().zip([1.0, 10.0, 100.0]) {
            for (index, y) in expected[part * LEN..][..LEN].iter_mut().enumerate() {
                *y += if index < 8 { 2.0 * factor } else { factor };
            }
        }
        assert_eq!(stream.read(&both).wait().unwrap(), expected, "turn {turn}");
        let launches = gpu.calls("cuGraphLaunch") - before;
        assert_eq!(launches, launched, "turn {turn}");
    }
    assert_eq!(gpu.graphs(), ["6 nodes, 3 edges, longest path 2"]);
}

/// I1: a replay with other words changes only the nodes of those tasks that use them, by one call each.
#[test]
fn changed_words_cost_one_call_for_each_task_that_uses_them_i1() {
    let gpu = gpu(8);
    let device = open(1);
    let client = device.new_client();
    let saxpy = client.kernel(saxpy()).unwrap();
    let stream = client.new_stream();
    let x = stream.create(&[1.0_f32; LEN]).unwrap();
    let ys = [0; 2].map(|_| stream.create(&[0.0_f32; LEN]).unwrap());
    // Each task has two words, a factor and a length. The factors are slot 0, slot 1 and a fixed value.
    let (one, n) = (CubeCount::single(), RecordedWord::Value(LEN as u64));
    let mut parameter = None;
    let recording = stream.record(|r| {
        let y = r.parameter::<f32>(LEN)?;
        let bindings = [read(x.as_bytes()), update(y.as_bytes())];
        let fixed = RecordedWord::Value(u64::from(100_f32.to_bits()));
        for factor in [RecordedWord::Slot(0), RecordedWord::Slot(1), fixed] {
            r.launch_words(&saxpy, one.clone(), &bindings, &[factor, n])?;
        }
        parameter = Some(y);
        Ok(())
    });
    let recording = recording.unwrap();
    let index = recording.parameter_of(&parameter.unwrap()).unwrap();
    let changed = || gpu.calls("cuGraphExecKernelNodeSetParams_v2");
    let mut expected = [0.0; 2];
    // The index of the bound buffer, the words, and the number of nodes that change. The second replay builds the
    // graph.
    for (nth, (y, words, nodes)) in [
        (0, [1.0_f32, 10.0], 0),
        (0, [1.0, 10.0], 0),
        (0, [1.0, 10.0], 0),
        (0, [2.0, 10.0], 1),
        (0, [3.0, 20.0], 2),
        (0, [3.0, 20.0], 0),
        (1, [3.0, 20.0], 3),
        (0, [3.0, 30.0], 3),
        (0, [3.0, 20.0], 1),
    ]
    .into_iter()
    .enumerate()
    {
        let before = changed();
        let bits = words.map(|word| u64::from(word.to_bits()));
        let bound = [(index, ys[y].as_bytes())];
        recording.replay_args(&stream, &bound, &bits).unwrap();
        expected[y] += words[0] + words[1] + 100.0;
        let got = stream.read(&ys[y]).wait().unwrap();
        assert_eq!(got, [expected[y]; LEN], "replay {nth}");
        assert_eq!(changed() - before, nodes, "replay {nth}");
        assert_eq!(gpu.calls("cuGraphLaunch"), nth as u64, "replay {nth}");
    }
}

/// I7, I10: whichever driver call is refused, a replay computes the correct data or poisons it with the error, and
/// nothing leaks.
#[rstest]
fn a_refused_driver_call_during_replays_is_contained_i7_i10(#[values(1, 2, 200)] code: u32) {
    let mut failed_reads = 0;
    for nth in 1.. {
        let mut gpu = gpu(nth);
        let device = open(1);
        let client = device.new_client();
        let saxpy = client.kernel(saxpy()).unwrap();
        let rig = record(&client.new_stream(), &saxpy);
        let other = rig.stream.create(&[3.0_f32; LEN]).unwrap();
        rig.stream.sync().wait().unwrap();
        gpu.fault(None, nth, code);
        for x in [1.0, 1.0, 1.0, 3.0, 1.0] {
            let replayed = match x == 1.0 {
                true => rig.recording.replay(&rig.stream),
                false => rig.recording.replay_with(&rig.stream, &[(1, &other)]),
            };
            // The device is lost: the refused call was needed to keep the order.
            if replayed.is_err() {
                break;
            }
            match rig.stream.read(&rig.tail).wait() {
                Ok(read) => assert_eq!(read, expected(x), "call {nth}"),
                Err(_) => failed_reads += 1,
            }
        }
        gpu.may_leak = matches!(device.health(), Health::Lost { .. });
        if gpu.faults_injected() == 0 {
            assert!(nth > 20, "expected more than 20 driver calls, got {nth}");
            break;
        }
    }
    assert!(failed_reads > 0, "no refused call has poisoned any data");
}

/// I12: a dropped recording leaves no graph behind. Each queue that replays it has a graph of its own.
#[test]
fn graphs_are_destroyed_with_their_recordings_i12() {
    let gpu = gpu(7);
    let device = open(3);
    let client = device.new_client();
    let saxpy = client.kernel(saxpy()).unwrap();
    let rig = record(&client.new_stream(), &saxpy);
    let streams: Vec<_> = (0..3).map(|_| client.new_stream()).collect();
    for stream in streams.iter().cycle().take(30) {
        rig.recording.replay(stream).unwrap();
    }
    assert_eq!(rig.stream.read(&rig.tail).wait().unwrap(), expected(1.0));
    let built = gpu.calls("cuGraphInstantiateWithFlags");
    assert!(
        (1..=3).contains(&built),
        "expected at most one graph for each of 3 queues, got {built}"
    );
    drop(rig);
    // The device receives the drop before this sync, and destroys the graphs once the sync has completed.
    streams[0].sync().wait().unwrap();
    drop((streams, saxpy, client, device));
    assert_eq!(gpu.calls("cuGraphExecDestroy"), built);
    assert_eq!(gpu.calls("cuGraphDestroy"), built);
}

/// I6: every replay launches kernels with their attributes. Such a recording is issued task by task.
#[test]
fn replays_keep_launch_attributes_i6() {
    let gpu = gpu(9);
    let device = open(1);
    let client = device.new_client();
    let cluster = CudaLaunch::default().cluster([2, 1, 1]);
    let fill = client.kernel(fill().with(cluster)).unwrap();
    let stream = client.new_stream();
    let to = stream.empty::<u32>(LEN).unwrap();
    let recording = stream.record(|r| {
        for value in 1..4_u32 {
            r.launch(
                &fill,
                CubeCount::Static(4, 1, 1),
                (write(&to), value, LEN as u32),
            )?;
        }
        Ok(())
    });
    let recording = recording.unwrap();
    for _ in 0..4 {
        recording.replay(&stream).unwrap();
        assert_eq!(stream.read(&to).wait().unwrap(), [3; LEN]);
    }
    let launched = gpu.launched();
    assert_eq!(launched.len(), 12);
    assert!(
        launched
            .iter()
            .all(|launch| launch.contains("cluster [2, 1, 1]")),
        "{launched:?}"
    );
}
