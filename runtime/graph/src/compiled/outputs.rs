//! What comes out of a run.

use millstream_client::handle::Handle;
use millstream_client::{Pending, Stream};
use millstream_ir::DType;
use millstream_protocol::element::Element;
use millstream_protocol::error::Error;
use smallvec::SmallVec;

use crate::elements::check_elements;
use crate::error::ScheduleError;

/// What a run makes: one buffer for each root, in their order.
#[derive(Clone, Debug)]
pub struct Outputs {
    pub(super) all: SmallVec<[Output; 1]>,
}

/// The buffer of a root: dense, rows one after the other.
#[derive(Clone, Debug)]
pub struct Output {
    pub(super) handle: Handle<u8>,
    pub(super) dtype: DType,
    pub(super) shape: SmallVec<[u64; 4]>,
}

impl Outputs {
    /// The buffer of a root.
    pub fn get(&self, root: usize) -> Option<&Output> {
        self.all.get(root)
    }

    /// The buffers of all roots, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Output> {
        self.all.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl std::ops::Index<usize> for Outputs {
    type Output = Output;

    fn index(&self, root: usize) -> &Output {
        &self.all[root]
    }
}

impl Output {
    /// Its memory.
    pub fn bytes(&self) -> &Handle<u8> {
        &self.handle
    }

    /// Its memory as elements of its type; as bytes, whatever that is.
    ///
    /// # Errors
    /// [`ScheduleError::Elements`].
    pub fn handle<T: Element>(&self) -> Result<Handle<T>, ScheduleError> {
        check_elements::<T>(self.dtype, || "an output".to_owned())?;
        self.handle.cast::<T>().map_err(|why| {
            let task = "run".into();
            ScheduleError::Device(Error::Launch { task, why })
        })
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its lengths in this run.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Reads it, as elements of its type; as bytes, whatever that is.
    ///
    /// # Errors
    /// [`ScheduleError::Elements`].
    pub fn read<T: Element>(&self, stream: &Stream) -> Result<Pending<Vec<T>>, ScheduleError> {
        Ok(stream.read(&self.handle::<T>()?))
    }
}
