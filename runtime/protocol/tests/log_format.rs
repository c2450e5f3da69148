//! The bytes of a submission log, with one entry of each kind. They follow from the order of variants and fields in
//! `journal/entry.rs` and `journal/code.rs`, which is easily changed by mistake.
#![allow(clippy::unwrap_used, reason = "tests unwrap what they expect")]

use std::borrow::Cow;

use millstream_protocol::access::Access;
use millstream_protocol::journal::{Entry, Part, Step, SubmissionLog, Work, encode};
use millstream_protocol::kernel::Kernel;
use millstream_protocol::launch::{LaunchCount, Pattern};
use millstream_protocol::layout::Strided;
use millstream_protocol::memory::AllocationMode;
use millstream_protocol::priority::Priority;
use millstream_protocol::recording::ScalarSlot;

/// A change of these bytes needs another version of the format, because logs are kept with bug reports.
#[test]
fn bytes_of_a_log_are_stable() {
    let part = |slice, access| Part {
        slice,
        offset: 300,
        len: 64,
        access,
    };
    let task = |work, parts| Entry::Task {
        stream: 1,
        work,
        parts,
    };
    let kernel = Kernel::new("k")
        .raw::<half::bf16>("a", Access::ReadWrite)
        .scalar::<u32>("n");
    let launch = Work::Launch {
        kernel: 2,
        count: LaunchCount::Static([3, 1, 200]),
        scalars: vec![5],
        metadata: vec![6, 7],
    };
    let pattern = Pattern {
        width: 4,
        value: 128,
    };
    let layout = Some(Box::new(Strided::new(&[2, 3], &[8, 1], 4).unwrap()));
    let step = Step {
        work: Work::Fill(pattern),
        slots: vec![ScalarSlot::of_word(1, 2)],
        parts: vec![part(0, Access::Write)],
    };
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
        words: vec![8],
    };
    let stream = |priority| Entry::Stream {
        client: 7,
        priority,
        weight: 1,
    };
    let slice = |mode| Entry::Slice {
        stream: 1,
        bytes: 64,
        mode,
    };
    let kernel = Entry::Kernel {
        name: "k".into(),
        signature: kernel.signature().clone(),
    };
    let withdrawn = Entry::Withdrawn {
        entry: 3,
        cancelled: true,
    };
    let (automatic, persistent) = (AllocationMode::Automatic, AllocationMode::Persistent);
    let entries: [(Entry<'_>, &[u8]); 19] = [
        (stream(Priority::Low), &[0, 7, 0, 1]),
        (stream(Priority::High), &[0, 7, 2, 1]),
        (
            kernel,
            b"\x01\x01k\x01\x01a\x02\x04bf16\x03\x01\x01n\x03u32\0",
        ),
        (
            Entry::Recording { steps: vec![step] },
            &[2, 1, 4, 4, 128, 1, 1, 1, 0, 8, 2, 1, 0, 172, 2, 64, 1],
        ),
        (slice(None), &[3, 1, 64, 0]),
        (slice(Some(automatic)), &[3, 1, 64, 1, 0]),
        (slice(Some(persistent)), &[3, 1, 64, 1, 1]),
        (slice(Some(AllocationMode::Dedicated)), &[3, 1, 64, 1, 2]),
        (
            task(launch, vec![part(5, Access::Read)]),
            &[
                4, 1, 0, 2, 0, 3, 1, 200, 1, 1, 5, 2, 6, 7, 1, 5, 172, 2, 64, 0,
            ],
        ),
        (
            task(upload, Vec::new()),
            b"\x04\x01\x01\x03xyz\x01\x04\x02\x02\x03\x02\x08\x01\0",
        ),
        (
            task(readback, Vec::new()),
            &[4, 1, 2, 1, 9, 2, 0, 1, 4, 2, 2, 3, 2, 8, 1, 0],
        ),
        (task(Work::Copy, Vec::new()), &[4, 1, 3, 0]),
        (
            task(Work::Fill(pattern), Vec::new()),
            &[4, 1, 4, 4, 128, 1, 0],
        ),
        (task(Work::Mark, Vec::new()), &[4, 1, 5, 0]),
        (task(replay, Vec::new()), &[4, 1, 6, 4, 1, 8, 0]),
        (
            task(Work::Gap("f".into()), Vec::new()),
            &[4, 1, 7, 1, b'f', 0],
        ),
        (Entry::Dropped { object: 300 }, &[5, 172, 2]),
        (withdrawn, &[6, 3, 1]),
        (Entry::Parameter { bytes: 64 }, &[7, 64]),
    ];
    for (entry, bytes) in &entries {
        let mut body = Vec::new();
        encode(entry, &mut body);
        assert_eq!(body, *bytes, "{entry:?}");
        let log = SubmissionLog::new("cpu", (0, 0), 1, true, body);
        assert_eq!(log.entries().next().as_ref(), Some(entry));
    }
    let log = SubmissionLog::new("cpu", (0, 300), 1, true, vec![7, 64]);
    let mut file = Vec::new();
    log.write_to(&mut file).unwrap();
    let expected: [&[u8]; 6] = [
        b"mslog\r\n\x1a",
        &[3, 0],
        &[9, 0, 1, 0, 172, 2, 1, 3, b'c', b'p', b'u'],
        &2_u64.to_le_bytes(),
        &[7, 64],
        &0x8e5e_16fd_469f_caa3_u64.to_le_bytes(),
    ];
    assert_eq!(file, expected.concat());
}
