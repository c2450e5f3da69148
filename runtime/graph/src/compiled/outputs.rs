//! The outputs of a run.

use millstream_client::handle::Handle;
use millstream_client::{Pending, Stream};
use millstream_ir::DType;
use millstream_protocol::Element;
use smallvec::SmallVec;

use crate::elements::check_elements;
use crate::error::ScheduleError;

/// The outputs of a run: a slice with one buffer for each root, in order.
#[derive(Clone, Debug)]
pub struct Outputs {
    pub(super) all: SmallVec<[Output; 1]>,
}

/// The buffer of a root, dense, in row-major order.
#[derive(Clone, Debug)]
pub struct Output {
    pub(super) handle: Handle<u8>,
    pub(super) dtype: DType,
    pub(super) shape: SmallVec<[u64; 4]>,
}

impl std::ops::Deref for Outputs {
    type Target = [Output];

    fn deref(&self) -> &[Output] {
        &self.all
    }
}

impl Output {
    /// Returns the memory as bytes.
    pub fn bytes(&self) -> &Handle<u8> {
        &self.handle
    }

    /// Returns the memory as elements of its type. Any buffer can be returned as bytes.
    ///
    /// # Errors
    /// [`ScheduleError::Elements`] if `T` is neither the element type nor `u8`.
    pub fn handle<T: Element>(&self) -> Result<Handle<T>, ScheduleError> {
        check_elements::<T>(self.dtype, || "an output".to_owned())?;
        let cast = self.handle.cast::<T>();
        cast.map_err(|why| ScheduleError::Device(why.of("run").into()))
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the lengths in this run.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Reads the elements. Any buffer can be read as bytes.
    ///
    /// # Errors
    /// [`ScheduleError::Elements`] if `T` is neither the element type nor `u8`.
    pub fn read<T: Element>(&self, stream: &Stream) -> Result<Pending<Vec<T>>, ScheduleError> {
        Ok(stream.read(&self.handle::<T>()?))
    }
}
