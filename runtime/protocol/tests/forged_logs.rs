//! The memory to read a log: a file with false lengths takes only memory in proportion to its bytes (I12).
//!
//! A binary of its own, because it counts the memory of the whole process.
#![allow(clippy::unwrap_used, reason = "tests unwrap what they expect")]

use millstream_heap_count::{Counting, growth_bytes};
use millstream_protocol::journal::{Digest, SubmissionLog};

#[global_allocator]
static COUNTING: Counting = Counting;

/// The maximum memory that a log may take while it is read, in multiples of its bytes.
const TIMES_MAX: usize = 40;
const BYTES: usize = 1 << 18;

fn number(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A file with one entry: `head`, a list that states `count` elements, and as many `element`s as fit.
fn forged(head: &[u8], count: usize, element: &[u8]) -> Vec<u8> {
    let mut body = [head, &number(count as u64)].concat();
    while body.len() + element.len() <= BYTES {
        body.extend_from_slice(element);
    }
    body.resize(BYTES, 0);
    // The version and the length of the head; then the head: complete, parts, one entry, and the backend.
    let mut rest = vec![4, 0, 8, 0, 1, 0, 0, 1, 3, b'c', b'p', b'u'];
    rest.extend_from_slice(&(body.len() as u64).to_le_bytes());
    rest.extend_from_slice(&body);
    let digest = Digest::default().with(&rest).number();
    [b"mslog\r\n\x1a", rest.as_slice(), &digest.to_le_bytes()].concat()
}

#[test]
fn a_forged_log_takes_memory_in_proportion_to_its_bytes_i12() {
    let (task, readback) = ([5, 0], [5, 0, 2, 0]);
    let launch = [5, 0, 0, 0, 1];
    let words = [launch.as_slice(), &[0]].concat();
    let binding = [0, 0, 2, b'u', b'8', 0];
    let map = [0, 0, 0, 2, b'u', b'8', 0, 0, 0, 0, 0, 0, 0];
    let lists: [(&str, &[u8], &[u8]); 13] = [
        (
            "ranges",
            &[task.as_slice(), &[3]].concat(),
            &[0, 0, 0, 0, 0],
        ),
        ("layouts that are none", &readback, &[0]),
        ("layouts without axes", &readback, &[1, 1, 0, 0]),
        ("layouts with an axis", &readback, &[1, 1, 1, 1, 1, 1]),
        ("axes", &[readback.as_slice(), &[1, 1, 1]].concat(), &[1]),
        ("scalars", &launch, &[0]),
        ("metadata", &words, &[0]),
        ("tensor maps", &[words.as_slice(), &[0]].concat(), &map),
        ("recorded ranges", &[3, 1], &[0, 0, 0, 0, 0]),
        ("recorded scalars", &[3, 1, 0], &[0]),
        ("recorded slots", &[3, 1, 0, 0], &[0, 0, 0, 0]),
        ("bindings", &[1, 0, 1, b'k'], &binding),
        (
            "scalars of a kernel",
            &[1, 0, 1, b'k', 0],
            &[0, 2, b'u', b'8'],
        ),
    ];
    for (what, head, element) in lists {
        // The number of elements that fit, the number of bytes, and more than that.
        for count in [element.len(), 9, 8, 7, 5, 1]
            .map(|least| BYTES / least - 16)
            .into_iter()
            .chain([usize::MAX])
        {
            let file = forged(head, count, element);
            let mut read = None;
            let took = growth_bytes(|| read = Some(SubmissionLog::read_from(file.as_slice())));
            println!("{count} {what}: {:.1} times", took as f64 / BYTES as f64);
            assert!(
                took <= (TIMES_MAX * BYTES) as i64,
                "{count} {what} took {} times the bytes, {read:?}",
                took / BYTES as i64
            );
        }
    }
}
