//! The lists of buffers that a call gets, and their checks.

use millstream::{Element, Handle, Stream};

use crate::ClusterError;
use crate::part::Buffers;

/// Checks that a list has one buffer of each member, of this number of elements.
pub(crate) fn check<T: Element>(
    streams: &[Stream],
    (call, list): (&'static str, &'static str),
    buffers: &[&Handle<T>],
    expected: usize,
) -> Result<(), ClusterError> {
    if buffers.len() != streams.len() {
        return Err(ClusterError::Count {
            call,
            list,
            expected: streams.len(),
            got: buffers.len(),
        });
    }
    let mut members = buffers.iter().zip(streams);
    if let Some(member) = members.position(|(buffer, stream)| !stream.owns(buffer)) {
        return Err(ClusterError::Foreign { call, list, member });
    }
    let mut members = buffers.iter().enumerate();
    members.try_for_each(|(member, buffer)| same_length((call, list), member, expected, buffer))
}

pub(crate) fn same_length<T: Element>(
    (call, list): (&'static str, &'static str),
    member: usize,
    expected: usize,
    buffer: &Handle<T>,
) -> Result<(), ClusterError> {
    match buffer.len() == expected {
        true => Ok(()),
        false => Err(ClusterError::Length {
            call,
            list,
            member,
            expected,
            got: buffer.len(),
        }),
    }
}

/// Returns the buffers of each member, with its number.
pub(crate) fn pairs<'a, T: Element>(
    inputs: &[&'a Handle<T>],
    outputs: &[&'a Handle<T>],
) -> Vec<(usize, Buffers<'a>)> {
    let members = inputs.iter().zip(outputs);
    let parts = members.map(|(input, output)| Buffers::both(input, output));
    parts.enumerate().collect()
}

/// Returns the elements of each buffer of a list, if they are equal.
pub(crate) fn len<T: Element>(buffers: &[&Handle<T>]) -> usize {
    buffers.first().map_or(0, |first| first.len())
}
