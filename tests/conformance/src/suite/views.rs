//! Views: a view has whole elements, and every task sees all of them (I5).

use millstream::{Element, Stream};

use crate::support::*;

/// A view starts and ends at an element; a cut that would leave a part of an element is refused. Every task sees all
/// bytes of a view.
pub(crate) fn view_that_cuts_an_element_is_refused(on: On) {
    let (_rig, _, stream) = on.start();
    let words = stream.put(&[1_u32, 2, 3]);
    let indivisible = |bytes| {
        format!(
            "{bytes} bytes are not a multiple of the element size of 4 bytes: slice at a multiple of 4, or cast the handle to `u8` to slice at any byte"
        )
    };
    for cut in [1, 2, 3, 5, 11] {
        let front = words.clone().offset_start(cut).unwrap_err().to_string();
        let back = words.clone().offset_end(cut).unwrap_err().to_string();
        assert_eq!((front, back), (indivisible(cut), indivisible(cut)));
    }
    // As bytes it can be cut anywhere, and it can be cast back only if it has whole, aligned elements.
    let bytes = words.cast::<u8>().unwrap();
    let ragged = bytes.clone().offset_end(3).unwrap();
    let refused = ragged.cast::<u32>().unwrap_err();
    assert_eq!(refused.to_string(), indivisible(9));
    let within = bytes.slice(2..10).unwrap();
    assert_eq!(
        within.cast::<u32>().unwrap_err().to_string(),
        "the view starts at byte 2 of its slice, which is not a multiple of the element size of 4 bytes: slice at a multiple of 4, or copy the data to a new slice"
    );
    assert_eq!(within.cast::<u16>().unwrap().len(), 4);
    let last = bytes.slice(8..).unwrap().cast::<u32>().unwrap();
    stream.write(&last, &[7]).unwrap();
    assert_eq!(stream.get(&words), [1, 2, 7]);
    // All tasks follow the same rule: nine bytes are filled, written, copied and read as nine bytes.
    stream.fill(&ragged, 5).unwrap();
    assert_eq!(stream.get(&ragged), [5; 9]);
    stream.write(&ragged, &[6; 9]).unwrap();
    let copied = stream.empty::<u8>(9).unwrap();
    stream.copy(&ragged, &copied).unwrap();
    assert_eq!(stream.get(&copied), [6; 9]);
    let all = stream.get(&bytes);
    assert_eq!(all[8..], [6, 0, 0, 0]);
}

/// Views overlap if they share a byte: empty views share none, and views of two devices share none either.
pub(crate) fn views_overlap_if_they_share_a_byte(on: On) {
    let (rig, other) = (on.open(), on.open());
    let [here, there] = [&rig, &other].map(|rig| {
        let stream = rig.client().new_stream();
        stream.put(&[0_u32; 8])
    });
    let part = |range: std::ops::Range<usize>| here.slice(range).unwrap();
    assert!(part(0..4).overlaps(&part(3..8)));
    assert!(!part(0..4).overlaps(&part(4..8)));
    for at in [0, 3, 8] {
        assert!(!part(at..at).overlaps(&here), "an empty view at {at}");
        assert!(!here.overlaps(&part(at..at)), "an empty view at {at}");
    }
    assert!(!here.overlaps(&there), "memory of two devices");
}

/// A fill sets each element of its view and nothing else, wherever the view starts and ends within a word.
pub(crate) fn fill_sets_every_element_of_its_view_and_no_other(on: On) {
    const LEN: usize = 32;
    fn fill<T: Element + PartialEq + std::fmt::Debug>(stream: &Stream, old: T, value: T) {
        for (start, len) in [(0, 1), (0, 3), (8, 9), (3, 5), (16, 13), (1, 30), (7, 0)] {
            let values = stream.put(&[old; LEN]);
            let view = values.slice(start..start + len).unwrap();
            stream.fill(&view, value).unwrap();
            let mut expected = [old; LEN];
            expected[start..start + len].fill(value);
            let got = stream.get(&values);
            let width = size_of::<T>();
            assert_eq!(
                got, expected,
                "{len} elements from {start}, of {width} bytes"
            );
        }
    }
    let (_rig, _, stream) = on.start();
    fill(&stream, 0xee, 0x01_u8);
    fill(&stream, 0xee, 0x0201_u16);
    fill(&stream, 0xee, 0x0101_u16);
    fill(&stream, 0xee, 0x0403_0201_u32);
    fill(&stream, 0xee, 0x0807_0605_0403_0201_u64);
}
