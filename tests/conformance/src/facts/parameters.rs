//! Recordings with parameters and slots: what a compiled schedule is. A replay gives handles and words, in one message
//! (I1, I2, I7, I12); and launches whose arguments are made at run time.

use millstream::{
    CancelToken, DeviceOptions, Error, Handle, Kernel, KernelHandle, LaunchError, ParameterMisfit,
    Reason, RecordedWord, Recorder, Recording, Stream, read, update, write,
};

use crate::support::*;

use RecordedWord::{Slot, Value};

const LEN: usize = 8;

/// Two scalars of four bytes, as they are packed.
pub(super) fn packed(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

/// Sets a temporary to the value in slot 0, adds one to it, copies the first parameter behind it, and all of it to the
/// second: the recording, with the two.
fn fill_and_append(stream: &Stream, set: &KernelHandle, add_one: &KernelHandle) -> Recording {
    let record = |recorder: &mut Recorder<'_>| {
        let (input, output) = (recorder.parameter(LEN)?, recorder.parameter(2 * LEN)?);
        let temporary = recorder.empty::<u32>(2 * LEN)?;
        let (front, back) = (
            temporary.slice(..LEN).unwrap(),
            temporary.slice(LEN..).unwrap(),
        );
        recorder.copy(&input, &back)?;
        recorder.launch_words(set, one(), &[write(front.as_bytes())], &[Slot(0)])?;
        let n = Value(LEN as u64);
        recorder.launch_words(add_one, one(), &[update(front.as_bytes())], &[n])?;
        recorder.copy(&temporary, &output)
    };
    stream.record(record).unwrap()
}

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
        for thread in 0..3_u32 {
            let (client, recording) = (&client, &recording);
            scope.spawn(move || {
                let stream = client.new_stream();
                for round in 0..20 {
                    let value = 100 * thread + round;
                    let input: Vec<u32> = (0..LEN as u32).map(|at| at * value).collect();
                    let from = stream.create(&input).unwrap();
                    // A handle keeps its own start, and what it has beyond the parameter.
                    let room = stream.create(&[9_u32; 3 * LEN]).unwrap();
                    let to = room.slice(2..).unwrap();
                    let bound = [(2, to.as_bytes()), (0, from.as_bytes())];
                    let words = [packed(value, LEN as u32)];
                    recording.replay_args(&stream, &bound, &words).unwrap();
                    let mut expected = vec![9; 2];
                    expected.extend(filled_and_appended(&input, value));
                    expected.resize(3 * LEN, 9);
                    assert_eq!(stream.read(&room).wait().unwrap(), expected);
                }
            });
        }
    });
}

/// I5: a replay binds handles to what the recorder gave, in any order and of any elements, and to what was recorded. It tells what
/// is no parameter of it, what is bound twice, and what is only a part, and submits nothing then.
pub(crate) fn a_parameter_is_known_by_its_handle_i5(on: On) {
    let (rig, elsewhere) = (on.open(), on.open());
    let client = rig.client();
    let (stream, transfer) = (client.new_stream(), transfer(&client));
    let kept = stream.create(&[3_u32; LEN]).unwrap();
    let mut recorder = stream.recorder();
    let unused = recorder.parameter::<u32>(LEN).unwrap();
    let (bytes, to) = (
        recorder.parameter::<u8>(4).unwrap(),
        recorder.parameter::<u32>(LEN).unwrap(),
    );
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
    let out = stream.create(&[0_u32; LEN]).unwrap();
    let out_bytes = stream.create(&[0_u8; 4]).unwrap();
    let args = || recording.bind(&bytes, &out_bytes).bind(&to, &out);
    args().replay(&stream).unwrap();
    assert_eq!(stream.read(&out).wait().unwrap(), [3, 3, 3, 3, 3, 3, 0, 0]);
    assert_eq!(stream.read(&out_bytes).wait().unwrap(), [8; 4]);
    // What takes the place of a recorded handle does so byte for byte: its first two elements are not read either.
    let other: Vec<u32> = (0..LEN as u32).collect();
    let other = stream.create(&other).unwrap();
    args().bind(&kept, &other).replay(&stream.nowait()).unwrap();
    assert_eq!(stream.read(&out).wait().unwrap(), [2, 3, 4, 5, 6, 7, 0, 0]);
    let is_none = "`replay` was not accepted: no task of the recording accesses the handle to bind to: \
                   bind to a handle that `Recorder::parameter` returned for this recording";
    assert_eq!(
        sentence(args().bind(&unused, &out).replay(&stream)),
        is_none
    );
    let mut second = stream.recorder();
    let theirs = second.parameter::<u32>(LEN).unwrap();
    second.fill(&theirs, 1).unwrap();
    let second = second.finish().unwrap();
    assert_eq!(
        sentence(args().bind(&theirs, &out).replay(&stream)),
        is_none
    );
    assert_eq!(sentence(second.bind(&to, &out).replay(&stream)), is_none);
    assert_eq!(
        sentence(args().bind(&to, &other).replay(&stream)),
        "`replay` was not accepted: parameter 1 of the recording is bound twice; bind one handle to it"
    );
    assert_eq!(
        sentence(
            args()
                .bind(&kept.slice(3..).unwrap(), &other)
                .replay(&stream)
        ),
        "`replay` was not accepted: parameter 0 of the recording is bound through a view of a part of it; \
         bind it through the recorded handle"
    );
    assert_eq!(
        sentence(recording.bind(&to, &out).replay(&stream)),
        "`replay` was not accepted: parameter 2 of the recording has no memory of its own; bind a handle to it"
    );
    let foreign = elsewhere.client().new_stream();
    let strange = foreign.create(&[1_u32; LEN]).unwrap();
    for args in [args().bind(&kept, &strange), args().bind(&strange, &other)] {
        let error = args.replay(&stream).unwrap_err();
        assert!(
            matches!(error, Error::Foreign { what: "handle" }),
            "{error}"
        );
    }
    let error = args().replay(&foreign).unwrap_err();
    assert!(
        matches!(error, Error::Foreign { what: "recording" }),
        "{error}"
    );
    assert_eq!(stream.read(&out).wait().unwrap(), [2, 3, 4, 5, 6, 7, 0, 0]);
    second.bind(&theirs, &out).replay(&stream).unwrap();
    assert_eq!(stream.read(&out).wait().unwrap(), [1; LEN]);
}

/// A task on a part of a parameter touches that part of what is bound, and needs no more of it.
pub(crate) fn a_part_of_a_parameter_is_that_part_of_what_is_bound(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, add_one) = (client.new_stream(), add_one(&client));
    let record = |recorder: &mut Recorder<'_>| {
        let values = recorder.parameter::<u32>(LEN)?;
        recorder.launch(&add_one, one(), in_place(&values.slice(2..5).unwrap()))
    };
    let recording = stream.record(record).unwrap();
    let values = stream.create(&[0_u32; 5]).unwrap();
    recording.replay_with(&stream, &[(0, &values)]).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [0, 0, 1, 1, 1]);
    let bytes = stream.create(&[0_u8; 64]).unwrap();
    let odd = bytes.slice(1..).unwrap();
    assert_eq!(
        sentence(recording.replay_with(&stream, &[(0, &odd)])),
        "`replay` was not accepted: parameter 0 of the recording was recorded at byte 0, the handle starts at byte 1: \
         both must have the same offset modulo 4 bytes"
    );
    let short = values.slice(1..).unwrap();
    assert_eq!(
        sentence(recording.replay_with(&stream, &[(0, &short)])),
        "`replay` was not accepted: parameter 0 of the recording needs 20 bytes, the handle has 16"
    );
}

/// I1, I2, I7: a shorter handle takes the place of a parameter that may be shorter, and what lies beside it is neither touched nor
/// waited for, nor part of what fails.
pub(crate) fn a_parameter_may_be_bound_to_less_where_that_is_allowed(on: On) {
    let rig = on.open();
    let stream = rig.client().new_stream();
    let record = |recorder: &mut Recorder<'_>| {
        let (from, to) = (
            recorder.parameter::<u32>(LEN)?,
            recorder.scratch::<u32>(LEN)?,
        );
        // SAFETY: each replay binds two handles of the same length; there is no kernel.
        unsafe {
            recorder.allow_shorter(&from);
            recorder.allow_shorter(&to);
        }
        recorder.fill(&to, 7)?;
        recorder.copy(&from, &to)?;
        // Of this a replay has all, a part, or nothing.
        recorder.fill(&to.slice(2..4).unwrap(), 9)
    };
    let recording = stream.record(record).unwrap();
    let memory = stream.create(&[1_u32; 2 * LEN]).unwrap();
    for len in [LEN, 4, 3, 2, 1, 0] {
        stream.fill(&memory, 1).unwrap();
        // Side by side: if either was taken to be longer, they would overlap.
        let from = memory.slice(..len).unwrap();
        let to = memory.slice(len..2 * len).unwrap();
        let rebound = [(0, to.as_bytes()), (1, from.as_bytes())];
        recording.replay_args(&stream, &rebound, &[]).unwrap();
        let mut want = vec![1; 2 * LEN];
        let cut = |at: usize| at.min(len) + len;
        want[cut(2)..cut(4)].fill(9);
        assert_eq!(stream.read(&memory).wait().unwrap(), want, "{len}");
    }
    // What is not bound does not fail with the rest.
    let failed = stream.with_cancel(&cancelled());
    failed.fill(&memory.slice(..1).unwrap(), 0).unwrap();
    let (from, to) = (memory.slice(..2).unwrap(), memory.slice(2..4).unwrap());
    let rebound = [(0, to.as_bytes()), (1, from.as_bytes())];
    recording.replay_args(&stream, &rebound, &[]).unwrap();
    assert!(stream.read(&to).wait().is_err());
    let beside = stream.read(&memory.slice(4..).unwrap()).wait().unwrap();
    assert_eq!(beside.len(), 2 * LEN - 4);
}

fn cancelled() -> CancelToken {
    let token = CancelToken::new();
    token.cancel();
    token
}

pub(crate) fn a_replay_that_lacks_something_is_refused_and_submits_nothing(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let recording = fill_and_append(&stream, &set(&client), &add_one(&client));
    let from = stream.create(&[0_u32; LEN]).unwrap();
    let to = stream.create(&[0_u32; 2 * LEN]).unwrap();
    stream.sync().wait().unwrap();
    let (input, output) = ((0, from.as_bytes()), (2, to.as_bytes()));
    let tasks = rig.stats().tasks;
    let refused = |bound: &[(usize, &Handle<u8>)], words: &[u64]| {
        let twin = recording.try_replay_args(&stream, bound, words);
        let refused = sentence(recording.replay_args(&stream, bound, words));
        assert_eq!(sentence(twin), refused);
        refused
            .trim_start_matches("`replay` was not accepted: ")
            .to_owned()
    };
    assert_eq!(refused(&[input, output], &[]), "expected 1 word, got 0");
    assert_eq!(refused(&[input, output], &[1, 2]), "expected 1 word, got 2");
    let unbound = "parameter 2 of the recording has no memory of its own; bind a handle to it";
    assert_eq!(refused(&[input], &[1]), unbound);
    assert_eq!(
        refused(&[(2, from.as_bytes()), input], &[1]),
        "parameter 2 of the recording needs 64 bytes, the handle has 32"
    );
    assert_eq!(
        refused(&[input, output, (3, from.as_bytes())], &[1]),
        "parameter 3 of the recording does not exist, there are 3"
    );
    assert!(sentence(recording.replay(&stream)).contains("expected 1 word, got 0"));
    let other = on.open();
    let foreign = other.client().new_stream().create(&[0_u32; LEN]).unwrap();
    let bound = [(0, foreign.as_bytes()), output];
    let error = recording.replay_args(&stream, &bound, &[1]).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    let stats = rig.stats();
    assert_eq!((stats.tasks, stats.failures), (tasks, 0));
    let error = recording.replay_args(&stream, &[output], &[1]).unwrap_err();
    let misfit = LaunchError::Parameter {
        index: 0,
        misfit: ParameterMisfit::Unbound,
    };
    assert!(matches!(error, Error::Launch { why, .. } if why == misfit));
}

/// I5, I7: a parameter has no memory outside of replays. Whoever asks for what it would have been is told so, in every
/// way to ask; nothing hangs, and what is not made of it is as it was.
pub(crate) fn a_parameter_outside_of_a_recording_is_told_i5_i7(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, transfer) = (client.new_stream(), transfer(&client));
    let (good, out) = (
        stream.create(&[4_u32; LEN]).unwrap(),
        stream.create(&[5_u32; LEN]).unwrap(),
    );
    let mut made = None;
    let record = |recorder: &mut Recorder<'_>| {
        let parameter = recorder.parameter::<u32>(LEN)?;
        recorder.launch(&transfer, one(), across(&parameter, &good))?;
        made = Some(parameter);
        Ok(())
    };
    let recording = stream.record(record).unwrap();
    let parameter = made.unwrap();
    let why = "`parameter` failed: a parameter of a recording has no memory of its own; give it to the recorder only, \
               and bind a handle to it at each replay";
    assert!(sentence(stream.read(&parameter).wait()).starts_with(why));
    launch_transfer(&stream, &transfer, &parameter, &out).unwrap();
    let told = sentence(stream.read(&out).wait());
    assert!(
        told.starts_with(why) && told.ends_with("`transfer`"),
        "{told}"
    );
    // Writing to it defines nothing.
    stream.write(&parameter, &[1; LEN]).unwrap();
    stream.fill(&parameter, 2).unwrap();
    launch_transfer(&stream, &transfer, &good, &parameter).unwrap();
    assert!(sentence(stream.read(&parameter).wait()).contains(why));
    let guard = on.guard(&stream, (read(&parameter),));
    assert!(guard.is_err());
    // Nor does another recording have it, or a replay that binds it.
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
    assert!(sentence(stream.read(&out).wait()).contains(why));
    second.replay_with(&stream, &[(0, &good)]).unwrap();
    assert_eq!(stream.read(&out).wait().unwrap(), [4; LEN]);
    recording.replay_with(&stream, &[(0, &out)]).unwrap();
    assert_eq!(stream.read(&good).wait().unwrap(), [4; LEN]);
    let failed = stream.read(&parameter).wait().unwrap_err();
    let Error::Failed(failure) = failed else {
        panic!("{failed}");
    };
    assert_eq!(failure.root().reason, Reason::Parameter);
    drop((parameter, other, recording, second));
    stream.sync().wait().unwrap();
}

/// I8: the twin that never waits says that there is no room, and has submitted nothing.
pub(crate) fn a_replay_without_room_is_busy_i8(on: On) {
    let rig = on.open_with(DeviceOptions::default().mailbox_capacity(8));
    let client = rig.client();
    let stream = client.new_stream();
    let recording = fill_and_append(&stream, &set(&client), &add_one(&client));
    let from = stream.create(&[6_u32; LEN]).unwrap();
    let to = stream.create(&[0_u32; 2 * LEN]).unwrap();
    stream.sync().wait().unwrap();
    let bound = [(0, from.as_bytes()), (2, to.as_bytes())];
    let replay = |value| {
        let words = [packed(value, LEN as u32)];
        recording.try_replay_args(&stream, &bound, &words)
    };
    // A device with a thread makes room as fast as it can, so there it may never lack.
    let rounds = if rig.driver.is_some() { 10_000 } else { 50 };
    let (mut last, mut busy) = (0, false);
    for value in 1..rounds {
        match replay(value) {
            Ok(()) => last = value,
            Err(Error::Busy { .. }) => {
                busy = true;
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(busy || rig.driver.is_none());
    let expected = filled_and_appended(&[6; LEN], last);
    assert_eq!(stream.read(&to).wait().unwrap(), expected);
}

/// I7: a replay defines what it reads of its scratch memory, so it inherits nothing that failed there before; what it binds otherwise
/// it does inherit.
pub(crate) fn replay_inherits_no_failure_that_an_earlier_one_left_in_its_scratch(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let spreads = Kernel::new("spreads")
        .reads::<u32>("seed")
        .updates::<u32>("table")
        .native(|_, args| {
            let seed = args.read::<u32>(0)[0];
            assert_ne!(seed, 13, "unlucky");
            args.chunk::<u32>(1).fill(seed);
        });
    let spreads = client.kernel(spreads).unwrap();
    let record = |recorder: &mut Recorder<'_>| {
        let seed = recorder.parameter::<u32>(1)?;
        let table = recorder.scratch::<u32>(LEN)?;
        let out = recorder.parameter::<u32>(LEN)?;
        recorder.launch(&spreads, 1, (read(&seed), update(&table)))?;
        recorder.copy(&table, &out)
    };
    let recording = stream.record(record).unwrap();
    let table = stream.create(&[0_u32; LEN]).unwrap();
    let replay = |seed: u32| {
        let (seed, out) = (stream.create(&[seed])?, stream.empty::<u32>(LEN)?);
        let bound = [
            (0, seed.as_bytes()),
            (1, table.as_bytes()),
            (2, out.as_bytes()),
        ];
        recording.replay_args(&stream, &bound, &[])?;
        // Not waited for here: the next replay is issued while this one has not failed yet.
        Ok::<_, Error>(stream.read(&out))
    };
    let answers = [1, 13, 2, 13, 13, 3].map(|seed| (seed, replay(seed).unwrap()));
    for (seed, answer) in answers {
        match seed {
            13 => assert!(sentence(answer.wait()).contains("unlucky")),
            _ => assert_eq!(answer.wait().unwrap(), [seed; LEN]),
        }
    }
}
