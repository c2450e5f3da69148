//! How the bytes of a collective move between memory that the host can access.

use std::ops::Range;

use bytemuck::PodCastError;

use crate::streaming::{self, Target};
use crate::{Reducible, Reduction};

/// The memory of a part. A call that replaces its input has an output only; so has a receive, and the root of a broadcast has
/// an input only.
pub struct NetworkMemory<'a> {
    /// The bytes to read.
    pub input: Option<&'a [u8]>,
    /// The bytes to write.
    pub output: Option<&'a mut [u8]>,
}

impl NetworkMemory<'_> {
    pub(crate) fn source(&self) -> &[u8] {
        self.input.or(self.output.as_deref()).unwrap_or_default()
    }

    pub(crate) fn target(&mut self) -> &mut [u8] {
        self.output.as_deref_mut().unwrap_or_default()
    }
}

/// What a call does with the bytes of its members, once all are ready.
pub(crate) type Movement = fn(Reduction, &mut [NetworkMemory<'_>]) -> Result<(), PodCastError>;

/// The bytes that a reduction combines before it goes on. They are few, so that the processor reads ahead in the inputs of
/// all members at the same time.
const PIECE_BYTES: usize = 512;

/// The bytes of a source that are copied to all targets before the next ones: they stay in the first-level cache.
const SPREAD_BYTES: usize = 16 << 10;

/// Copies the input of the first member to the output of all others.
pub(crate) fn spread(_: Reduction, members: &mut [NetworkMemory<'_>]) -> Result<(), PodCastError> {
    let Some((root, others)) = members.split_first_mut() else {
        return Ok(());
    };
    streaming::write(others.iter_mut().map(NetworkMemory::target), |targets| {
        copy_to_all(root.source(), 0, targets);
    });
    Ok(())
}

/// Copies `source` to the bytes of all targets from `start` on.
fn copy_to_all(source: &[u8], start: usize, targets: &mut [Target<'_>]) {
    if let [target] = targets {
        return target.put(start, source);
    }
    // Piece by piece, so that the source is read from memory once.
    for (start, piece) in (start..)
        .step_by(SPREAD_BYTES)
        .zip(source.chunks(SPREAD_BYTES))
    {
        for target in &mut *targets {
            target.put(start, piece);
        }
    }
}

/// Copies the input of each member to its place in the output of all.
pub(crate) fn gather(_: Reduction, members: &mut [NetworkMemory<'_>]) -> Result<(), PodCastError> {
    let sources: Vec<_> = members.iter().map(|member| member.input).collect();
    streaming::write(members.iter_mut().map(NetworkMemory::target), |targets| {
        for (from, source) in sources.into_iter().enumerate() {
            if let Some(source) = source {
                copy_to_all(source, from * source.len(), targets);
            }
        }
    });
    Ok(())
}

/// Combines the inputs of all members to the output of each.
pub(crate) fn reduce_to_all<T: Reducible>(
    reduction: Reduction,
    members: &mut [NetworkMemory<'_>],
) -> Result<(), PodCastError> {
    let mut members = Elements::<T>::of_all(members)?;
    let len = members.first().map_or(0, |first| first.source().len());
    let mut sum = vec![T::zeroed(); piece_len::<T>()];
    for start in (0..len).step_by(piece_len::<T>()) {
        let range = start..len.min(start + piece_len::<T>());
        let sum = &mut sum[..range.len()];
        let inputs = members.iter().map(Elements::source);
        combine(reduction, inputs, range.clone(), sum);
        // Ordinary stores: usually the output is the input, whose lines were just read.
        for member in &mut members {
            member.output[range.clone()].copy_from_slice(sum);
        }
    }
    Ok(())
}

/// Combines the inputs of all members, of which each gets its part.
pub(crate) fn reduce_to_parts<T: Reducible>(
    reduction: Reduction,
    members: &mut [NetworkMemory<'_>],
) -> Result<(), PodCastError> {
    // The part of a member is its whole input only if it is the only one: its result is there already.
    if members.iter().any(|member| member.input.is_none()) {
        return Ok(());
    }
    let inputs = members
        .iter()
        .map(|member| member.input.unwrap_or_default());
    let inputs = inputs.map(bytemuck::try_cast_slice);
    let inputs: Vec<&[T]> = inputs.collect::<Result<_, _>>()?;
    streaming::write(members.iter_mut().map(NetworkMemory::target), |targets| {
        let parts = targets.iter_mut().enumerate();
        parts
            .into_iter()
            .try_for_each(|(part, target)| reduce_to(reduction, &inputs, part, target))
    })
}

/// Combines a part of the inputs, as many elements as the target has.
fn reduce_to<T: Reducible>(
    reduction: Reduction,
    inputs: &[&[T]],
    part: usize,
    target: &mut Target<'_>,
) -> Result<(), PodCastError> {
    let len = target.len() / size_of::<T>();
    let mut sum = vec![T::zeroed(); piece_len::<T>()];
    for start in (0..len).step_by(piece_len::<T>()) {
        let range = start..len.min(start + piece_len::<T>());
        let bytes = range.start * size_of::<T>()..range.end * size_of::<T>();
        let inputs = inputs.iter().copied();
        let range = part * len + range.start..part * len + range.end;
        if target.is_streamed() {
            let sum = &mut sum[..range.len()];
            combine(reduction, inputs, range, sum);
            target.put(bytes.start, bytemuck::cast_slice(sum));
        } else {
            let sum = bytemuck::try_cast_slice_mut(target.part(bytes))?;
            combine(reduction, inputs, range, sum);
        }
    }
    Ok(())
}

/// The memory of one member, as elements.
struct Elements<'a, T> {
    input: Option<&'a [T]>,
    output: &'a mut [T],
}

impl<'a, T: Reducible> Elements<'a, T> {
    fn of_all(members: &'a mut [NetworkMemory<'_>]) -> Result<Vec<Self>, PodCastError> {
        let elements = |member: &'a mut NetworkMemory<'_>| {
            Ok(Self {
                input: member.input.map(bytemuck::try_cast_slice).transpose()?,
                output: bytemuck::try_cast_slice_mut(member.target())?,
            })
        };
        members.iter_mut().map(elements).collect()
    }

    fn source(&self) -> &[T] {
        self.input.unwrap_or(self.output)
    }
}

/// Returns the number of elements that a reduction combines before it goes on.
const fn piece_len<T>() -> usize {
    PIECE_BYTES / size_of::<T>()
}

/// Combines a range of the inputs, in their order. `sum` has the length of the range.
fn combine<'a, T: Reducible>(
    reduction: Reduction,
    inputs: impl Iterator<Item = &'a [T]>,
    range: Range<usize>,
    sum: &mut [T],
) {
    let mut inputs = inputs.map(|input| {
        streaming::read_ahead(input, &range);
        &input[range.clone()]
    });
    match (inputs.next(), inputs.next()) {
        // In one pass, so that both are read from memory at the same time.
        (Some(first), Some(second)) => T::combine(reduction, sum, Some(first), second),
        (Some(only), None) => sum.copy_from_slice(only),
        (None, _) => {}
    }
    for values in inputs {
        reduction.combine::<T>(sum, values);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn numbered(members: usize, len: usize) -> Vec<Vec<u32>> {
        let values = |member: usize| (0..len).map(move |index| (member * 7919 + index * 31) as u32);
        (0..members)
            .map(|member| values(member).collect())
            .collect()
    }

    fn sums(inputs: &[Vec<u32>]) -> Vec<u32> {
        let sum = |index| inputs.iter().map(|input| input[index]).sum();
        (0..inputs[0].len()).map(sum).collect()
    }

    /// Moves the inputs of all members to outputs of `len` elements, and returns these.
    fn moved(movement: Movement, inputs: &[Vec<u32>], len: usize) -> Vec<Vec<u32>> {
        let mut outputs = vec![vec![7; len]; inputs.len()];
        let members = inputs.iter().zip(&mut outputs);
        let mut members: Vec<_> = members
            .map(|(input, output)| NetworkMemory {
                input: Some(bytemuck::cast_slice(input)),
                output: Some(bytemuck::cast_slice_mut(output)),
            })
            .collect();
        movement(Reduction::Sum, &mut members).unwrap();
        outputs
    }

    proptest! {
        /// Outputs above and below the size from which on stores are streaming.
        #[test]
        fn movements_compute_what_they_say(members in 1..5_usize, len in 0..2500_usize) {
            let (parts, wholes) = (numbered(members, len), numbered(members, len * members));

            let gathered = moved(gather, &parts, len * members);
            prop_assert_eq!(gathered, vec![parts.concat(); members]);

            let spread = moved(spread, &parts, len);
            prop_assert!(spread[0].iter().all(|value| *value == 7));
            prop_assert!(spread[1..].iter().all(|output| *output == parts[0]));

            let reduced = moved(reduce_to_parts::<u32>, &wholes, len);
            prop_assert_eq!(reduced.concat(), sums(&wholes));

            let reduced = moved(reduce_to_all::<u32>, &parts, len);
            prop_assert_eq!(reduced, vec![sums(&parts); members]);

            let mut in_place = parts.clone();
            let mut bytes: Vec<_> = in_place
                .iter_mut()
                .map(|output| NetworkMemory { input: None, output: Some(bytemuck::cast_slice_mut(output)) })
                .collect();
            reduce_to_all::<u32>(Reduction::Sum, &mut bytes).unwrap();
            prop_assert_eq!(in_place, vec![sums(&parts); members]);
        }
    }

    /// A member whose part is its whole input keeps it.
    #[test]
    fn one_member_in_place_has_its_result() {
        let mut values = [1_u32, 2, 3];
        let mut members = [NetworkMemory {
            input: None,
            output: Some(bytemuck::cast_slice_mut(&mut values)),
        }];
        reduce_to_parts::<u32>(Reduction::Sum, &mut members).unwrap();
        assert_eq!(values, [1, 2, 3]);
    }
}
