//! Groups: the collectives of several devices.

mod transfers;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream::{CancelToken, Device, Element, Handle, Stream};

use crate::announcement::{Announcement, Operation};
use crate::call::{Call, Course};
use crate::gpu::{Gpus, is_on_gpu};
use crate::list;
use crate::movement::{gather, reduce_to_all, reduce_to_parts, spread};
use crate::network::Network;
use crate::order::{AdmissionOrder, InFlight};
use crate::part::Buffers;
use crate::{ClusterError, Reducible, Reduction};

/// Some devices, its members, which call collectives together. Cheap to clone.
///
/// The members are devices of one process, of a [`Fleet`](crate::Fleet), or of each rank of a network as many. Each
/// member has a rank in the group, counted from 0: on a network first the devices of the first rank, then those of the next.
///
/// A collective takes one buffer of each member of this process, in the order of the ranks; on a network every rank makes
/// the same calls in the same order. A collective is a task of the group's stream on each
/// device. Like all tasks it is ordered by its data: tasks of other streams that touch the buffers run before or after
/// it, in the order of the calls. The collectives of one group run one after the other; groups run beside each other.
///
/// A group does not keep its devices open: keep the [`Fleet`](crate::Fleet).
///
/// A call may block while there is no room for its tasks, and holds back the other calls of the fleet meanwhile. With room
/// it waits neither for the devices' work nor for other ranks. So the sends of a member that wait for their receives must be
/// fewer than `max_held` for each receiver, and fewer than `max_jobs` together, with its other calls in flight: one more
/// would hold back the receives for which it waits.
///
/// If one part cannot run, because its data is poisoned, its device is lost, or it was withdrawn, the outputs of all
/// members are poisoned with that failure.
#[derive(Clone)]
pub struct Group {
    /// One of each member of this process.
    streams: Arc<[Stream]>,
    in_flight: Arc<InFlight>,
    order: Arc<AdmissionOrder>,
    /// What withdraws its calls. The streams of its collectives have the token already.
    token: Option<CancelToken>,
}

impl Group {
    /// Creates a group of at least one device.
    pub(crate) fn new<'a>(
        devices: impl Iterator<Item = &'a Device> + Clone,
        order: &Arc<AdmissionOrder>,
        network: Option<Arc<dyn Network>>,
    ) -> Self {
        let stream = |device: &Device| {
            let client = device.client_builder().name("cluster").build();
            client.new_stream()
        };
        let gpus = match network {
            Some(_) => None,
            None => {
                let may_use_nccl = !order.without_nccl.load(Ordering::Relaxed);
                Some(Gpus::new(devices.clone(), &order.threads, may_use_nccl))
            }
        };
        let streams: Arc<[Stream]> = devices.map(stream).collect();
        let in_flight = Arc::new(InFlight::new(&streams, network, gpus));
        order.add(&in_flight);
        Self {
            streams,
            in_flight,
            order: order.clone(),
            token: None,
        }
    }

    /// Returns the number of members, on all ranks.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a group has at least one member"
    )]
    pub fn len(&self) -> usize {
        match &self.in_flight.network {
            Some(network) => network.size() * self.streams.len(),
            None => self.streams.len(),
        }
    }

    /// Returns the ranks of the members of this process: all, or on a network those of its devices.
    pub fn local_ranks(&self) -> Range<usize> {
        let network = self.in_flight.network.as_ref();
        let first = network.map_or(0, |network| network.rank() * self.streams.len());
        first..first + self.streams.len()
    }

    /// Returns the group's stream on the device of a member of this process, counted from 0. Tasks that are added to it
    /// run between the collectives of the group.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn stream(&self, member: usize) -> &Stream {
        &self.streams[member]
    }

    /// Returns the same group with calls that `token`, and no token before it, can withdraw until they begin. If one part is
    /// withdrawn, the call fails for all members.
    pub fn with_cancel(&self, token: &CancelToken) -> Self {
        let under = |stream: &Stream| stream.with_cancel(token);
        Self {
            streams: self.streams.iter().map(under).collect(),
            token: Some(token.clone()),
            ..self.clone()
        }
    }

    /// Combines the buffers of all members, element by element, and replaces each buffer by the result.
    ///
    /// # Errors
    /// [`ClusterError::Count`], [`ClusterError::Foreign`], [`ClusterError::Length`], [`ClusterError::Refused`].
    #[track_caller]
    pub fn all_reduce<T: Reducible>(
        &self,
        reduction: Reduction,
        buffers: &[&Handle<T>],
    ) -> Result<(), ClusterError> {
        const CALL: &str = "all_reduce";
        let len = list::len(buffers);
        list::check(&self.streams, (CALL, "buffers"), buffers, len)?;
        let (operation, movement) = (Operation::AllReduce(reduction), reduce_to_all::<T>);
        let call = Announcement::new::<T>(CALL, operation, movement, len);
        self.submit(call, &list::pairs(buffers, buffers))
    }

    /// Combines the inputs of all members, element by element. The result is divided among the outputs: member `i` gets
    /// part `i` of as many equal parts as there are members.
    ///
    /// # Errors
    /// As [`Group::all_reduce`]. Each input has the length of all outputs together.
    #[track_caller]
    pub fn reduce_scatter<T: Reducible>(
        &self,
        reduction: Reduction,
        inputs: &[&Handle<T>],
        outputs: &[&Handle<T>],
    ) -> Result<(), ClusterError> {
        const CALL: &str = "reduce_scatter";
        let len = list::len(outputs);
        list::check(&self.streams, (CALL, "outputs"), outputs, len)?;
        list::check(&self.streams, (CALL, "inputs"), inputs, len * self.len())?;
        let (operation, movement) = (Operation::ReduceScatter(reduction), reduce_to_parts::<T>);
        let elements = len * self.devices();
        let call = Announcement::new::<T>(CALL, operation, movement, elements);
        self.submit(call, &list::pairs(inputs, outputs))
    }

    /// Copies the inputs of all members, one after the other, to the output of each.
    ///
    /// # Errors
    /// As [`Group::all_reduce`]. Each output has the length of all inputs together.
    #[track_caller]
    pub fn all_gather<T: Element>(
        &self,
        inputs: &[&Handle<T>],
        outputs: &[&Handle<T>],
    ) -> Result<(), ClusterError> {
        const CALL: &str = "all_gather";
        let len = list::len(inputs);
        list::check(&self.streams, (CALL, "inputs"), inputs, len)?;
        list::check(&self.streams, (CALL, "outputs"), outputs, len * self.len())?;
        let (operation, elements) = (Operation::AllGather, len * self.devices());
        let call = Announcement::new::<T>(CALL, operation, gather, elements);
        self.submit(call, &list::pairs(inputs, outputs))
    }

    /// Copies the buffer of the member with rank `root` to the buffers of all others.
    ///
    /// # Errors
    /// As [`Group::all_reduce`]; also [`ClusterError::NoMember`].
    #[track_caller]
    pub fn broadcast<T: Element>(
        &self,
        root: usize,
        buffers: &[&Handle<T>],
    ) -> Result<(), ClusterError> {
        const CALL: &str = "broadcast";
        let len = list::len(buffers);
        list::check(&self.streams, (CALL, "buffers"), buffers, len)?;
        self.check_rank(root)?;
        let first = self.local_ranks().start;
        let is_root = |member: usize| first + member == root;
        let part = |member: usize| match is_root(member) {
            true => (member, Buffers::input(buffers[member])),
            false => (member, Buffers::output(buffers[member])),
        };
        // The movement copies from the first part.
        let mut parts: Vec<_> = (0..buffers.len()).map(part).collect();
        parts.sort_by_key(|(member, _)| !is_root(*member));
        let root = root / self.devices();
        let call = Announcement::new::<T>(CALL, Operation::Broadcast { root }, spread, len);
        self.submit(call, &parts)
    }

    /// Returns the member of this process on whose device a buffer is.
    pub(crate) fn member_of<T: Element>(&self, buffer: &Handle<T>) -> Option<usize> {
        self.streams.iter().position(|stream| stream.owns(buffer))
    }

    /// Returns the number of devices of each rank of a network. 1 in one process, where each rank is a device.
    fn devices(&self) -> usize {
        match self.in_flight.network {
            Some(_) => self.streams.len(),
            None => 1,
        }
    }

    fn check_rank(&self, rank: usize) -> Result<(), ClusterError> {
        let members = self.len();
        match rank < members {
            true => Ok(()),
            false => Err(ClusterError::NoMember { rank, members }),
        }
    }

    /// Submits the call of one member: at most a copy on its device.
    fn alone(
        &self,
        call: &'static str,
        member: usize,
        buffers: &Buffers<'_>,
    ) -> Result<(), ClusterError> {
        let copied = match (buffers.input, buffers.output) {
            (Some(input), Some(output)) if !buffers.is_in_place() => {
                self.streams[member].copy(input, output)
            }
            _ => Ok(()),
        };
        copied.map_err(|source| ClusterError::Refused {
            call,
            member,
            source,
        })
    }

    /// Returns the call of these members of one process, whose parts have these bytes together.
    fn local_call(&self, mut what: Announcement, members: &[usize], bytes: u64) -> Arc<Call> {
        let gpus = self.in_flight.gpus.as_ref().and_then(|gpus| {
            let transfer = gpus.transfer(what.operation, what.dtype, members)?;
            Some(Course::Gpus(gpus.clone(), transfer, members.into()))
        });
        what.on_device = gpus.is_some();
        Call::new(what, gpus.unwrap_or(Course::Here(bytes)), members.len())
    }

    /// Announces a call, with this number of parts, to the network.
    fn announced_call(
        &self,
        network: &Arc<dyn Network>,
        mut what: Announcement,
        parts: usize,
    ) -> Arc<Call> {
        what.devices = self.devices();
        // The parts of several devices are joined in memory of the host.
        what.on_device = matches!(&*self.streams, [stream] if is_on_gpu(stream))
            && network.takes_device_memory(&what);
        let course = Course::Network(network.clone(), network.announce(what));
        Call::new(what, course, parts)
    }

    /// Submits one part for each listed member. The movement sees them in the order of the list.
    fn submit(
        &self,
        what: Announcement,
        parts: &[(usize, Buffers<'_>)],
    ) -> Result<(), ClusterError> {
        if let Some((member, _)) = parts.iter().find(|(_, buffers)| buffers.overlap()) {
            let (call, member) = (what.name, *member);
            return Err(ClusterError::Overlap { call, member });
        }
        if let (None, [(member, buffers)]) = (&self.in_flight.network, parts) {
            return self.alone(what.name, *member, buffers);
        }
        let _order = self.order.lock(what.name)?;
        let call = match &self.in_flight.network {
            Some(network) => self.announced_call(network, what, parts.len()),
            None => {
                let members: Vec<_> = parts.iter().map(|(member, _)| *member).collect();
                let bytes = parts.iter().map(|(_, buffers)| buffers.bytes()).sum();
                let call = self.local_call(what, &members, bytes);
                if self.in_flight.is_driven {
                    self.in_flight.unfinished.add(&call);
                }
                call
            }
        };
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
