//! How the bytes of a collective move between memory that the host can access.

use bytemuck::PodCastError;

use crate::{Reducible, Reduction};

/// The memory of one member. A member whose output is its input has an output only.
#[derive(Default)]
pub(crate) struct Bytes<'a> {
    pub(crate) input: Option<&'a [u8]>,
    pub(crate) output: Option<&'a mut [u8]>,
}

impl Bytes<'_> {
    pub(crate) fn source(&self) -> &[u8] {
        self.input.or(self.output.as_deref()).unwrap_or_default()
    }

    pub(crate) fn target(&mut self) -> &mut [u8] {
        self.output.as_deref_mut().unwrap_or_default()
    }
}

/// What a call does with the bytes of its members, once all are ready.
pub(crate) type Movement = fn(Reduction, &mut [Bytes<'_>]) -> Result<(), PodCastError>;

/// The bytes that a reduction combines before it goes on: of all members together they stay in the first-level cache.
const PIECE_BYTES: usize = 4 << 10;

/// Copies the input of the first member to the output of all others.
pub(crate) fn spread(_: Reduction, members: &mut [Bytes<'_>]) -> Result<(), PodCastError> {
    let Some((root, others)) = members.split_first_mut() else {
        return Ok(());
    };
    // Piece by piece, so that the source is read from memory once.
    for (start, piece) in pieces(root.source(), SPREAD_BYTES) {
        for member in &mut *others {
            member.target()[start..start + piece.len()].copy_from_slice(piece);
        }
    }
    Ok(())
}

/// The bytes of a source that are copied to all targets before the next ones: they stay in the second-level cache.
const SPREAD_BYTES: usize = 128 << 10;

fn pieces(bytes: &[u8], size: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let starts = (0..).step_by(size);
    starts.zip(bytes.chunks(size))
}

/// Copies the input of each member to its place in the output of all.
pub(crate) fn gather(_: Reduction, members: &mut [Bytes<'_>]) -> Result<(), PodCastError> {
    for from in 0..members.len() {
        let Some(source) = members[from].input else {
            continue;
        };
        let offset = from * source.len();
        for (start, piece) in pieces(source, SPREAD_BYTES) {
            for member in &mut *members {
                let at = offset + start;
                member.target()[at..at + piece.len()].copy_from_slice(piece);
            }
        }
    }
    Ok(())
}

/// Combines the inputs of all members to the output of each.
pub(crate) fn reduce_to_all<T: Reducible>(
    reduction: Reduction,
    members: &mut [Bytes<'_>],
) -> Result<(), PodCastError> {
    let bytes = members.first().map_or(0, |first| first.source().len());
    let mut sum = vec![T::zeroed(); PIECE_BYTES / size_of::<T>()];
    for start in (0..bytes).step_by(PIECE_BYTES) {
        let range = start..bytes.min(start + PIECE_BYTES);
        let sum = &mut sum[..range.len() / size_of::<T>()];
        combine(reduction, members, range.clone(), sum)?;
        for member in &mut *members {
            member.target()[range.clone()].copy_from_slice(bytemuck::cast_slice(sum));
        }
    }
    Ok(())
}

/// Combines the inputs of all members, of which each gets its part.
pub(crate) fn reduce_to_parts<T: Reducible>(
    reduction: Reduction,
    members: &mut [Bytes<'_>],
) -> Result<(), PodCastError> {
    let mut sum = vec![T::zeroed(); PIECE_BYTES / size_of::<T>()];
    for part in 0..members.len() {
        let bytes = members[part].target().len();
        for start in (0..bytes).step_by(PIECE_BYTES) {
            let end = bytes.min(start + PIECE_BYTES);
            let sum = &mut sum[..(end - start) / size_of::<T>()];
            let offset = part * bytes;
            combine(reduction, members, offset + start..offset + end, sum)?;
            members[part].target()[start..end].copy_from_slice(bytemuck::cast_slice(sum));
        }
    }
    Ok(())
}

/// Combines a range of the inputs of all members, in the order of the members.
fn combine<T: Reducible>(
    reduction: Reduction,
    members: &[Bytes<'_>],
    range: std::ops::Range<usize>,
    sum: &mut [T],
) -> Result<(), PodCastError> {
    let mut inputs = members.iter().map(|member| &member.source()[range.clone()]);
    let Some(first) = inputs.next() else {
        return Ok(());
    };
    sum.copy_from_slice(bytemuck::try_cast_slice(first)?);
    for values in inputs {
        reduction.combine::<T>(sum, bytemuck::try_cast_slice(values)?);
    }
    Ok(())
}
