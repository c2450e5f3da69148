//! Tensors: handles with shapes and strides; pitched tensors align their rows as the device prefers.

use millstream_protocol::access::Access;
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, LaunchError};
use millstream_protocol::layout::{Axes, Strided};
use millstream_protocol::memory::AllocationMode;
use millstream_protocol::staging::Staged;

use crate::handle::Handle;
use crate::{Pending, Stream};

/// The shape of a tensor to allocate, and whether its rows are pitched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    shape: Axes,
    pitched: bool,
}

impl TensorSpec {
    /// Describes a tensor of this shape, outermost axis first, whose rows start at the device's preferred alignment.
    pub fn pitched(shape: &[u64]) -> Self {
        Self {
            shape: shape.into(),
            pitched: true,
        }
    }

    /// Describes a tensor of this shape without gaps, outermost axis first.
    pub fn dense(shape: &[u64]) -> Self {
        Self {
            shape: shape.into(),
            pitched: false,
        }
    }
}

/// A handle with a shape and strides.
#[derive(Clone, Debug)]
pub struct Tensor<T: Element> {
    handle: Handle<T>,
    layout: Strided,
}

impl<T: Element> Tensor<T> {
    /// Views a handle as a tensor with these strides, in elements.
    ///
    /// # Errors
    /// If the tensor ends past the handle, or its extent overflows.
    pub fn new(handle: Handle<T>, shape: &[u64], strides: &[u64]) -> Result<Self, LaunchError> {
        let layout = Strided::new(shape, strides, size_of::<T>() as u64)?;
        if layout.extent_bytes() > handle.size() {
            return Err(LaunchError::OutOfBounds {
                start: 0,
                end: layout.extent_bytes(),
                size: handle.size(),
            });
        }
        Ok(Self { handle, layout })
    }

    /// Returns the handle of the tensor's memory.
    pub fn handle(&self) -> &Handle<T> {
        &self.handle
    }

    /// Returns the number of elements along each axis, outermost first.
    pub fn shape(&self) -> &[u64] {
        &self.layout.shape
    }

    /// Returns the distance between neighbours along each axis, in elements.
    pub fn strides(&self) -> &[u64] {
        &self.layout.strides
    }
}

impl Stream {
    /// Allocates tensors with undefined contents. Their strides show how they are pitched. May block as
    /// [`Stream::empty`].
    ///
    /// # Errors
    /// Same as [`Stream::empty`].
    pub fn empty_tensors<T: Element>(&self, specs: &[TensorSpec]) -> Result<Vec<Tensor<T>>, Error> {
        specs.iter().map(|spec| self.empty_tensor(spec)).collect()
    }

    fn empty_tensor<T: Element>(&self, spec: &TensorSpec) -> Result<Tensor<T>, Error> {
        let element_bytes = size_of::<T>() as u64;
        let alignment = if spec.pitched {
            self.device().properties().pitch_alignment
        } else {
            1
        };
        let layout = Strided::pitched(&spec.shape, element_bytes, alignment).map_err(refused)?;
        let len = (layout.extent_bytes() / element_bytes) as usize;
        let handle = self.reserve(self.waits(), len, AllocationMode::Automatic)?;
        Ok(Tensor { handle, layout })
    }

    /// Allocates tensors and uploads dense data to them. May block as [`Stream::create`].
    ///
    /// # Errors
    /// Same as [`Stream::create`]; [`Error::Launch`] if the data and the shape differ in length.
    pub fn create_tensors<T: Element>(
        &self,
        specs: &[(TensorSpec, &[T])],
    ) -> Result<Vec<Tensor<T>>, Error> {
        let create = |(spec, data): &(TensorSpec, &[T])| {
            let tensor = self.empty_tensor::<T>(spec)?;
            self.write_tensor(&tensor, data)?;
            Ok(tensor)
        };
        specs.iter().map(create).collect()
    }

    /// Overwrites a tensor with dense data. Bytes between its rows are unchanged. May block as
    /// [`Stream::create`].
    ///
    /// # Errors
    /// Same as [`Stream::write`].
    pub fn write_tensor<T: Element>(&self, tensor: &Tensor<T>, data: &[T]) -> Result<(), Error> {
        self.check_handle(&tensor.handle)?;
        let bytes = size_of_val(data) as u64;
        if bytes != tensor.layout.dense_bytes() {
            let length = LaunchError::Length {
                source_bytes: bytes,
                destination_bytes: tensor.layout.dense_bytes(),
            };
            return Err(refused(length));
        }
        let layout = &tensor.layout;
        // The copy does not define the gaps, so a tensor with gaps is updated, not written.
        let access = match layout.fills_its_extent() {
            true => Access::Write,
            false => Access::ReadWrite,
        };
        let mut binding = tensor.handle.binding(access);
        binding.len = layout.extent_bytes();
        let (dense, whole) = (layout.is_dense(), access == Access::Write);
        self.upload(
            self.waits(),
            binding,
            (!whole).then(|| layout.clone()),
            size_of_val(data),
            // Reorders the elements on this thread, to keep the work off the device thread.
            || match whole && !dense {
                true => self.turned(layout, bytemuck::cast_slice(data)),
                false => self.staged(data),
            },
        )
    }

    /// Reads the elements of several tensors, dense, in one answer. May block while there is no room for the task;
    /// never waits for the device's work.
    pub fn read_tensors<'a, T: Element>(
        &self,
        tensors: impl IntoIterator<Item = &'a Tensor<T>>,
    ) -> Pending<Vec<Vec<T>>> {
        let wanted: Vec<(&Handle<T>, Option<Strided>)> = tensors
            .into_iter()
            .map(|tensor| (&tensor.handle, Some(tensor.layout.clone())))
            .collect();
        self.read_each(&wanted)
    }

    /// Reorders dense data to the memory order of a tensor without gaps.
    fn turned(&self, layout: &Strided, data: &[u8]) -> Staged {
        self.staging().filled(data.len(), |turned| {
            layout.for_each_run(|strided, dense, bytes| {
                let (strided, dense, bytes) = (strided as usize, dense as usize, bytes as usize);
                turned[strided..strided + bytes].copy_from_slice(&data[dense..dense + bytes]);
            });
        })
    }
}

fn refused(why: LaunchError) -> Error {
    Error::Launch {
        task: "tensor".into(),
        why,
    }
}
