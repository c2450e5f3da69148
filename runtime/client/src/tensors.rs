//! Tensors: handles with shapes and strides; pitched tensors align their rows as the device prefers.

use millstream_protocol::{
    Access, ArgumentError, Axes, Binding, Element, Error, Op, SlotRef, Strided, Task,
    staging::Staged,
};

use crate::copies::{fill_upload, same_length};
use crate::create::Room;
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
    /// Creates the tensor of a slice of its own.
    fn of(hold: SlotRef, layout: Strided) -> Self {
        let handle = Handle::new(hold, layout.extent_bytes());
        Self { handle, layout }
    }

    /// Views a handle as a tensor with these strides, in elements.
    ///
    /// # Errors
    /// If the tensor ends past the handle, or its extent overflows.
    pub fn new(handle: Handle<T>, shape: &[u64], strides: &[u64]) -> Result<Self, ArgumentError> {
        let layout = Strided::new(shape, strides, size_of::<T>() as u64)?;
        if layout.extent_bytes() > handle.size() {
            let end = layout.extent_bytes();
            return Err(ArgumentError::out_of_bounds(0, end, handle.size()));
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
    /// Allocates tensors with undefined contents. Their strides show how they are pitched. Their memory counts towards
    /// the client's hard limit as one request. May block as [`Stream::empty`].
    ///
    /// # Errors
    /// Same as [`Stream::empty`]; nothing was submitted then. [`Error::Argument`] if the call must not wait, and
    /// the mailbox has no room for one task of each tensor.
    pub fn empty_tensors<T: Element>(&self, specs: &[TensorSpec]) -> Result<Vec<Tensor<T>>, Error> {
        let layouts = specs.iter().map(|spec| self.layout_of::<T>(spec));
        self.new_tensors(layouts.collect::<Result<_, _>>()?, &[])
    }

    fn layout_of<T: Element>(&self, spec: &TensorSpec) -> Result<Strided, Error> {
        let element_bytes = size_of::<T>() as u64;
        let alignment = if spec.pitched {
            self.device().properties().pitch_alignment
        } else {
            1
        };
        let layout = Strided::pitched(&spec.shape, element_bytes, alignment);
        layout.map_err(|why| why.of("tensor").into())
    }

    /// Allocates tensors and uploads dense data to them. Their memory counts towards the client's hard limit as one
    /// request. May block as [`Stream::create`].
    ///
    /// # Errors
    /// Same as [`Stream::create`]; nothing was submitted then. [`Error::Argument`] if the data and the shape differ in length;
    /// [`Error::Argument`] if the call must not wait, and the mailbox has no room for two tasks of each tensor.
    pub fn create_tensors<T: Element>(
        &self,
        specs: &[(TensorSpec, &[T])],
    ) -> Result<Vec<Tensor<T>>, Error> {
        let layouts = specs.iter().map(|(spec, data)| {
            let layout = self.layout_of::<T>(spec)?;
            same_length("tensor", size_of_val(*data) as u64, layout.dense_bytes())?;
            Ok(layout)
        });
        let layouts = layouts.collect::<Result<_, Error>>()?;
        let data: Vec<&[T]> = specs.iter().map(|(_, data)| *data).collect();
        self.new_tensors(layouts, &data)
    }

    /// Allocates tensors, and uploads their `data`, if there is any: all or none.
    fn new_tensors<T: Element>(
        &self,
        layouts: Vec<Strided>,
        data: &[&[T]],
    ) -> Result<Vec<Tensor<T>>, Error> {
        if layouts.is_empty() {
            return Ok(Vec::new());
        }
        let tasks = layouts.len() + data.len();
        let credit = match self.room_for(tasks)? {
            Room::All(credit) => credit,
            Room::Awaited => return self.submit_one_by_one(layouts, data),
        };
        let stream = self.registered_id()?;
        let bytes = data.iter().map(|data| size_of_val(*data)).sum();
        // Before the memory: an awaited call keeps memory that it was granted while it waits for uploads.
        let uploads = (!data.is_empty()).then(|| self.upload_permit(bytes));
        let uploads = uploads.transpose()?;
        let slices = self.new_slices::<T>(&layouts)?;
        let mut copies = Vec::with_capacity(data.len());
        if let Some(mut permit) = uploads {
            for ((slice, layout), data) in slices.iter().zip(&layouts).zip(data) {
                let mut copy = Task::new(Some(stream), Op::Taken);
                let permit = permit.split(size_of_val(*data) as u64);
                let target = copy_target(slice.binding(), layout);
                fill_upload(&mut copy, target, self.laid_out(layout, data), permit);
                copies.push(copy);
            }
        }
        let mut slots = self.slots(tasks)?;
        // Nothing but the end of the device fails from here on.
        credit.sent();
        let reserve = |(slice, layout)| {
            let slot = self.next_slot(&mut slots)?;
            let hold = self.send_reservation((stream, slot), slice);
            Ok(Tensor::of(hold, layout))
        };
        let tensors = slices.into_iter().zip(layouts).map(reserve);
        let tensors = tensors.collect::<Result<_, Error>>()?;
        for mut copy in copies {
            let slot = self.next_slot(&mut slots)?;
            self.bind_terms(&mut copy);
            slot.send(copy);
        }
        Ok(tensors)
    }

    /// As [`Stream::new_tensors`], for a call that waits. After the memory, which it takes together, only the end of the
    /// device is an error.
    fn submit_one_by_one<T: Element>(
        &self,
        layouts: Vec<Strided>,
        data: &[&[T]],
    ) -> Result<Vec<Tensor<T>>, Error> {
        let slices = self.new_slices::<T>(&layouts)?;
        let reserve = |(slice, layout)| {
            let hold = self.submit_reservation(slice)?;
            Ok(Tensor::of(hold, layout))
        };
        let tensors = slices.into_iter().zip(layouts).map(reserve);
        let tensors: Vec<Tensor<T>> = tensors.collect::<Result<_, Error>>()?;
        for (tensor, data) in tensors.iter().zip(data) {
            self.write_tensor(tensor, data)?;
        }
        Ok(tensors)
    }

    /// Overwrites a tensor with dense data. Bytes between its rows are unchanged. May block as
    /// [`Stream::create`].
    ///
    /// # Errors
    /// Same as [`Stream::write`].
    pub fn write_tensor<T: Element>(&self, tensor: &Tensor<T>, data: &[T]) -> Result<(), Error> {
        let layout = &tensor.layout;
        self.check_handle(&tensor.handle)?;
        same_length("tensor", size_of_val(data) as u64, layout.dense_bytes())?;
        let (binding, strides) = copy_target(tensor.handle.binding(Access::Write), layout);
        self.upload(binding, strides, size_of_val(data), || {
            self.laid_out(layout, data)
        })
    }

    /// Copies dense data to staging memory: in the memory order of the tensor if that has no gaps. Reorders the elements on
    /// this thread, to keep the work off the device thread.
    fn laid_out<T: Element>(&self, layout: &Strided, data: &[T]) -> Staged {
        match layout.fills_its_extent() && !layout.is_dense() {
            true => self.turned(layout, bytemuck::cast_slice(data)),
            false => self.staged(data),
        }
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
        self.read_each(&wanted, None)
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

/// Returns how a copy of dense data binds a tensor that begins where `slice` does.
fn copy_target(slice: Binding, layout: &Strided) -> (Binding, Option<Strided>) {
    let len = layout.extent_bytes();
    let binding = Binding { len, ..slice };
    match layout.fills_its_extent() {
        true => (binding, None),
        // The copy does not define the gaps, so a tensor with gaps is updated, not written.
        false => (binding.with_access(Access::ReadWrite), Some(layout.clone())),
    }
}
