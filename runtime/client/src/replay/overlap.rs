//! Whether bindings overlap: of one replay, or of a run of a graph.

use millstream_protocol::Binding;

/// The number of bindings up to which each is compared with each other, which needs no heap (I9). More are sorted.
const COMPARED_MAX: usize = 64;

/// Returns `true` if two of the bindings overlap and one of the two is written.
#[inline]
pub fn any(bindings: &[Binding]) -> bool {
    if bindings.len() > COMPARED_MAX {
        return any_sorted(bindings.to_vec());
    }
    any_compared(bindings)
}

#[inline]
fn any_compared(bindings: &[Binding]) -> bool {
    bindings.iter().enumerate().any(|(index, first)| {
        let others = &bindings[index + 1..];
        others.iter().any(|second| first.conflicts(second))
    })
}

/// As [`any`], for many bindings.
fn any_sorted(mut bindings: Vec<Binding>) -> bool {
    bindings.retain(|binding| binding.len > 0);
    bindings.sort_unstable_by_key(|binding| (binding.slice, binding.offset));
    // Of one slice, the bindings so far, and those that are written, end here.
    let (mut slice, mut end, mut written_end) = (None, 0, 0);
    bindings.iter().any(|binding| {
        if slice.replace(binding.slice) != Some(binding.slice) {
            (end, written_end) = (0, 0);
        }
        let writes = binding.access.writes();
        let conflicts = binding.offset < if writes { end } else { written_end };
        let own_end = binding.offset + binding.len;
        end = end.max(own_end);
        if writes {
            written_end = written_end.max(own_end);
        }
        conflicts
    })
}

#[cfg(test)]
mod tests {
    use millstream_protocol::{Access, SliceId};
    use millstream_sync::slots::SlotId;
    use proptest::prelude::*;

    use super::*;

    fn binding() -> impl Strategy<Value = Binding> {
        let access = prop::sample::select(vec![Access::Read, Access::Write, Access::ReadWrite]);
        (0_u32..4, 0_u64..40, 0_u64..6, access).prop_map(|(index, offset, len, access)| {
            let slot = SlotId {
                index,
                generation: 0,
            };
            Binding::new(SliceId(slot), offset, len, access)
        })
    }

    proptest! {
        #[test]
        fn sorting_finds_what_comparing_all_pairs_finds(bindings in prop::collection::vec(binding(), 0..12)) {
            prop_assert_eq!(any_sorted(bindings.clone()), any_compared(&bindings));
        }
    }
}
