//! Tensors: handles with shapes and strides, pitched where the device likes rows aligned.

use millstream_protocol::access::Access;
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, LaunchError};
use millstream_protocol::layout::{Axes, Strided};
use millstream_protocol::memory::AllocationMode;
use millstream_protocol::staging::Staged;

use crate::handle::Handle;
use crate::{Pending, Stream};

/// What a tensor is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    shape: Axes,
    pitched: bool,
}

impl TensorSpec {
    /// A tensor of this shape, outermost axis first, whose rows start where the device likes it.
    pub fn pitched(shape: &[u64]) -> Self {
        Self {
            shape: shape.into(),
            pitched: true,
        }
    }

    /// A tensor of this shape without gaps.
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
    /// A handle seen as a tensor with these strides, in elements.
    ///
    /// # Errors
    /// When the tensor ends past the handle, or its extent overflows.
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

    /// The memory.
    pub fn handle(&self) -> &Handle<T> {
        &self.handle
    }

    /// Elements along each axis, outermost first.
    pub fn shape(&self) -> &[u64] {
        &self.layout.shape
    }

    /// Elements from one to the next along each axis.
    pub fn strides(&self) -> &[u64] {
        &self.layout.strides
    }
}

impl Stream {
    /// Memory for tensors. Their strides tell how they are pitched. May wait for room in the mailbox.
    ///
    /// # Errors
    /// As [`Stream::empty`].
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

    /// Tensors with copies of dense data. May wait as [`Stream::create`].
    ///
    /// # Errors
    /// As [`Stream::create`]; [`Error::Launch`] when data and shape differ in length.
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

    /// Overwrites a tensor with dense data. Bytes between its rows stay as they are. May wait as
    /// [`Stream::create`].
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn write_tensor<T: Element>(&self, tensor: &Tensor<T>, data: &[T]) -> Result<(), Error> {
        self.own(&tensor.handle)?;
        let bytes = size_of_val(data) as u64;
        if bytes != tensor.layout.dense_bytes() {
            let length = LaunchError::Length {
                source_bytes: bytes,
                destination_bytes: tensor.layout.dense_bytes(),
            };
            return Err(refused(length));
        }
        let layout = &tensor.layout;
        // Gaps are not defined by the copy, so a tensor that may have some is updated, not written.
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
            // Its elements are put in the order of the device here: a device's thread has better to do.
            || match whole && !dense {
                true => self.turned(layout, bytemuck::cast_slice(data)),
                false => self.staged(data),
            },
        )
    }

    /// The elements of tensors, dense, in one answer. Asking may wait for room in the mailbox.
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

    /// Dense data in the order in which a tensor without gaps lies.
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
