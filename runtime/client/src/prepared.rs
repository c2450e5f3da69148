//! The kernels of a device that calls prepare the first time, by their types.

use std::any::TypeId;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use millstream_protocol::{DeviceProperties, Error, Kernel};

use crate::{KernelHandle, Stream};

/// The slots of the first table.
const SLOTS_MIN: usize = 64;

/// A kernel that a call has prepared.
pub struct PreparedKernel {
    /// The kernel.
    pub kernel: KernelHandle,
    /// The most pieces that a launch is divided into, if the kernel's cubes are pieces of any size; otherwise 0.
    pub pieces: u32,
}

/// Kernels by type: a hash table that is only added to, so that a launch finds its kernel without a lock. Where two
/// kernels have one slot, the second is in the next table, which is twice as long.
pub(crate) struct PreparedKernels {
    slots: Box<[OnceLock<(TypeId, PreparedKernel)>]>,
    next: OnceLock<Box<PreparedKernels>>,
}

impl Default for PreparedKernels {
    fn default() -> Self {
        Self::of(SLOTS_MIN)
    }
}

impl PreparedKernels {
    fn of(slots: usize) -> Self {
        Self {
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
            next: OnceLock::new(),
        }
    }

    fn slot(&self, key: TypeId) -> &OnceLock<(TypeId, PreparedKernel)> {
        &self.slots[hash(key) & (self.slots.len() - 1)]
    }

    /// Returns a kernel.
    #[inline]
    fn find(&self, key: TypeId) -> Option<&PreparedKernel> {
        let mut table = self;
        loop {
            match table.slot(key).get()? {
                (other, kernel) if *other == key => return Some(kernel),
                _ => table = table.next.get()?,
            }
        }
    }

    /// Adds a kernel. Returns the one that was added first if there is one.
    fn add(&self, key: TypeId, kernel: PreparedKernel) -> &PreparedKernel {
        let (mut table, mut added) = (self, Some(kernel));
        loop {
            let taken = table
                .slot(key)
                .get_or_init(|| (key, added.take().expect("added once")));
            if taken.0 == key {
                return &taken.1;
            }
            let slots = 2 * table.slots.len();
            table = table.next.get_or_init(|| Box::new(Self::of(slots)));
        }
    }
}

/// Returns a hash of a type: the id is one.
fn hash(key: TypeId) -> usize {
    struct Last(u64);

    impl Hasher for Last {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
            }
        }

        fn write_u64(&mut self, word: u64) {
            self.0 = word;
        }
    }

    let mut last = Last(0);
    key.hash(&mut last);
    last.finish() as usize
}

impl Stream {
    /// Returns the kernel of the type `K` on this stream's device. The first call defines and compiles it: `define` returns
    /// it with its [pieces](PreparedKernel::pieces). Two first calls at once may both do so, and use the kernel of one.
    ///
    /// # Errors
    /// Those of `define`, and of [`ComputeClient::kernel`](crate::ComputeClient::kernel).
    #[inline]
    pub fn prepared<K: 'static>(
        &self,
        define: impl FnOnce(&DeviceProperties) -> Result<(Kernel, u32), Error>,
    ) -> Result<&PreparedKernel, Error> {
        let (kernels, key) = (&self.device().prepared, TypeId::of::<K>());
        match kernels.find(key) {
            Some(kernel) => Ok(kernel),
            None => self.prepare(key, define),
        }
    }

    #[cold]
    fn prepare(
        &self,
        key: TypeId,
        define: impl FnOnce(&DeviceProperties) -> Result<(Kernel, u32), Error>,
    ) -> Result<&PreparedKernel, Error> {
        let device = self.device();
        let (kernel, pieces) = define(device.properties())?;
        let kernel = device.prepare(kernel)?;
        Ok(device.prepared.add(key, PreparedKernel { kernel, pieces }))
    }

    /// Returns the properties of the stream's device.
    pub fn properties(&self) -> &DeviceProperties {
        self.device().properties()
    }
}
