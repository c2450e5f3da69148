//! The devices of one process, and the order of their collectives.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream::{Device, Element, Handle};

use crate::list::same_length;
use crate::order::AdmissionOrder;
use crate::{ClusterError, Group, Network};

/// Several devices of one process.
///
/// A drop closes the devices, and waits for that, also while groups still exist. Sends and receives whose other half was not
/// called fail then, and so do the calls of a group with a driven device whose data is not ready on all members. Other calls in
/// flight are waited for.
///
/// A device should belong to one fleet: collectives of two fleets have no common order, so that calls of both on the same
/// data may wait for each other.
pub struct Fleet {
    devices: Vec<Device>,
    everyone: Group,
    order: Arc<AdmissionOrder>,
}

impl Drop for Fleet {
    /// A device waits for its tasks when it is dropped, and these may wait for calls that are never made.
    fn drop(&mut self) {
        self.order.end();
        self.devices.clear();
        self.order.join();
    }
}

impl Fleet {
    /// Makes a fleet of opened devices, of any backends. Their order is that of the members of [`Fleet::group`].
    ///
    /// # Errors
    /// [`ClusterError::Empty`].
    pub fn new(devices: impl IntoIterator<Item = Device>) -> Result<Self, ClusterError> {
        let devices: Vec<Device> = devices.into_iter().collect();
        if devices.is_empty() {
            return Err(ClusterError::Empty);
        }
        let order = Arc::default();
        let everyone = Group::new(devices.iter(), &order, None);
        Ok(Self {
            devices,
            everyone,
            order,
        })
    }

    /// Makes groups that are created from now on reduce without NCCL, also if that library is installed. Reductions of
    /// CUDA devices then go through memory of the host, and combine the members in the order of their ranks.
    #[must_use]
    pub fn without_nccl(self) -> Self {
        self.order.without_nccl.store(true, Ordering::Relaxed);
        self
    }

    /// Returns the devices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Returns a group of all devices, with streams of its own.
    pub fn group(&self) -> Group {
        Group::new(self.devices.iter(), &self.order, None)
    }

    /// Returns a group of some devices, by their numbers, with streams of its own. Groups may overlap.
    ///
    /// # Errors
    /// [`ClusterError::Empty`], [`ClusterError::NoDevice`], [`ClusterError::Twice`].
    pub fn group_of(&self, devices: &[usize]) -> Result<Group, ClusterError> {
        Ok(Group::new(self.listed(devices)?, &self.order, None))
    }

    /// Returns the devices with these numbers.
    fn listed(
        &self,
        devices: &[usize],
    ) -> Result<impl Iterator<Item = &Device> + Clone, ClusterError> {
        if devices.is_empty() {
            return Err(ClusterError::Empty);
        }
        for (index, device) in devices.iter().enumerate() {
            if *device >= self.devices.len() {
                return Err(ClusterError::NoDevice {
                    device: *device,
                    devices: self.devices.len(),
                });
            }
            if devices[..index].contains(device) {
                return Err(ClusterError::Twice { device: *device });
            }
        }
        Ok(devices.iter().map(|device| &self.devices[*device]))
    }

    /// Returns a group of one device of each rank of a network, with a stream of its own. `device` is the one of this
    /// rank.
    ///
    /// # Errors
    /// [`ClusterError::NoDevice`].
    pub fn group_over(
        &self,
        network: Arc<dyn Network>,
        device: usize,
    ) -> Result<Group, ClusterError> {
        self.group_over_all(network, &[device])
    }

    /// Returns a group of several devices of each rank of a network, by their numbers, with streams of its own. Every rank
    /// has the same number of them. The bytes of a call travel once between two ranks: each rank combines those of its
    /// devices before, and divides the result among them.
    ///
    /// # Errors
    /// [`ClusterError::Empty`], [`ClusterError::NoDevice`], [`ClusterError::Twice`].
    pub fn group_over_all(
        &self,
        network: Arc<dyn Network>,
        devices: &[usize],
    ) -> Result<Group, ClusterError> {
        let members = self.listed(devices)?;
        Ok(Group::new(members, &self.order, Some(network)))
    }

    /// Copies `source` to `target`, which has the same length, on any two devices of the fleet. May block while there is
    /// no room for the tasks; never waits for the devices' work.
    ///
    /// # Errors
    /// [`ClusterError::Stranger`], [`ClusterError::Length`], [`ClusterError::Refused`].
    #[track_caller]
    pub fn copy<T: Element>(
        &self,
        source: &Handle<T>,
        target: &Handle<T>,
    ) -> Result<(), ClusterError> {
        let member = |which, handle: &Handle<T>| {
            self.everyone
                .member_of(handle)
                .ok_or(ClusterError::Stranger { which })
        };
        let (from, to) = (member("source", source)?, member("target", target)?);
        same_length(("copy", "target"), to, source.len(), target)?;
        self.everyone.transfer((from, source), (to, target))
    }
}
