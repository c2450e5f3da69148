//! The log as bytes: written bytes can be read again, and any other bytes return a typed error.

use std::borrow::Cow;
use std::sync::Arc;

use millstream_ir::DType;
use millstream_sync::slots::SlotId;
use proptest::prelude::*;

use super::encoding::{decode, encode};
use super::*;
use crate::access::Access;
use crate::id::KernelId;
use crate::kernel::{BindingSpec, Share, Signature};
use crate::launch::{LaunchCount, Pattern, TensorMap};
use crate::layout::Strided;
use crate::memory::AllocationMode;
use crate::priority::Priority;
use crate::recording::{RecordedBinding, RecordedOp, RecordedTask, ScalarSlot};

fn access() -> impl Strategy<Value = Access> {
    prop::sample::select(vec![Access::Read, Access::Write, Access::ReadWrite])
}

/// Numbers of all magnitudes.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift)
}

fn text() -> impl Strategy<Value = Arc<str>> {
    "[a-zé ]{0,12}".prop_map(Arc::from)
}

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::ALL.to_vec())
}

fn bindings() -> impl Strategy<Value = Vec<RecordedBinding>> {
    let binding = (any::<u32>(), number(), number(), access(), any::<bool>());
    let binding = binding.prop_map(
        |(parameter, offset, len, access, aliases)| RecordedBinding {
            parameter,
            offset,
            len,
            access,
            aliases,
        },
    );
    prop::collection::vec(binding, 0..12)
}

fn layout() -> impl Strategy<Value = Option<Box<Strided>>> {
    let axes = prop::collection::vec((0_u64..9, 0_u64..9), 0..8);
    let layout = (axes, 1_u64..9).prop_map(|(axes, bytes)| {
        let (shape, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        Strided::new(&shape, &strides, bytes).ok().map(Box::new)
    });
    prop_oneof![Just(None), layout]
}

fn signature() -> impl Strategy<Value = Signature> {
    let shares = vec![Share::Whole, Share::Chunks, Share::Atomic, Share::Raw];
    let binding = (text(), access(), dtype(), prop::sample::select(shares));
    let bindings = prop::collection::vec(binding, 0..10);
    let scalars = prop::collection::vec((text(), dtype()), 0..10);
    (bindings, scalars, any::<bool>()).prop_map(|(bindings, scalars, aliases)| {
        let mut signature = Signature::default();
        for (name, access, dtype, share) in bindings {
            signature.push_binding(BindingSpec {
                name,
                access,
                dtype,
                share,
            });
        }
        for (name, dtype) in scalars {
            signature.push_scalar(name, dtype);
        }
        if aliases {
            signature.set_may_alias();
        }
        signature
    })
}

fn recorded() -> impl Strategy<Value = RecordedTask> {
    let count = prop_oneof![
        Just(LaunchCount::Dynamic),
        any::<[u32; 3]>().prop_map(LaunchCount::Static)
    ];
    let launch = (any::<u32>(), count).prop_map(|(index, count)| {
        let generation = 0;
        let kernel = KernelId(SlotId { index, generation });
        RecordedOp::Launch { kernel, count }
    });
    let width = prop::sample::select(vec![1_u8, 2, 4, 8]);
    let fill =
        (number(), width).prop_map(|(value, width)| RecordedOp::Fill(Pattern { value, width }));
    let op = prop_oneof![launch, fill, Just(RecordedOp::Copy)];
    let words = prop::collection::vec(number(), 0..20);
    let metadata = prop::collection::vec(any::<u32>(), 0..20);
    let slots =
        (any::<u32>(), any::<u32>()).prop_map(|(word, slot)| ScalarSlot::of_word(word, slot));
    let slots = prop::collection::vec(slots, 0..3);
    let map = (0_usize..9, dtype(), prop::collection::vec(number(), 0..5));
    let map = map.prop_map(|(binding, dtype, shape)| {
        TensorMap::tiled(binding, dtype, &shape, &vec![1; shape.len()])
    });
    let maps = prop::collection::vec(map, 0..3);
    (op, bindings(), words, slots, metadata, maps).prop_map(
        |(op, bindings, scalars, slots, metadata, tensor_maps)| RecordedTask {
            op,
            bindings: bindings.into(),
            scalars: scalars.into(),
            slots: slots.into(),
            metadata: metadata.into(),
            tensor_maps: tensor_maps.into(),
        },
    )
}

fn work() -> impl Strategy<Value = Work<'static>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    let upload = (bytes, layout()).prop_map(|(bytes, layout)| Work::Upload {
        bytes: Cow::Owned(bytes),
        layout,
    });
    let layouts = prop::collection::vec(layout(), 0..4);
    let readback = (prop::option::of(number()), layouts)
        .prop_map(|(tag, layouts)| Work::Readback { tag, layouts });
    let words = prop::collection::vec(number(), 0..20);
    let replay = (any::<u32>(), words).prop_map(|(recording, words)| Work::Replay {
        recording,
        words: words.into(),
    });
    let submitted = recorded().prop_map(|task| match task.op {
        RecordedOp::Launch { kernel, count } => Work::Launch {
            kernel: kernel.index(),
            count,
            scalars: task.scalars.into_vec().into(),
            metadata: task.metadata.into_vec().into(),
            tensor_maps: task.tensor_maps.into_vec().into(),
        },
        RecordedOp::Copy => Work::Copy,
        RecordedOp::Fill(pattern) => Work::Fill(pattern),
    });
    let gap = text().prop_map(Work::Gap);
    prop_oneof![submitted, gap, upload, readback, Just(Work::Mark), replay]
}

fn entry() -> impl Strategy<Value = Entry<'static>> {
    let priorities = vec![Priority::Low, Priority::Normal, Priority::High];
    let modes = vec![
        None,
        Some(AllocationMode::Automatic),
        Some(AllocationMode::Persistent),
        Some(AllocationMode::Dedicated),
    ];
    let id = any::<u32>;
    let stream = (id(), id(), prop::sample::select(priorities), any::<u32>());
    let slice = (id(), id(), number(), prop::sample::select(modes));
    prop_oneof![
        stream.prop_map(|(id, client, priority, weight)| Entry::Stream {
            id,
            client,
            priority,
            weight,
        }),
        (id(), text(), signature()).prop_map(|(id, name, signature)| Entry::Kernel {
            id,
            name,
            signature
        }),
        id().prop_map(|id| Entry::Recording { id }),
        recorded().prop_map(|task| Entry::Recorded(Cow::Owned(task))),
        (id(), number()).prop_map(|(id, bytes)| Entry::Parameter { id, bytes }),
        slice.prop_map(|(id, stream, bytes, mode)| Entry::Slice {
            id,
            stream,
            bytes,
            mode,
        }),
        (id(), work(), bindings()).prop_map(|(stream, mut work, bindings)| {
            // A readback has at most one layout per binding.
            if let Work::Readback { layouts, .. } = &mut work {
                layouts.truncate(bindings.len());
            }
            Entry::Task {
                stream,
                work,
                bindings: bindings.into(),
            }
        }),
        id().prop_map(|id| Entry::Dropped { id }),
        (number(), any::<bool>())
            .prop_map(|(entry, cancelled)| Entry::Withdrawn { entry, cancelled }),
    ]
}

fn log_of(entries: &[Entry<'_>]) -> SubmissionLog {
    let mut body = Vec::new();
    entries.iter().for_each(|entry| encode(entry, &mut body));
    SubmissionLog::new("cpu", (0, 2), entries.len() as u64, true, body)
}

fn written(log: &SubmissionLog) -> Vec<u8> {
    let mut file = Vec::new();
    log.write_to(&mut file).unwrap();
    file
}

proptest! {
    #[test]
    fn written_log_can_be_read_again(entries in prop::collection::vec(entry(), 0..20)) {
        let log = log_of(&entries);
        let mut file = written(&log);
        // The reader must leave the bytes behind the log.
        file.extend_from_slice(b"more");
        let mut from = file.as_slice();
        let again = SubmissionLog::read_from(&mut from).unwrap();
        prop_assert_eq!(from, b"more");
        prop_assert_eq!(again.entries().collect::<Vec<_>>(), entries);
        prop_assert_eq!(again, log);
    }

    /// A changed byte is found anywhere; the kind of error depends on its place.
    #[test]
    fn damaged_log_is_an_error(
        entries in prop::collection::vec(entry(), 0..8), place in any::<prop::sample::Index>(), by in 1_u8..,
    ) {
        let mut file = written(&log_of(&entries));
        let place = place.index(file.len());
        file[place] ^= by;
        prop_assert!(SubmissionLog::read_from(file.as_slice()).is_err(), "byte {place}");
    }

    #[test]
    fn log_that_is_cut_off_is_truncated(
        entries in prop::collection::vec(entry(), 0..8), place in any::<prop::sample::Index>(),
    ) {
        let file = written(&log_of(&entries));
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
        entry in entry(), place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut body = Vec::new();
        encode(&entry, &mut body);
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
    let mut file = written(&log_of(&[]));
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
    let log = log_of(&[]);
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

/// The time to read a log grows linearly: computing the layout after each scalar would take an hour here.
#[test]
fn kernel_with_very_many_scalars_is_read() {
    let mut signature = Signature::default();
    signature.push_scalars((0..200_000).map(|_| ("".into(), DType::U32)));
    let name = "k".into();
    let id = 0;
    let log = log_of(&[Entry::Kernel {
        id,
        name,
        signature,
    }]);
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
