//! The submission log: the log of many threads, replayed from one thread on any device, gives the same results bit for
//! bit (I1, I2). A log that cannot be replayed is a typed error, before any task runs.

use std::collections::BTreeMap;
use std::time::Instant;

use millstream::{
    AllocationMode, CancelToken, CubeCount, DeviceOptions, Error, Handle, Kernel, LaunchArgs,
    Metadata, Priority, Stream, TensorSpec,
    device::Feature,
    journal::{Digest, LoggedReadback, ReplayError, Replayed, SubmissionLog},
    read,
    stream::{RecordedWord, readbacks},
    update, write,
};
use millstream_testkit::{Dice, Kernels};
use rstest::rstest;
use rstest_reuse::apply;

use crate::program::{RandomProgram, infallible_kernels, kernels};
use crate::support::*;

/// More bytes than any of these logs needs.
const LOG_BYTES_MAX: u64 = 1 << 26;

const DEVICES: [On; 8] = [
    On::Cpu,
    On::CpuOneQueue,
    On::CpuDriven,
    On::Sim,
    On::SimDriven,
    On::Cuda,
    On::CudaOneQueue,
    On::CudaDriven,
];

/// Opens a device with a submission log.
pub(crate) fn open_logged(on: On) -> Rig {
    on.open_with(DeviceOptions::default().log_submissions(LOG_BYTES_MAX))
}

/// Writes the log to a file in memory and reads it again.
fn round_trip(log: &SubmissionLog) -> SubmissionLog {
    let mut file = Vec::new();
    log.write_to(&mut file).unwrap();
    SubmissionLog::read_from(file.as_slice()).unwrap()
}

/// Takes the log of a device, through a file in memory.
fn log_of(rig: &Rig) -> SubmissionLog {
    round_trip(&rig.device.take_log().unwrap())
}

/// Returns the words of a readback.
fn words_of(readback: &LoggedReadback) -> Vec<u32> {
    let bytes = readback.bytes.as_ref().unwrap();
    let words = bytes.chunks(4).map(|word| word.try_into().unwrap());
    words.map(u32::from_le_bytes).collect()
}

fn replay(log: &SubmissionLog, on: On) -> Replayed {
    let rig = on.open();
    let client = rig.client();
    let replayed = client.resubmit(log, &kernels(on, &client).list()).unwrap();
    rig.device.drain();
    replayed
}

/// I1, I2: the log alone has the order of the threads' tasks.
#[apply(every_device)]
fn log_of_many_threads_replays_bit_for_bit_from_one_thread_i1(#[case] on: On) {
    let rig = open_logged(on);
    let client = rig.client();
    let kernels = infallible_kernels(&client).list();
    let [add, mix] = [&kernels[0], &kernels[1]];
    let owner = client.new_stream();
    let buffers = [0, 1, 2, 3].map(|n: u32| owner.put(&[n; 64]));
    let mut seen: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (client, buffers) = (&client, &buffers);
            move || {
                let mut dice = Dice::new(thread + 1, 0);
                let (sender, mut results) = readbacks::<u32, u64>(100);
                let stream = client.new_stream();
                for step in 0..100 {
                    let (from, to) = (dice.below(4), dice.below(4));
                    let (from, to) = (&buffers[from], &buffers[to]);
                    match dice.below(5) {
                        // Neither kernel commutes with the other, so the results depend on the order.
                        0 | 1 if from.id() != to.id() => {
                            let arguments = Kernels::mixes(from, to);
                            stream.launch(mix, CubeCount::d1(3), arguments)
                        }
                        2 => {
                            let arguments = Kernels::adds(to, thread as u32);
                            stream.launch(add, CubeCount::d1(2), arguments)
                        }
                        3 => stream.write(to, &vec![dice.below(99) as u32; 64]),
                        _ => sender
                            .read(&stream, to, thread * 1000 + step)
                            .map_err(Into::into),
                    }
                    .unwrap();
                }
                drop(sender);
                let all = std::iter::from_fn(|| results.wait_next());
                all.map(|done| (done.tag, done.elements.unwrap().into_vec()))
                    .collect::<Vec<_>>()
            }
        };
        let threads = [0, 1, 2, 3].map(|thread| scope.spawn(work(thread)));
        for thread in threads {
            seen.extend(thread.join().unwrap());
        }
    });
    assert!(seen.len() > 50, "{}", seen.len());
    let log = rig.device.take_log().unwrap();
    assert!(log.is_complete() && log.len() > 300, "{log:?}");
    for other in DEVICES {
        let replayed = replay(&round_trip(&log), other);
        let again = replayed.readbacks.iter();
        let again = again.map(|readback| (readback.tag.unwrap(), words_of(readback)));
        assert_eq!(again.collect::<BTreeMap<_, _>>(), seen, "on {other:?}");
    }
}

/// I1, I7: failures are replayed as well, and the log of a replay has the same effect as the log.
#[apply(every_device)]
fn logs_of_random_programs_replay_the_same_on_every_device(#[case] on: On) {
    for seed in 1..=6 {
        let rig = open_logged(on);
        let client = rig.client();
        let mut program = RandomProgram::that_defines_all(on, &client, seed);
        if !on.runs_rust() {
            // There a failing task is a custom task with the user's code, which is not in the log.
            program = program.that_never_fails();
        }
        program.run().unwrap();
        let log = log_of(&rig);
        let digest = replay(&log, On::CpuDriven).digest;
        assert_ne!(digest, Digest::default());
        assert_eq!(replay(&log, On::SimDriven).digest, digest);
        let second = open_logged(on);
        let client = second.client();
        let kernels = kernels(on, &client).list();
        let replayed = client.resubmit(&log, &kernels).unwrap();
        assert_eq!(replayed.digest, digest);
        // A recording becomes its single tasks, so the second log is longer but has the same effect.
        let log = second.device.take_log().unwrap();
        assert_eq!(replay(&log, On::Cpu).digest, digest);
    }
}

/// Tasks of all kinds, with every part that a task can have.
#[apply(every_device)]
fn every_kind_of_task_is_replayed(#[case] on: On) {
    let rig = open_logged(on);
    let client = rig.client();
    let wide = || {
        let mut kernel = Kernel::new("wide");
        for binding in 0..10 {
            kernel = kernel.reads::<u8>(format!("in {binding}"));
        }
        kernel = kernel.writes::<u64>("out");
        for scalar in 0..20 {
            kernel = kernel.scalar::<u64>(format!("u {scalar}"));
        }
        kernel
            .scalar::<i8>("i")
            .scalar::<f32>("f")
            .scalar::<u32>("n")
            .with(MetadataWords(9))
            .native(|cube, args| {
                let bytes = (0..10).map(|binding| u64::from(args.read::<u8>(binding)[0]));
                let words = (0..20).map(|scalar| args.scalar::<u64>(scalar));
                let sum: u64 = bytes.chain(words).sum();
                let more =
                    args.scalar::<i8>(20) as u64 ^ u64::from(args.scalar::<f32>(21).to_bits());
                let metadata: u64 = args.metadata().iter().map(|word| u64::from(*word)).sum();
                for value in args.chunk::<u64>(10) {
                    *value = sum ^ more ^ metadata << 8 ^ cube.index() << 48;
                }
            })
    };
    let kernel = prepare(&client, wide()).unwrap();
    let high = rig.device.client_builder().priority(Priority::High).build();
    let stream = high.new_stream();
    let inputs: Vec<Handle<u8>> = (0..10_u8).map(|n| stream.put(&[n, 0, 0])).collect();
    let out = stream
        .empty_with::<u64>(12, AllocationMode::Dedicated)
        .unwrap();
    let arguments = || {
        let mut arguments = LaunchArgs::new();
        for input in &inputs {
            arguments = arguments.arg(read(input));
        }
        arguments = arguments.arg(write(&out));
        for scalar in 0..20_u64 {
            arguments = arguments.arg(scalar << scalar);
        }
        let metadata = Metadata::new().input(&[2, 3], &[3, 1], 6).unwrap();
        let arguments = arguments.arg(-3_i8).arg(0.5_f32).arg(12_u32);
        arguments.metadata(metadata)
    };
    let cubes = CubeCount::d1(4);
    stream.launch(&kernel, cubes, arguments()).unwrap();
    let first = stream.get(&out);
    // A dynamic number of cubes, if the device supports that.
    let dynamic = Feature::DynamicCubeCount;
    let cubes = match rig.device.properties().features.contains(&dynamic) {
        true => CubeCount::Dynamic(stream.put(&[3_u32, 1, 1])),
        false => CubeCount::d1(3),
    };
    stream.launch(&kernel, cubes, arguments()).unwrap();
    let second = stream.get(&out);
    let data = [1_u8, 2, 3, 4, 5, 6];
    let tensor = [(TensorSpec::pitched(&[2, 3]), data.as_slice())];
    let tensors = stream.create_tensors(&tensor).unwrap();
    let third = stream.read_tensors(&tensors).wait().unwrap();
    let point = stream.point().unwrap();
    let other = client.new_stream();
    other.wait_for(&point).unwrap();
    other.fill(&inputs[0], 7_u8).unwrap();
    other.copy(&inputs[0], &inputs[1]).unwrap();
    let fourth = other.read_many([&inputs[1], &inputs[2]]).wait().unwrap();
    assert_eq!(third, [[1, 2, 3, 4, 5, 6]]);
    assert_eq!(fourth, [[7, 7, 7], [2, 0, 0]]);

    let log = log_of(&rig);
    let again = on.open();
    let client = again.client();
    let kernel = prepare(&client, wide()).unwrap();
    let replayed = client.resubmit(&log, &[kernel]).unwrap();
    let words = |values: Vec<u64>| values.into_iter().flat_map(u64::to_le_bytes).collect();
    let expected: [Vec<u8>; 4] = [words(first), words(second), third.concat(), fourth.concat()];
    let got = replayed.readbacks.into_iter();
    let got = got.map(|readback| readback.bytes.unwrap());
    assert_eq!(got.collect::<Vec<_>>(), expected);
}

/// I1: the log has the handles and words of each replay, and the use of a parameter outside of a recording.
#[apply(every_device)]
fn replays_with_other_handles_and_words_are_replayed_i1(#[case] on: On) {
    let rig = open_logged(on);
    let client = rig.client();
    let (stream, kernels) = (client.new_stream(), infallible_kernels(&client).list());
    let [add, mix] = [&kernels[0], &kernels[1]];
    let mut parameter = None;
    let recording = stream.record(|recorder| {
        let (from, to) = (recorder.parameter::<u32>(8)?, recorder.parameter::<u32>(8)?);
        let (slot, n) = (RecordedWord::Slot(0), RecordedWord::Value(8));
        recorder.launch_words(add, one(), &[update(to.as_bytes())], &[slot])?;
        let bindings = [read(from.as_bytes()), update(to.as_bytes())];
        recorder.launch_words(mix, one(), &bindings, &[n])?;
        parameter = Some(from);
        Ok(())
    });
    let recording = recording.unwrap();
    let values = [1_u32, 2].map(|value| stream.put(&[value; 8]));
    let mut seen = Vec::new();
    for round in 0..4_usize {
        let [from, to] = [&values[round % 2], &values[(round + 1) % 2]];
        let by = (round as u64 + 1) | 8 << 32;
        let bound = [(0, to.as_bytes()), (1, from.as_bytes())];
        recording.replay_args(&stream, &bound, &[by]).unwrap();
        seen.push(stream.get(from));
    }
    let outside = parameter.unwrap();
    stream.read(&outside).wait().unwrap_err();
    let log = log_of(&rig);
    for other in [on, On::CpuDriven, On::SimDriven] {
        let mut readbacks = replay(&log, other).readbacks;
        let last = readbacks.pop().unwrap().bytes.unwrap_err().to_string();
        let why = "a parameter of a recording has no memory";
        assert!(last.contains(why), "{last}");
        let again: Vec<_> = readbacks.iter().map(words_of).collect();
        assert_eq!(again, seen, "on {other:?}");
    }
}

/// I1: a replay that binds a shorter handle is repeated on that handle, and touches nothing beside it.
#[apply(every_device)]
fn replays_with_shorter_handles_are_replayed_i1(#[case] on: On) {
    let rig = open_logged(on);
    let stream = rig.client().new_stream();
    let recording = stream.record(|recorder| {
        let values = recorder.parameter::<u32>(8)?;
        // SAFETY: there is no kernel, and no copy.
        unsafe { recorder.allow_shorter(&values) };
        recorder.fill(&values, 7)?;
        recorder.fill(&values.slice(2..4).unwrap(), 9)
    });
    let recording = recording.unwrap();
    let memory = stream.put(&[1_u32; 8]);
    let bound = memory.slice(1..4).unwrap();
    let bound = [(0, bound.as_bytes())];
    recording.replay_args(&stream, &bound, &[]).unwrap();
    let want = [1_u32, 7, 7, 9, 1, 1, 1, 1];
    assert_eq!(stream.get(&memory), want);
    let log = log_of(&rig);
    for other in [on, On::CpuDriven, On::SimDriven] {
        let readback = replay(&log, other).readbacks.pop().unwrap();
        assert_eq!(words_of(&readback), want, "on {other:?}");
    }
}

/// I6: a withdrawn task is withdrawn again, for the same reason.
#[apply(every_device)]
fn withdrawn_tasks_are_withdrawn_again_i6(#[case] on: On) {
    let rig = open_logged(on);
    let client = rig.client();
    let add = kernels(on, &client).add;
    let stream = client.new_stream();
    let values = stream.put(&[1_u32; 8]);
    let launch = |stream: &Stream| {
        let arguments = Kernels::adds(&values, 1);
        stream.launch(&add, one(), arguments).unwrap();
        stream.read(&values).wait()
    };
    let token = CancelToken::new();
    let request = stream.with_cancel(&token);
    assert_eq!(launch(&request).unwrap(), [2; 8]);
    token.cancel();
    launch(&request).unwrap_err();
    stream.fill(&values, 5).unwrap();
    launch(&stream.with_deadline(Instant::now())).unwrap_err();
    stream.fill(&values, 6).unwrap();
    assert_eq!(launch(&stream).unwrap(), [7; 8]);
    let replayed = replay(&rig.device.take_log().unwrap(), on).readbacks;
    let [first, cancelled, late, last] = &*replayed else {
        panic!("{replayed:?}");
    };
    assert_eq!((words_of(first)[0], words_of(last)[0]), (2, 7));
    for (withdrawn, why) in [(cancelled, "cancelled"), (late, "deadline")] {
        let message = withdrawn.bytes.as_ref().unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
}

/// User code is not in the log; if it may have written data, the replay is refused before it begins.
#[apply(every_device)]
fn unlogged_code_is_a_gap_only_if_it_may_have_written(#[case] on: On) {
    let rig = open_logged(on);
    let client = rig.client();
    let stream = client.new_stream();
    let values = stream.put(&[1_u32; 8]);
    stream.host("reads", (read(&values),), || {}).unwrap();
    stream.get(&values);
    let mut log = rig.device.take_log().unwrap();
    assert_eq!(replay(&log, on).readbacks.len(), 1);
    let written = on.with_resource(&stream, "writes", (update(&values),), |_| {});
    written.unwrap();
    stream.get(&values);
    log.append(&rig.device.take_log().unwrap()).unwrap();
    let fresh = on.open();
    let error = fresh.client().resubmit(&log, &[]).unwrap_err();
    assert!(matches!(&error, ReplayError::Gap { name, .. } if &**name == "writes"));
    assert_eq!(fresh.stats().tasks, 0, "a task was submitted");
}

#[apply(every_device)]
fn missing_or_different_kernel_is_an_error_before_anything_runs(#[case] on: On) {
    let rig = open_logged(on);
    let client = rig.client();
    let stream = client.new_stream();
    let values = stream.put(&[1_u32; 8]);
    launch_update(&stream, &add_one(&client), &values).unwrap();
    stream.drain();
    let log = rig.device.take_log().unwrap();
    let fresh = on.open();
    let client = fresh.client();
    let error = client.resubmit(&log, &[set(&client)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the log launches kernel `add_one`, which was not given; pass its handle in `kernels`"
    );
    let other = Kernel::new("add_one")
        .reads::<f32>("src")
        .scalar::<u8>("by")
        .native(|_, _| ())
        .source(empty_ptx("add_one", &["u64", "u8"]));
    let other = client.kernel(other).unwrap();
    let error = client.resubmit(&log, &[other]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `add_one` differs from the logged one: expected signature (update values: u32, n: u32), got (read src: f32, by: u8); pass the kernel of that signature"
    );
    assert_eq!(fresh.stats().tasks, 0, "a task was submitted");
}

/// I12: a log is bounded and ends with a whole entry; it can be taken in parts that append to each other.
#[apply(every_device)]
fn log_is_bounded_and_can_be_taken_in_parts_i12(#[case] on: On) {
    assert!(matches!(on.open().device.take_log(), Err(Error::NoLog)));
    let rig = on.open_with(DeviceOptions::default().log_submissions(4_000));
    let stream = rig.client().new_stream();
    let values = stream.put(&[0_u32; 200]);
    let write = |value: u32| {
        stream.write(&values, &[value; 200]).unwrap();
        stream.get(&values);
    };
    (0..3).for_each(write);
    let mut log = rig.device.take_log().unwrap();
    (3..6).for_each(write);
    let second = rig.device.take_log().unwrap();
    let refused = rig.client().resubmit(&second, &[]);
    assert!(matches!(refused, Err(ReplayError::NotTheStart { part: 1 })));
    log.append(&second).unwrap();
    assert!(log.is_complete() && log.size() > 4_000);
    assert_eq!(replay(&log, on).readbacks.len(), 6);
    // The bound is too small for these writes: some are missing, and a replay returns an error about that.
    (6..16).for_each(write);
    let third = rig.device.take_log().unwrap();
    assert!(!third.is_complete() && third.size() <= 4_000);
    log.append(&third).unwrap();
    let fresh = on.open();
    let refused = fresh.client().resubmit(&round_trip(&log), &[]).unwrap_err();
    assert!(matches!(refused, ReplayError::Cut { part: 2 }), "{refused}");
    assert_eq!(fresh.stats().tasks, 0, "a task was submitted");
    // The caller may accept the gap and replay the rest.
    log.accept_cut();
    let readbacks = replay(&round_trip(&log), on).readbacks;
    let last = readbacks.last().unwrap().bytes.as_ref().unwrap()[0];
    assert_eq!((readbacks.len(), last), (10, 9));
}
