//! Groups: the collectives of several devices.

use std::sync::{Arc, PoisonError};

use millstream::{CancelToken, Device, Element, Handle, Stream};

use crate::call::Call;
use crate::fleet::AdmissionOrder;
use crate::movement::{self, Movement};
use crate::part::Buffers;
use crate::{ClusterError, Reducible, Reduction};

/// Some devices of a fleet, its members, which call collectives together. Cheap to clone.
///
/// A collective takes one buffer of each member, in the order of the members. It is a task of the group's stream on each
/// device. Like all tasks it is ordered by its data: tasks of other streams that touch the buffers run before or after it,
/// in the order of the calls. The collectives of one group run one after the other; groups run beside each other.
///
/// A call may block while there is no room for its tasks; it never waits for the devices' work.
///
/// If one part cannot run, because its data is poisoned, its device is lost, or it was withdrawn, the outputs of all
/// members are poisoned with that failure.
#[derive(Clone)]
pub struct Group {
    streams: Arc<[Stream]>,
    order: Arc<AdmissionOrder>,
}

impl Group {
    pub(crate) fn new<'a>(
        devices: impl Iterator<Item = &'a Device>,
        order: &Arc<AdmissionOrder>,
    ) -> Result<Self, ClusterError> {
        let stream = |device: &Device| device.client_builder().name("cluster").build().new_stream();
        let streams: Arc<[Stream]> = devices.map(stream).collect();
        match streams.is_empty() {
            true => Err(ClusterError::Empty),
            false => Ok(Self {
                streams,
                order: order.clone(),
            }),
        }
    }

    /// Returns the number of members.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a group has at least one member"
    )]
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns the group's stream on the device of a member, counted from 0. Tasks that are added to it run between the
    /// collectives of the group.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn stream(&self, member: usize) -> &Stream {
        &self.streams[member]
    }

    /// Returns the same group with calls that `token` can withdraw until they begin. If one part is withdrawn, the call
    /// fails for all members.
    pub fn with_cancel(&self, token: &CancelToken) -> Self {
        let under = |stream: &Stream| stream.with_cancel(token);
        Self {
            streams: self.streams.iter().map(under).collect(),
            order: self.order.clone(),
        }
    }

    /// Combines the buffers of all members, element by element, and replaces each buffer by the result.
    ///
    /// # Errors
    /// [`ClusterError::Count`], [`ClusterError::Foreign`], [`ClusterError::Length`], [`ClusterError::Refused`].
    pub fn all_reduce<T: Reducible>(
        &self,
        reduction: Reduction,
        buffers: &[&Handle<T>],
    ) -> Result<(), ClusterError> {
        let list = List::new(self, "all_reduce", "buffers", buffers)?;
        list.lengths(list.first_len())?;
        let parts = buffers.iter().map(|buffer| Buffers {
            input: Some(buffer.as_bytes()),
            output: Some(buffer.as_bytes()),
        });
        self.call(list.call, movement::reduce_to_all::<T>, reduction, parts)
    }

    /// Combines the inputs of all members, element by element. The result is divided among the outputs: member `i` gets
    /// part `i` of as many equal parts as there are members.
    ///
    /// # Errors
    /// As [`Group::all_reduce`]. Each input has the length of all outputs together.
    pub fn reduce_scatter<T: Reducible>(
        &self,
        reduction: Reduction,
        inputs: &[&Handle<T>],
        outputs: &[&Handle<T>],
    ) -> Result<(), ClusterError> {
        let from = List::new(self, "reduce_scatter", "inputs", inputs)?;
        let to = List::new(self, "reduce_scatter", "outputs", outputs)?;
        to.lengths(to.first_len())?;
        from.lengths(to.first_len() * self.len())?;
        let movement = movement::reduce_to_parts::<T>;
        self.call(from.call, movement, reduction, from.each_to(&to)?)
    }

    /// Copies the inputs of all members, one after the other, to the output of each.
    ///
    /// # Errors
    /// As [`Group::all_reduce`]. Each output has the length of all inputs together.
    pub fn all_gather<T: Element>(
        &self,
        inputs: &[&Handle<T>],
        outputs: &[&Handle<T>],
    ) -> Result<(), ClusterError> {
        let from = List::new(self, "all_gather", "inputs", inputs)?;
        let to = List::new(self, "all_gather", "outputs", outputs)?;
        from.lengths(from.first_len())?;
        to.lengths(from.first_len() * self.len())?;
        let parts = from.each_to(&to)?;
        self.call(from.call, movement::gather, Reduction::Sum, parts)
    }

    /// Copies the buffer of member `root` to the buffers of all others.
    ///
    /// # Errors
    /// As [`Group::all_reduce`]; also [`ClusterError::NoMember`].
    pub fn broadcast<T: Element>(
        &self,
        root: usize,
        buffers: &[&Handle<T>],
    ) -> Result<(), ClusterError> {
        let list = List::new(self, "broadcast", "buffers", buffers)?;
        let source = buffers.get(root).ok_or(ClusterError::NoMember {
            root,
            members: self.len(),
        })?;
        list.lengths(source.len())?;
        let others = (0..self.len()).filter(|member| *member != root);
        let targets = others.map(|member| (member, output(buffers[member])));
        let parts = std::iter::once((root, input(source))).chain(targets);
        self.submit(list.call, movement::spread, Reduction::Sum, parts)
    }

    /// Copies between two members.
    pub(crate) fn transfer<T: Element>(
        &self,
        (from, source): (usize, &Handle<T>),
        (to, target): (usize, &Handle<T>),
    ) -> Result<(), ClusterError> {
        const CALL: &str = "copy";
        if from == to {
            return self.streams[to]
                .copy(source, target)
                .map_err(|source| ClusterError::Refused {
                    call: CALL,
                    member: to,
                    source,
                });
        }
        let parts = [(from, input(source)), (to, output(target))];
        self.submit(CALL, movement::spread, Reduction::Sum, parts.into_iter())
    }

    /// Returns the member on whose device a buffer is.
    pub(crate) fn member_of<T: Element>(&self, buffer: &Handle<T>) -> Option<usize> {
        self.streams.iter().position(|stream| stream.owns(buffer))
    }

    fn call<'a>(
        &self,
        name: &'static str,
        movement: Movement,
        reduction: Reduction,
        parts: impl Iterator<Item = Buffers<'a>>,
    ) -> Result<(), ClusterError> {
        self.submit(name, movement, reduction, parts.enumerate())
    }

    /// Submits one part for each listed member. The movement sees them in the order of the list.
    fn submit<'a>(
        &self,
        name: &'static str,
        movement: Movement,
        reduction: Reduction,
        parts: impl Iterator<Item = (usize, Buffers<'a>)>,
    ) -> Result<(), ClusterError> {
        let parts: Vec<_> = parts.collect();
        let call = Call::new(name, movement, reduction, parts.len());
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, (member, buffers)) in parts.iter().enumerate() {
            call.submit(place, (*member, &self.streams[*member]), buffers)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group({} members)", self.len())
    }
}

fn input<T: Element>(handle: &Handle<T>) -> Buffers<'_> {
    Buffers {
        input: Some(handle.as_bytes()),
        ..Buffers::default()
    }
}

fn output<T: Element>(handle: &Handle<T>) -> Buffers<'_> {
    Buffers {
        output: Some(handle.as_bytes()),
        ..Buffers::default()
    }
}

/// A list of buffers, one of each member.
struct List<'a, T: Element> {
    call: &'static str,
    name: &'static str,
    buffers: &'a [&'a Handle<T>],
}

impl<'a, T: Element> List<'a, T> {
    /// Checks that there is one buffer of each member.
    fn new(
        group: &Group,
        call: &'static str,
        name: &'static str,
        buffers: &'a [&'a Handle<T>],
    ) -> Result<Self, ClusterError> {
        if buffers.len() != group.len() {
            return Err(ClusterError::Count {
                call,
                list: name,
                expected: group.len(),
                got: buffers.len(),
            });
        }
        let mut members = buffers.iter().zip(&*group.streams);
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

    fn first_len(&self) -> usize {
        self.buffers.first().map_or(0, |first| first.len())
    }

    /// Checks that each buffer has this number of elements.
    fn lengths(&self, expected: usize) -> Result<(), ClusterError> {
        self.buffers
            .iter()
            .enumerate()
            .try_for_each(|(member, buffer)| {
                same_length(self.call, self.name, member, expected, buffer)
            })
    }

    /// Returns the buffers of each member, of which these are the inputs.
    fn each_to(&self, outputs: &Self) -> Result<impl Iterator<Item = Buffers<'a>>, ClusterError> {
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
