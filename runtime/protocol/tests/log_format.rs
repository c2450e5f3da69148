//! The bytes of a submission log, with one entry of each kind. They follow from the order of variants and fields in
//! `journal/entry.rs` and `journal/code.rs`, which is easily changed by mistake.
#![allow(clippy::unwrap_used, reason = "tests unwrap what they expect")]

use std::borrow::Cow;

use millstream_ir::DType;
use millstream_protocol::{
    Access, AllocationMode, Kernel, KernelId, LaunchCount, Pattern, Priority, Strided, TensorMap,
    journal::{Entry, SubmissionLog, Work, encode},
    recording::{RecordedBinding, RecordedOp, RecordedTask, ScalarSlot},
};
use millstream_sync::slots::SlotId;

/// A change of these bytes needs another version of the format, because logs are kept with bug reports.
#[test]
fn bytes_of_a_log_are_stable() {
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
    let entries: [(Entry<'_>, &[u8]); 22] = [
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
    ];
    for (entry, bytes) in &entries {
        let mut body = Vec::new();
        encode(entry, &mut body);
        assert_eq!(body, *bytes, "{entry:?}");
        let log = SubmissionLog::new("cpu", (0, 0), 1, true, body);
        assert_eq!(log.entries().next().as_ref(), Some(entry));
    }
    let log = SubmissionLog::new("cpu", (0, 300), 1, true, vec![8, 1, 64]);
    let mut file = Vec::new();
    log.write_to(&mut file).unwrap();
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
