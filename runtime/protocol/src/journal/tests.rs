//! The log as bytes: written bytes can be read again, and any other bytes return a typed error.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use millstream_ir::{DType, Program};
use millstream_sync::slots::SlotId;
use proptest::prelude::*;
use proptest::sample::Index;

use super::encoding::{decode, encode};
use super::*;
use crate::binding::Access;
use crate::id::KernelId;
use crate::kernel::{Kernel, Signature};
use crate::launch::{LaunchCount, Pattern, TensorMap};
use crate::layout::Strided;
use crate::memory::AllocationMode;
use crate::priority::Priority;
use crate::recording::{RecordedBinding, RecordedOp, RecordedTask, ScalarSlot};

/// Entries of each kind, and their bytes. These follow from the order of variants and fields in `entry.rs` and `code.rs`,
/// which is easily changed by mistake.
fn samples() -> Vec<(Entry<'static>, &'static [u8])> {
    let binding = |parameter, access| RecordedBinding {
        parameter,
        offset: 300,
        len: 64,
        access,
        aliases: true,
    };
    let task = |work, bindings: Vec<_>| Entry::Task {
        stream: 1,
        work,
        bindings: bindings.into(),
    };
    let kernel = Kernel::new("k")
        .raw::<half::bf16>("a", Access::ReadWrite)
        .scalar::<u32>("n");
    let launch = Work::Launch {
        kernel: 2,
        count: LaunchCount::Static([3, 1, 200]),
        scalars: vec![5].into(),
        metadata: vec![6, 7].into(),
        tensor_maps: Vec::new().into(),
    };
    let pattern = Pattern {
        width: 4,
        value: 128,
    };
    let layout = Some(Box::new(Strided::new(&[2, 3], &[8, 1], 4).unwrap()));
    let recorded = |op, tensor_maps| {
        Entry::Recorded(Cow::Owned(RecordedTask {
            op,
            bindings: [binding(0, Access::Write)].into(),
            scalars: [9].into(),
            slots: [ScalarSlot::of_word(1, 2)].into(),
            metadata: [8].into(),
            tensor_maps,
        }))
    };
    let recorded_launch = RecordedOp::Launch {
        kernel: KernelId(SlotId {
            index: 2,
            generation: 0,
        }),
        count: LaunchCount::Dynamic,
    };
    let map = TensorMap::tiled(0, DType::F32, &[300], &[2]);
    let upload = Work::Upload {
        bytes: Cow::Borrowed(b"xyz"),
        layout: layout.clone(),
    };
    let readback = Work::Readback {
        tag: Some(9),
        layouts: vec![None, layout],
    };
    let replay = Work::Replay {
        recording: 4,
        words: vec![8].into(),
    };
    let stream = |priority| Entry::Stream {
        id: 6,
        client: 7,
        priority,
        weight: 1,
    };
    let slice = |mode| Entry::Slice {
        id: 5,
        stream: 1,
        bytes: 64,
        mode,
    };
    let kernel = Entry::Kernel {
        id: 2,
        name: "k".into(),
        signature: kernel.signature().clone(),
    };
    let withdrawn = Entry::Withdrawn {
        entry: 3,
        cancelled: true,
    };
    let (automatic, persistent) = (AllocationMode::Automatic, AllocationMode::Persistent);
    vec![
        (stream(Priority::Low), &[0, 6, 7, 0, 1]),
        (stream(Priority::High), &[0, 6, 7, 2, 1]),
        (
            kernel,
            b"\x01\x02\x01k\x01\x01a\x02\x04bf16\x03\x01\x01n\x03u32\0",
        ),
        (Entry::Recording { id: 4 }, &[2, 4]),
        (
            recorded(RecordedOp::Fill(pattern), [].into()),
            &[
                3, 2, 4, 128, 1, 1, 0, 172, 2, 64, 1, 1, 1, 9, 1, 1, 0, 8, 2, 1, 8, 0,
            ],
        ),
        (
            recorded(RecordedOp::Copy, [].into()),
            &[
                3, 1, 1, 0, 172, 2, 64, 1, 1, 1, 9, 1, 1, 0, 8, 2, 1, 8, 0,
            ],
        ),
        (
            recorded(recorded_launch, [map].into()),
            b"\x03\0\x02\x01\x01\0\xac\x02\x40\x01\x01\x01\x09\x01\x01\0\x08\x02\x01\x08\x01\0\0\x01\x02\x03f32\x01\xac\x02\x01\x04\x01\x01\0\0\0\0",
        ),
        (slice(None), &[4, 5, 1, 64, 0]),
        (slice(Some(automatic)), &[4, 5, 1, 64, 1, 0]),
        (slice(Some(persistent)), &[4, 5, 1, 64, 1, 1]),
        (slice(Some(AllocationMode::Dedicated)), &[4, 5, 1, 64, 1, 2]),
        (
            task(launch, vec![binding(5, Access::Read)]),
            &[
                5, 1, 0, 2, 0, 3, 1, 200, 1, 1, 5, 2, 6, 7, 0, 1, 5, 172, 2, 64, 0, 1,
            ],
        ),
        (
            task(upload, Vec::new()),
            b"\x05\x01\x01\x03xyz\x01\x04\x02\x02\x03\x02\x08\x01\0",
        ),
        (
            task(readback, Vec::new()),
            &[5, 1, 2, 1, 9, 2, 0, 1, 4, 2, 2, 3, 2, 8, 1, 0],
        ),
        (task(Work::Copy, Vec::new()), &[5, 1, 3, 0]),
        (
            task(Work::Fill(pattern), Vec::new()),
            &[5, 1, 4, 4, 128, 1, 0],
        ),
        (task(Work::Mark, Vec::new()), &[5, 1, 5, 0]),
        (task(replay, Vec::new()), &[5, 1, 6, 4, 1, 8, 0]),
        (
            task(Work::Gap("f".into()), Vec::new()),
            &[5, 1, 7, 1, b'f', 0],
        ),
        (Entry::Dropped { id: 300 }, &[6, 172, 2]),
        (withdrawn, &[7, 3, 1]),
        (Entry::Parameter { id: 1, bytes: 64 }, &[8, 1, 64]),
    ]
}

/// The bytes of entries, and their number: samples, of which a few bytes were replaced by others if that gives an entry.
fn entries(count: Range<usize>) -> impl Strategy<Value = (Vec<u8>, u64)> {
    let change = (any::<Index>(), prop::collection::vec(any::<u8>(), 0..10));
    let changes = prop::collection::vec(change, 0..3);
    let all = prop::collection::vec((any::<Index>(), changes), count);
    all.prop_map(|all| {
        let mut body = Vec::new();
        for (sample, changes) in &all {
            let (entry, bytes) = sample.get(&samples()).clone();
            let mut bytes = bytes.to_vec();
            for (place, by) in changes {
                let place = place.index(bytes.len());
                bytes.splice(place..=place, by.iter().copied());
                bytes.push(0);
            }
            encode(&decode(&mut &*bytes).unwrap_or(entry), &mut body);
        }
        (body, all.len() as u64)
    })
}

fn log_of((body, entries): (Vec<u8>, u64)) -> SubmissionLog {
    SubmissionLog::new("cpu", (0, 2), entries, true, body)
}

fn empty() -> SubmissionLog {
    log_of((Vec::new(), 0))
}

fn written(log: &SubmissionLog) -> Vec<u8> {
    let mut file = Vec::new();
    log.write_to(&mut file).unwrap();
    file
}

proptest! {
    #[test]
    fn written_log_can_be_read_again((body, count) in entries(0..20)) {
        let log = log_of((body.clone(), count));
        let mut file = written(&log);
        // The reader must leave the bytes behind the log.
        file.extend_from_slice(b"more");
        let mut from = file.as_slice();
        let again = SubmissionLog::read_from(&mut from).unwrap();
        prop_assert_eq!(from, b"more");
        let mut encoded = Vec::new();
        again.entries().for_each(|entry| encode(&entry, &mut encoded));
        prop_assert_eq!(encoded, body);
        prop_assert_eq!(again, log);
    }

    /// A changed byte is found anywhere; the kind of error depends on its place.
    #[test]
    fn damaged_log_is_an_error(
        entries in entries(0..8), place in any::<Index>(), by in 1_u8..,
    ) {
        let mut file = written(&log_of(entries));
        let place = place.index(file.len());
        file[place] ^= by;
        prop_assert!(SubmissionLog::read_from(file.as_slice()).is_err(), "byte {place}");
    }

    #[test]
    fn log_that_is_cut_off_is_truncated(entries in entries(0..8), place in any::<Index>()) {
        let file = written(&log_of(entries));
        let kept = &file[..1 + place.index(file.len() - 1)];
        let error = SubmissionLog::read_from(kept).unwrap_err();
        prop_assert!(matches!(error, LogError::Truncated), "{error}");
    }

    /// Entries are not trusted, even if the digest matches: no panic, and memory in proportion to the bytes.
    #[test]
    fn arbitrary_bytes_decode_or_are_refused(mut body in prop::collection::vec(any::<u8>(), 0..200), tag in 0_u8..9) {
        body.insert(0, tag);
        let mut bytes = body.as_slice();
        while !bytes.is_empty() && decode(&mut bytes).is_ok() {}
    }

    #[test]
    fn entry_with_a_changed_byte_decodes_or_is_refused(
        (mut body, _) in entries(1..2), place in any::<Index>(), byte in any::<u8>(),
    ) {
        let place = place.index(body.len());
        body[place] = byte;
        let _ = decode(&mut body.as_slice());
    }
}

#[test]
fn foreign_bytes_and_other_versions_have_errors_of_their_own() {
    let error = |file: &[u8]| SubmissionLog::read_from(file).unwrap_err();
    assert!(matches!(error(b""), LogError::Foreign));
    assert!(matches!(
        error(b"\x89PNG\r\n\x1a\n and more"),
        LogError::Foreign
    ));
    let mut file = written(&empty());
    file[8] = 5;
    assert!(matches!(
        error(&file),
        LogError::Version { found: 5, known: 4 }
    ));
    file[8] = 1;
    assert!(matches!(
        error(&file),
        LogError::Version { found: 1, known: 4 }
    ));
}

/// A false length allocates nothing: it would be more memory than any machine has.
#[test]
fn false_length_is_truncated() {
    let log = empty();
    let mut file = written(&log);
    let size = file.len() - 16;
    file[size..size + 8].copy_from_slice(&(u64::MAX >> 1).to_le_bytes());
    let error = SubmissionLog::read_from(file.as_slice()).unwrap_err();
    assert!(matches!(error, LogError::Truncated));
    let list = [&[5, 0, 3][..], &[255; 9], &[1]].concat();
    assert_eq!(
        decode(&mut list.as_slice()).unwrap_err(),
        "the bytes end within an entry"
    );
}

/// The layout of scalars is logged: those of a program are not packed.
#[test]
fn scalars_of_a_program_keep_a_word_each() {
    let text = "kernel k threads 1 1 1 update y: f32 scalar a: f32 scalar b: f32 { }";
    let program = Program::Ssa(millstream_ir::ssa::parse(text).unwrap());
    let kernel = Kernel::from_program("k", Arc::new(program)).unwrap();
    let entry = Entry::Kernel {
        id: 0,
        name: "k".into(),
        signature: kernel.signature().clone(),
    };
    let mut body = Vec::new();
    encode(&entry, &mut body);
    let read = decode(&mut body.as_slice()).unwrap();
    let Entry::Kernel { signature, .. } = &read else {
        panic!("{read:?}");
    };
    assert!(signature.takes_the_same(kernel.signature()));
    assert_eq!(signature.scalar_words(), 2);
    // A flag of a later version.
    *body.last_mut().unwrap() |= 4;
    assert!(decode(&mut body.as_slice()).is_err());
}

/// The time to read a log grows linearly: computing the layout after each scalar would take an hour here.
#[test]
fn kernel_with_very_many_scalars_is_read() {
    let mut signature = Signature::default();
    signature.push_scalars((0..200_000).map(|_| ("".into(), DType::U32)));
    let name = "k".into();
    let id = 0;
    let kernel = Entry::Kernel {
        id,
        name,
        signature,
    };
    let mut body = Vec::new();
    encode(&kernel, &mut body);
    let log = log_of((body, 1));
    assert_eq!(
        SubmissionLog::read_from(written(&log).as_slice()).unwrap(),
        log
    );
}

#[test]
fn parts_are_appended_only_in_order() {
    let part = |number| {
        let mut body = Vec::new();
        encode(&Entry::Dropped { id: number }, &mut body);
        SubmissionLog::new("sim", (number, number), 1, true, body)
    };
    let mut log = part(0);
    assert!(matches!(
        log.append(&part(2)),
        Err(LogError::Order { last: 0, given: 2 })
    ));
    let cut = SubmissionLog::new("sim", (0, 0), 0, false, Vec::new());
    assert!(matches!(
        cut.clone().append(&part(1)),
        Err(LogError::Cut { last: 0 })
    ));
    log.append(&part(1)).unwrap();
    log.append(&part(2)).unwrap();
    assert_eq!((log.parts(), log.len()), (0..=2, 3));
    let objects = log.entries().map(|entry| match entry {
        Entry::Dropped { id } => id,
        other => panic!("{other:?}"),
    });
    assert_eq!(objects.collect::<Vec<_>>(), [0, 1, 2]);
}

/// A name that is too long is cut at the end of a character, so that the file is valid.
#[test]
fn log_of_a_backend_with_a_long_name_is_read_again() {
    for name in [
        "x".repeat(300),
        format!("x{}", "é".repeat(200)),
        "y".repeat(255),
    ] {
        let log = SubmissionLog::new(&name, (0, 0), 0, true, Vec::new());
        assert!(name.starts_with(log.backend()) && log.backend().len() >= 254);
        assert_eq!(
            SubmissionLog::read_from(written(&log).as_slice()).unwrap(),
            log
        );
    }
}

/// The message contains the cause, so the chain of sources must not repeat it.
#[test]
fn io_error_displays_its_cause_once() {
    let error = LogError::from(std::io::Error::other("no disk"));
    assert!(error.to_string().ends_with("no disk"));
    assert!(std::error::Error::source(&error).is_none());
}

/// A change of these bytes needs another version of the format, because logs are kept with bug reports.
#[test]
fn bytes_of_a_log_are_stable() {
    for (entry, bytes) in samples() {
        let mut body = Vec::new();
        encode(&entry, &mut body);
        assert_eq!(body, *bytes, "{entry:?}");
        let log = SubmissionLog::new("cpu", (0, 0), 1, true, body);
        assert_eq!(log.entries().next().as_ref(), Some(&entry));
    }
    let log = SubmissionLog::new("cpu", (0, 300), 1, true, vec![8, 1, 64]);
    let file = written(&log);
    let expected: [&[u8]; 6] = [
        b"mslog\r\n\x1a",
        &[4, 0],
        &[9, 0, 1, 0, 172, 2, 1, 3, b'c', b'p', b'u'],
        &3_u64.to_le_bytes(),
        &[8, 1, 64],
        &0xfa44_e22f_3e76_1f05_u64.to_le_bytes(),
    ];
    assert_eq!(file, expected.concat());
}
