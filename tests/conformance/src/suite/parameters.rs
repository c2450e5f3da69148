//! Recordings with parameters and slots, as compiled schedules use them: a replay binds handles and words, in one
//! message (I1, I2, I5, I7, I8).

use millstream::stream::RecordedWord::{Slot, Value};
use millstream::{
    CancelToken, DeviceOptions, Error, Handle, Kernel, KernelHandle, Reason, Recorder, Recording,
    Stream, read, update, write,
};

use crate::support::*;

const LEN: usize = 8;

/// Packs two scalars of four bytes into a word.
pub(super) fn packed(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

/// Records: copy the first parameter to the back of a temporary, set its front to the value in slot 0 and add one, and
/// copy the whole temporary to the second parameter.
fn fill_and_append(stream: &Stream, set: &KernelHandle, add_one: &KernelHandle) -> Recording {
    let record = |recorder: &mut Recorder<'_>| {
        let (input, output) = (recorder.parameter(LEN)?, recorder.parameter(2 * LEN)?);
        let temporary = recorder.empty::<u32>(2 * LEN)?;
        let front = temporary.slice(..LEN).unwrap();
        let back = temporary.slice(LEN..).unwrap();
        recorder.copy(&input, &back)?;
        recorder.launch_words(set, one(), &[write(front.as_bytes())], &[Slot(0)])?;
        let n = Value(LEN as u64);
        recorder.launch_words(add_one, one(), &[update(front.as_bytes())], &[n])?;
        recorder.copy(&temporary, &output)
    };
    stream.record(record).unwrap()
}

/// Returns the output of a replay of [`fill_and_append`].
fn filled_and_appended(input: &[u32], value: u32) -> Vec<u32> {
    let front = std::iter::repeat_n(value + 1, LEN);
    front.chain(input.iter().copied()).collect()
}

/// I1, I2: one recording, other handles and other words each time, from any thread.
pub(crate) fn replays_bind_parameters_and_fill_slots_from_any_thread_i1_i2(on: On) {
    let rig = on.open();
    let client = rig.client();
    let recording = fill_and_append(&client.new_stream(), &set(&client), &add_one(&client));
    assert_eq!((recording.parameters(), recording.words()), (3, 1));
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (client, recording) = (&client, &recording);
            scope.spawn(move || {
                let stream = client.new_stream();
                for round in 0..50 {
                    let value = 100 * thread + round;
                    let input: Vec<u32> = (0..LEN as u32).map(|at| at * value).collect();
                    let from = stream.put(&input);
                    // Elements of the handle's slice before and behind the parameter keep their values.
                    let room = stream.put(&[9_u32; 3 * LEN]);
                    let to = room.slice(2..).unwrap();
                    let bound = [(2, to.as_bytes()), (0, from.as_bytes())];
                    let words = [packed(value, LEN as u32)];
                    recording.replay_args(&stream, &bound, &words).unwrap();
                    let mut expected = vec![9; 2];
                    expected.extend(filled_and_appended(&input, value));
                    expected.resize(3 * LEN, 9);
                    assert_eq!(stream.get(&room), expected);
                }
            });
        }
    });
}

/// I5: a replay binds handles to the recorder's parameters, in any order and of any element type, and to recorded
/// handles. A handle that is no parameter, one that is bound twice, and a view of a part are errors, and the replay
/// submits nothing.
pub(crate) fn parameter_is_identified_by_its_handle_i5(on: On) {
    let (rig, elsewhere) = (on.open(), on.open());
    let client = rig.client();
    let (stream, transfer) = (client.new_stream(), transfer(&client));
    let kept = stream.put(&[3_u32; LEN]);
    let mut recorder = stream.recorder();
    let unused = recorder.parameter::<u32>(LEN).unwrap();
    let bytes = recorder.parameter::<u8>(4).unwrap();
    let to = recorder.parameter::<u32>(LEN).unwrap();
    let back = kept.slice(2..).unwrap();
    let front = to.slice(..LEN - 2).unwrap();
    recorder
        .launch(&transfer, one(), across(&back, &front))
        .unwrap();
    recorder.fill(&bytes, 8).unwrap();
    let recording = recorder.finish().unwrap();
    let of = |handle: &Handle<u32>| recording.parameter_of(handle);
    assert_eq!((of(&kept), of(&to), of(&unused)), (Some(0), Some(1), None));
    assert_eq!((to.len(), rig.stats().failures), (LEN, 0));
    let out = stream.put(&[0_u32; LEN]);
    let out_bytes = stream.put(&[0_u8; 4]);
    let args = || recording.bind(&bytes, &out_bytes).bind(&to, &out);
    args().replay(&stream).unwrap();
    assert_eq!(stream.get(&out), [3, 3, 3, 3, 3, 3, 0, 0]);
    assert_eq!(stream.get(&out_bytes), [8; 4]);
    // A handle replaces a recorded one byte for byte: the recorded view skips two elements, so the replay skips them as
    // well.
    let other: Vec<u32> = (0..LEN as u32).collect();
    let other = stream.put(&other);
    args().bind(&kept, &other).replay(&stream.nowait()).unwrap();
    assert_eq!(stream.get(&out), [2, 3, 4, 5, 6, 7, 0, 0]);
    let mut second = stream.recorder();
    let second_parameter = second.parameter::<u32>(LEN).unwrap();
    second.fill(&second_parameter, 1).unwrap();
    let second = second.finish().unwrap();
    let view = kept.slice(3..).unwrap();
    let no_parameter = "no task of the recording accesses the handle to bind to: bind to a handle that \
                        `Recorder::parameter` returned for this recording";
    let twice = "parameter 1 of the recording is bound twice; bind one handle to it";
    let through_a_view = "parameter 0 of the recording is bound through a view of a part of it; bind it through the \
                          recorded handle";
    let unbound = "parameter 2 of the recording has no memory of its own; bind a handle to it";
    for (refused, why) in [
        (args().bind(&unused, &out), no_parameter),
        (args().bind(&second_parameter, &out), no_parameter),
        (second.bind(&to, &out), no_parameter),
        (args().bind(&to, &other), twice),
        (args().bind(&view, &other), through_a_view),
        (recording.bind(&to, &out), unbound),
    ] {
        let message = error_text(refused.replay(&stream));
        assert_eq!(message, format!("`replay` was not accepted: {why}"));
    }
    let foreign = elsewhere.client().new_stream();
    let other_device = foreign.put(&[1_u32; LEN]);
    for (refused, of) in [
        (args().bind(&kept, &other_device).replay(&stream), "handle"),
        (args().bind(&other_device, &other).replay(&stream), "handle"),
        (args().replay(&foreign), "recording"),
    ] {
        assert!(matches!(refused, Err(Error::Foreign { what, .. }) if what == of));
    }
    assert_eq!(stream.get(&out), [2, 3, 4, 5, 6, 7, 0, 0]);
    let args = second.bind(&second_parameter, &out);
    args.replay(&stream).unwrap();
    assert_eq!(stream.get(&out), [1; LEN]);
}

/// A task on a view of a parameter touches the same view of the bound handle, which may end there.
pub(crate) fn view_of_a_parameter_is_the_same_view_of_the_bound_handle(on: On) {
    let (_rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let record = |recorder: &mut Recorder<'_>| {
        let values = recorder.parameter::<u32>(LEN)?;
        recorder.launch(&add_one, one(), in_place(&values.slice(2..5).unwrap()))
    };
    let recording = stream.record(record).unwrap();
    let values = stream.put(&[0_u32; 5]);
    recording.replay_with(&stream, &[(0, &values)]).unwrap();
    assert_eq!(stream.get(&values), [0, 0, 1, 1, 1]);
    let bytes = stream.put(&[0_u8; 64]);
    let odd = bytes.slice(1..).unwrap();
    assert_eq!(
        error_text(recording.replay_with(&stream, &[(0, &odd)])),
        "`replay` was not accepted: parameter 0 of the recording was recorded at byte 0, the handle starts at byte 1: \
         both must have the same offset modulo 4 bytes"
    );
    let short = values.slice(1..).unwrap();
    assert_eq!(
        error_text(recording.replay_with(&stream, &[(0, &short)])),
        "`replay` was not accepted: parameter 0 of the recording needs a handle of at least 20 bytes, got 16"
    );
}

/// I1, I2, I7: with `allow_shorter` a shorter handle may be bound; bytes beside it are not touched, not waited for, and
/// not poisoned.
pub(crate) fn parameter_may_be_bound_to_a_shorter_handle_if_allowed(on: On) {
    let (_rig, _, stream) = on.start();
    let record = |recorder: &mut Recorder<'_>| {
        let from = recorder.parameter::<u32>(LEN)?;
        let to = recorder.scratch::<u32>(LEN)?;
        // SAFETY: each replay binds two handles of the same length; there is no kernel.
        unsafe {
            recorder.allow_shorter(&from);
            recorder.allow_shorter(&to);
        }
        recorder.fill(&to, 7)?;
        recorder.copy(&from, &to)?;
        // Of this range a replay has all, a part, or nothing.
        recorder.fill(&to.slice(2..4).unwrap(), 9)
    };
    let recording = stream.record(record).unwrap();
    let memory = stream.put(&[1_u32; 2 * LEN]);
    for len in [LEN, 4, 3, 2, 1, 0] {
        stream.fill(&memory, 1).unwrap();
        // Adjacent: if the server took either to be longer, they would overlap.
        let from = memory.slice(..len).unwrap();
        let to = memory.slice(len..2 * len).unwrap();
        let rebound = [(0, to.as_bytes()), (1, from.as_bytes())];
        recording.replay_args(&stream, &rebound, &[]).unwrap();
        let mut want = vec![1; 2 * LEN];
        let cut = |at: usize| at.min(len) + len;
        want[cut(2)..cut(4)].fill(9);
        assert_eq!(stream.get(&memory), want, "{len}");
    }
    // Bytes that are not bound do not fail.
    let failed = stream.with_cancel(&cancelled());
    failed.fill(&memory.slice(..1).unwrap(), 0).unwrap();
    let (from, to) = (memory.slice(..2).unwrap(), memory.slice(2..4).unwrap());
    let rebound = [(0, to.as_bytes()), (1, from.as_bytes())];
    recording.replay_args(&stream, &rebound, &[]).unwrap();
    stream.failure(&to);
    let beside = stream.get(&memory.slice(4..).unwrap());
    assert_eq!(beside.len(), 2 * LEN - 4);
}

fn cancelled() -> CancelToken {
    let token = CancelToken::new();
    token.cancel();
    token
}

pub(crate) fn incomplete_replay_is_refused_and_submits_nothing(on: On) {
    let (rig, client, stream) = on.start();
    let recording = fill_and_append(&stream, &set(&client), &add_one(&client));
    let from = stream.put(&[0_u32; LEN]);
    let to = stream.put(&[0_u32; 2 * LEN]);
    stream.drain();
    let (input, output) = ((0, from.as_bytes()), (2, to.as_bytes()));
    let tasks = rig.stats().tasks;
    let refused = |bound: &[(usize, &Handle<u8>)], words: &[u64]| {
        let nowait = recording.replay_args(&stream.nowait(), bound, words);
        let refused = error_text(recording.replay_args(&stream, bound, words));
        assert_eq!(error_text(nowait), refused);
        let why = refused.strip_prefix("`replay` was not accepted: ");
        why.unwrap().to_owned()
    };
    assert_eq!(refused(&[input, output], &[]), "expected 1 word, got 0");
    assert_eq!(refused(&[input, output], &[1, 2]), "expected 1 word, got 2");
    let unbound = "parameter 2 of the recording has no memory of its own; bind a handle to it";
    assert_eq!(refused(&[input], &[1]), unbound);
    assert_eq!(
        refused(&[(2, from.as_bytes()), input], &[1]),
        "parameter 2 of the recording needs a handle of at least 64 bytes, got 32"
    );
    assert_eq!(
        refused(&[input, output, (3, from.as_bytes())], &[1]),
        "parameter 3 of the recording does not exist, the recording has 3, counted from 0"
    );
    assert!(error_text(recording.replay(&stream)).contains("expected 1 word, got 0"));
    let other = on.open();
    let foreign = other.client().new_stream().put(&[0_u32; LEN]);
    let bound = [(0, foreign.as_bytes()), output];
    let error = recording.replay_args(&stream, &bound, &[1]).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    let stats = rig.stats();
    assert_eq!((stats.tasks, stats.failures), (tasks, 0));
    let error = recording.replay_args(&stream, &[output], &[1]).unwrap_err();
    let expected = "`replay` was not accepted: parameter 0 of the recording has no memory of its own; bind a handle to it";
    assert_eq!(error.to_string(), expected);
}

/// I5, I7: a parameter has no memory outside of replays. Every use of it returns that failure, no call hangs, and data
/// that does not depend on it is unchanged.
pub(crate) fn use_of_a_parameter_outside_of_a_recording_fails_i5_i7(on: On) {
    let (_rig, client, stream) = on.start();
    let transfer = transfer(&client);
    let good = stream.put(&[4_u32; LEN]);
    let out = stream.put(&[5_u32; LEN]);
    let mut parameter = None;
    let record = |recorder: &mut Recorder<'_>| {
        let recorded = recorder.parameter::<u32>(LEN)?;
        recorder.launch(&transfer, one(), across(&recorded, &good))?;
        parameter = Some(recorded);
        Ok(())
    };
    let recording = stream.record(record).unwrap();
    let parameter = parameter.unwrap();
    let why = "`parameter` failed: a parameter of a recording has no memory of its own; give it to the recorder only, \
               and bind a handle to it at each replay";
    assert!(stream.failure(&parameter).starts_with(why));
    launch_transfer(&stream, &transfer, &parameter, &out).unwrap();
    let message = stream.failure(&out);
    assert!(
        message.starts_with(why) && message.ends_with("`transfer`"),
        "{message}"
    );
    // A write to the parameter defines nothing.
    stream.write(&parameter, &[1; LEN]).unwrap();
    stream.fill(&parameter, 2).unwrap();
    launch_transfer(&stream, &transfer, &good, &parameter).unwrap();
    assert!(stream.failure(&parameter).contains(why));
    assert!(on.guard(&stream, (read(&parameter),)).is_err());
    // A replay of another recording that binds the parameter fails as well.
    let mut other = None;
    let record = |recorder: &mut Recorder<'_>| {
        let formal = recorder.parameter::<u32>(LEN)?;
        for _ in 0..3 {
            recorder.launch(&transfer, one(), across(&formal, &out))?;
        }
        other = Some(formal);
        Ok(())
    };
    let second = stream.record(record).unwrap();
    second.replay_with(&stream, &[(0, &parameter)]).unwrap();
    assert!(stream.failure(&out).contains(why));
    second.replay_with(&stream, &[(0, &good)]).unwrap();
    assert_eq!(stream.get(&out), [4; LEN]);
    recording.replay_with(&stream, &[(0, &out)]).unwrap();
    assert_eq!(stream.get(&good), [4; LEN]);
    let failed = stream.read(&parameter).wait().unwrap_err();
    assert_eq!(reason(&failed), &Reason::Parameter);
    drop((parameter, other, recording, second));
    stream.drain();
}

/// I8: A replay on a stream that does not wait returns `Busy` if there is no room, and submits nothing.
pub(crate) fn replay_that_finds_no_room_returns_busy_i8(on: On) {
    let (rig, client, stream) = on.start_with(DeviceOptions::default().mailbox_capacity(8));
    let recording = fill_and_append(&stream, &set(&client), &add_one(&client));
    let from = stream.put(&[6_u32; LEN]);
    let to = stream.put(&[0_u32; 2 * LEN]);
    stream.drain();
    let bound = [(0, from.as_bytes()), (2, to.as_bytes())];
    let replay = |value| {
        let words = [packed(value, LEN as u32)];
        recording.replay_args(&stream.nowait(), &bound, &words)
    };
    // A device thread makes room all the time, so the mailbox may never be full there.
    let rounds = if rig.driver.is_some() { 10_000 } else { 50 };
    let refused = (1..rounds).find_map(|value| Some((value, replay(value).err()?)));
    let (value, refused) = refused.unzip();
    assert!(refused.is_some() || rig.driver.is_none());
    assert!(
        matches!(refused, None | Some(Error::Busy { .. })),
        "{refused:?}"
    );
    let expected = filled_and_appended(&[6; LEN], value.unwrap_or(rounds) - 1);
    assert_eq!(stream.get(&to), expected);
}

/// I7: a replay defines the scratch memory that it reads, so it inherits no earlier failure from there; it does inherit
/// the failures of its other bindings.
/// Needs: RustKernels.
pub(crate) fn replay_inherits_no_failure_of_an_earlier_replay_from_its_scratch(on: On) {
    let (_rig, client, stream) = on.start();
    let spread = Kernel::new("spread")
        .reads::<u32>("seed")
        .updates::<u32>("table")
        .native(|_, args| {
            let seed = args.read::<u32>(0)[0];
            assert_ne!(seed, 13, "unlucky");
            args.chunk::<u32>(1).fill(seed);
        });
    let spread = client.kernel(spread).unwrap();
    let record = |recorder: &mut Recorder<'_>| {
        let seed = recorder.parameter::<u32>(1)?;
        let table = recorder.scratch::<u32>(LEN)?;
        let out = recorder.parameter::<u32>(LEN)?;
        recorder.launch(&spread, 1, (read(&seed), update(&table)))?;
        recorder.copy(&table, &out)
    };
    let recording = stream.record(record).unwrap();
    let table = stream.put(&[0_u32; LEN]);
    let replay = |seed: u32| {
        let (seed, out) = (stream.create(&[seed])?, stream.empty::<u32>(LEN)?);
        let bound = [seed.as_bytes(), table.as_bytes(), out.as_bytes()];
        let bound: Vec<_> = bound.into_iter().enumerate().collect();
        recording.replay_args(&stream, &bound, &[])?;
        // No wait here: the next replay is issued before this one fails.
        Ok::<_, Error>(stream.read(&out))
    };
    let answers = [1, 13, 2, 13, 13, 3].map(|seed| (seed, replay(seed).unwrap()));
    for (seed, answer) in answers {
        match seed {
            13 => assert!(error_text(answer.wait()).contains("unlucky")),
            _ => assert_eq!(answer.wait().unwrap(), [seed; LEN]),
        }
    }
}
