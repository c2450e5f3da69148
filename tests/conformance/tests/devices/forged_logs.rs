//! Submission logs that were forged: they are refused with a typed error, or replayed. They never panic, hang, or touch
//! other memory.

use std::borrow::Cow;

use millstream::journal::{Entry, Work, encode};
use millstream::{
    AllocationMode, Error,
    journal::{Digest, ReplayError, SubmissionLog},
};
use millstream_protocol::{
    Access, LaunchCount, Pattern,
    recording::{RecordedBinding, RecordedOp, RecordedTask},
};
use millstream_testkit::Dice;
use rstest::rstest;
use rstest_reuse::apply;

use crate::program::{RandomProgram, kernels};
use crate::replaying::open_logged;
use crate::support::*;

/// A forged log with a valid digest may give wrong results, but it never panics, hangs or touches other memory.
#[test]
fn a_forged_log_is_refused_or_replayed() {
    let file = (0..).map(log_of_program).find(|file| {
        let log = SubmissionLog::read_from(file.as_slice()).unwrap();
        !log.entries().any(|entry| takes_too_long(&entry))
    });
    let file = file.unwrap();
    let (magic, end) = (8, file.len() - 8);
    let mut dice = Dice::new(11, 0);
    let mut replayed = 0;
    for _ in 0..1_500 {
        let mut forged = file.clone();
        for _ in 0..1 + dice.below(3) {
            let place = magic + 2 + dice.below(end - magic - 2);
            forged[place] = dice.below(256) as u8;
        }
        let digest = Digest::default().with(&forged[magic..end]);
        forged[end..].copy_from_slice(&digest.number().to_le_bytes());
        let Ok(log) = SubmissionLog::read_from(forged.as_slice()) else {
            continue;
        };
        if log.entries().any(|entry| takes_too_long(&entry)) {
            continue;
        }
        let rig = On::CpuDriven.open_small(1 << 20);
        let client = rig.client();
        replayed += usize::from(
            client
                .resubmit(&log, &kernels(On::CpuDriven, &client).list())
                .is_ok(),
        );
    }
    assert!(replayed > 20, "only {replayed} logs were replayed");
}

/// Returns the submission log of the random program of this seed.
fn log_of_program(seed: u64) -> Vec<u8> {
    let rig = open_logged(On::SimDriven);
    let client = rig.client();
    let mut program = RandomProgram::new(On::SimDriven, &client, seed);
    (0..60).for_each(|_| program.step().unwrap());
    program.finish().unwrap();
    let mut file = Vec::new();
    rig.device.take_log().unwrap().write_to(&mut file).unwrap();
    file
}

/// Returns a log of these entries with a valid head and digest.
fn forged(entries: &[&[u8]]) -> SubmissionLog {
    let body = entries.concat();
    // Version and length of the head; whether it is complete, the parts, the number of entries (one byte), and the
    // backend.
    let mut file = b"mslog\r\n\x1a\x04\0\x08\0\x01\0\0".to_vec();
    file.push(entries.len() as u8);
    file.extend_from_slice(b"\x03cpu");
    file.extend_from_slice(&(body.len() as u64).to_le_bytes());
    file.extend_from_slice(&body);
    let digest = Digest::default().with(&file[8..]);
    file.extend_from_slice(&digest.number().to_le_bytes());
    SubmissionLog::read_from(file.as_slice()).unwrap()
}

const STREAM: &[u8] = &[0, 0, 0, 1, 1];
/// The number 2^60 in the log's encoding.
const HUGE: [u8; 9] = [128, 128, 128, 128, 128, 128, 128, 128, 16];

/// A readback allocates host memory before the device reports that it has no memory for the slice, so a length beyond
/// the host memory must be an error.
#[test]
fn forged_length_is_an_error_and_does_not_abort_the_process() {
    let slice = [&[4, 1, 0][..], &HUGE, &[1, 0]].concat();
    let readback = [&[5, 0, 2, 0, 0, 1, 1, 0][..], &HUGE, &[0, 0]].concat();
    let log = forged(&[STREAM, &slice, &readback]);
    let rig = On::CpuDriven.open();
    let error = rig.client().resubmit(&log, &[]).unwrap_err();
    let expected = matches!(
        error,
        ReplayError::Refused {
            entry: 2,
            error: Error::Memory(_)
        }
    );
    assert!(expected, "{error}");
}

/// Points have no memory: a task on the bytes of a point is refused.
#[apply(every_device)]
fn forged_task_on_the_bytes_of_a_point_is_refused(#[case] on: On) {
    let point: &[u8] = &[4, 1, 0, 12, 0];
    // A mark, a fill and a readback of all bytes of the point.
    let binding = |access| [1, 1, 0, 12, access, 0];
    let mark = [&[5, 0, 5][..], &binding(0)].concat();
    let fill = [&[5, 0, 4, 4, 7][..], &binding(1)].concat();
    let readback = [&[5, 0, 2, 0, 0][..], &binding(0)].concat();
    for task in [fill, readback] {
        let rig = on.open();
        let log = forged(&[STREAM, point, &mark, &task]);
        let error = rig.client().resubmit(&log, &[]).unwrap_err();
        let expected = matches!(error, ReplayError::Broken { entry: 3, .. });
        assert!(expected, "{error}");
        rig.device.drain();
    }
}

/// A view has whole elements in a log as well: a fill that starts or ends within an element is refused.
#[apply(every_device)]
fn forged_fill_of_partial_elements_is_refused(#[case] on: On) {
    let slice: &[u8] = &[4, 1, 0, 12, 1, 0];
    // A fill with words of four bytes: `len` bytes from byte `start` on.
    let fill = |start, len| [5, 0, 4, 4, 7, 1, 1, start, len, 1, 0];
    for (start, len) in [(0, 9), (2, 8), (3, 1)] {
        let rig = on.open();
        let log = forged(&[STREAM, slice, &fill(4, 8), &fill(start, len)]);
        let error = rig.client().resubmit(&log, &[]).unwrap_err();
        let expected = matches!(error, ReplayError::Broken { entry: 3, .. });
        assert!(expected, "{error}");
        rig.device.drain();
    }
}

/// Returns a log of `replays` replays of a recording of `steps` fills.
fn many_replays(steps: usize, replays: usize) -> SubmissionLog {
    let binding = |parameter| RecordedBinding {
        parameter,
        offset: 0,
        len: 4,
        access: Access::Write,
        aliases: false,
    };
    let fill = RecordedTask {
        op: RecordedOp::Fill(Pattern::of(7_u32)),
        bindings: [binding(0)].into(),
        scalars: Box::default(),
        slots: Box::default(),
        metadata: Box::default(),
        tensor_maps: Box::default(),
    };
    let mut body = STREAM.to_vec();
    encode(
        &Entry::Slice {
            id: 1,
            stream: 0,
            bytes: 4,
            mode: Some(AllocationMode::Automatic),
        },
        &mut body,
    );
    encode(&Entry::Recording { id: 2 }, &mut body);
    for _ in 0..steps {
        encode(&Entry::Recorded(Cow::Borrowed(&fill)), &mut body);
    }
    let replay = Entry::Task {
        stream: 0,
        work: Work::Replay {
            recording: 2,
            words: Cow::Borrowed(&[]),
        },
        bindings: Cow::Owned(vec![binding(1)]),
    };
    for _ in 0..replays {
        encode(&replay, &mut body);
    }
    let entries = (steps + replays) as u64 + 3;
    SubmissionLog::new("cpu", (0, 0), entries, true, body)
}

/// A short log may submit very many tasks: the caller sets a maximum, and beyond it nothing is submitted (I12).
#[test]
fn resubmission_of_more_tasks_than_allowed_is_refused_i12() {
    let log = many_replays(300, 200);
    let rig = On::CpuDriven.open();
    let client = rig.client();
    let refused = client.resubmit_at_most(59_999, &log, &[], |_| {});
    let expected = matches!(
        refused,
        Err(ReplayError::TooManyTasks {
            tasks: 60_000,
            max: 59_999
        })
    );
    assert!(expected, "{refused:?}");
    assert_eq!(client.stats().wait().unwrap().tasks, 0);
    let log = many_replays(3, 2);
    assert!(client.resubmit_at_most(6, &log, &[], |_| {}).is_ok());
}

/// Returns `true` if the entry launches more cubes than a test has time for.
fn takes_too_long(entry: &Entry<'_>) -> bool {
    let count = match entry {
        Entry::Task {
            work: Work::Launch { count, .. },
            ..
        } => *count,
        Entry::Recorded(task) => match task.op {
            RecordedOp::Launch { count, .. } => count,
            _ => return false,
        },
        _ => return false,
    };
    match count {
        LaunchCount::Static(cubes) => {
            cubes.iter().map(|cubes| u64::from(*cubes)).product::<u64>() > 1_000
        }
        LaunchCount::Dynamic => true,
    }
}
