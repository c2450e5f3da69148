//! The buffers that a call gets, and their checks.

use millstream::{Element, Handle, Stream};

use crate::ClusterError;
use crate::part::Buffers;

/// A list of buffers, one of each member.
pub(crate) struct List<'a, T: Element> {
    pub(crate) call: &'static str,
    name: &'static str,
    buffers: &'a [&'a Handle<T>],
}

impl<'a, T: Element> List<'a, T> {
    /// Checks that there is one buffer of each member.
    pub(crate) fn new(
        streams: &[Stream],
        call: &'static str,
        name: &'static str,
        buffers: &'a [&'a Handle<T>],
    ) -> Result<Self, ClusterError> {
        if buffers.len() != streams.len() {
            return Err(ClusterError::Count {
                call,
                list: name,
                expected: streams.len(),
                got: buffers.len(),
            });
        }
        let mut members = buffers.iter().zip(streams);
        match members.position(|(buffer, stream)| !stream.owns(buffer)) {
            Some(member) => Err(ClusterError::Foreign {
                call,
                list: name,
                member,
            }),
            None => Ok(Self {
                call,
                name,
                buffers,
            }),
        }
    }

    pub(crate) fn first_len(&self) -> usize {
        self.buffers.first().map_or(0, |first| first.len())
    }

    /// Checks that each buffer has this number of elements.
    pub(crate) fn lengths(&self, expected: usize) -> Result<(), ClusterError> {
        self.buffers
            .iter()
            .enumerate()
            .try_for_each(|(member, buffer)| {
                same_length(self.call, self.name, member, expected, buffer)
            })
    }

    /// Returns the buffers of each member, of which these are the inputs.
    pub(crate) fn each_to(
        &self,
        outputs: &Self,
    ) -> Result<impl Iterator<Item = Buffers<'a>>, ClusterError> {
        let members = self.buffers.iter().zip(outputs.buffers);
        let parts = members.map(|(input, output)| Buffers {
            input: Some(input.as_bytes()),
            output: Some(output.as_bytes()),
        });
        match parts.clone().position(|buffers| buffers.overlap()) {
            Some(member) => Err(ClusterError::Overlap {
                call: self.call,
                member,
            }),
            None => Ok(parts),
        }
    }
}

pub(crate) fn same_length<T: Element>(
    call: &'static str,
    list: &'static str,
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
