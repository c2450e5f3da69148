//! Arrays of other libraries: capsules of DLPack that we take.

use std::any::Any;
use std::ptr::NonNull;

use millstream::DType;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::abi::{self, Managed, ManagedTensor, ManagedTensorVersioned, Tensor};
use crate::elements::{checked_bytes, strides_of};
use crate::errors::{argument_error, caused};

/// A tensor whose deleter is called when this is dropped: by a thread that is attached to the interpreter, which the
/// deleter may need.
struct Owned<T: Managed>(NonNull<T>);

impl<T: Managed> Owned<T> {
    /// Takes the tensor of a capsule. Returns `None` if the capsule has another name.
    fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let (name, used) = T::NAME;
        // SAFETY: any object and a string may be passed.
        if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) } == 0 {
            return Ok(None);
        }
        // SAFETY: a capsule of this name.
        let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
        let Some(tensor) = NonNull::new(pointer.cast::<T>()) else {
            return Err(PyErr::fetch(capsule.py()));
        };
        // SAFETY: a capsule; the name is static. From here on the tensor is ours, and the capsule does not free it.
        if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) } != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Ok(Some(Self(tensor)))
    }

    fn get(&self) -> &T {
        // SAFETY: the tensor is alive until its deleter is called, in `drop`.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Managed> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Some(deleter) = self.get().deleter() {
            // SAFETY: called once, with the tensor that the producer made.
            unsafe { deleter(self.0.as_ptr()) }
        }
    }
}

/// An array in host memory, which belongs to another library. To be dropped by a thread that is attached to the
/// interpreter.
pub(crate) struct DlTensor {
    /// The first element.
    pointer: *mut u8,
    dtype: DType,
    shape: Vec<usize>,
    /// In elements.
    strides: Vec<isize>,
    /// An `Owned` of either version.
    _owner: Box<dyn Any>,
}

// SAFETY: a tensor of DLPack has no thread of its own.
unsafe impl Send for DlTensor {}
// SAFETY: shared access only reads the elements.
unsafe impl Sync for DlTensor {}

impl DlTensor {
    /// Takes the array of an object with `__dlpack__`.
    ///
    /// # Errors
    /// `TypeError` if it has no such method, `ArgumentError` if its memory or its elements cannot be read, and what the
    /// method raises.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = request(object)?;
        if let Some(owned) = Owned::<ManagedTensorVersioned>::take(&capsule)? {
            let major = owned.get().version.major;
            if major != abi::VERSION.major {
                let message = format!("expected version 1 of DLPack, got {major}");
                return Err(PyBufferError::new_err(message));
            }
            return Self::read(owned, |managed| &managed.tensor);
        }
        if let Some(owned) = Owned::<ManagedTensor>::take(&capsule)? {
            return Self::read(owned, |managed| &managed.tensor);
        }
        let class = object.get_type().name()?;
        let message = format!("`{class}.__dlpack__` returned no capsule of DLPack");
        Err(argument_error(message))
    }

    /// As [`DlTensor::of`], for elements of a wanted type. Returns `None` if they must be converted.
    pub(crate) fn of_typed(
        object: &Bound<'_, PyAny>,
        wanted: Option<DType>,
    ) -> PyResult<Option<Self>> {
        let mut tensor = Self::of(object)?;
        match wanted {
            // The bits of a `bf16` may be given as those of a `u16`.
            Some(DType::Bf16) if tensor.dtype == DType::U16 => tensor.dtype = DType::Bf16,
            Some(wanted) if tensor.dtype != wanted => return Ok(None),
            _ => {}
        }
        Ok(Some(tensor))
    }

    fn read<T: Managed + 'static>(
        owned: Owned<T>,
        tensor_of: impl FnOnce(&T) -> &Tensor,
    ) -> PyResult<Self> {
        let tensor = tensor_of(owned.get());
        if !tensor.device.is_host() {
            return Err(elsewhere(tensor.device));
        }
        let Some(dtype) = tensor.dtype.dtype() else {
            let abi::DataType { code, bits, lanes } = tensor.dtype;
            let message = format!(
                "elements of DLPack's type code {code} with {bits} bits and {lanes} lanes are not supported; convert \
                 them to one of millstream's element types"
            );
            return Err(argument_error(message));
        };
        let wrong = |what: &dyn std::fmt::Debug| {
            let message = format!(
                "{what:?} is not a valid shape, or has no valid strides: it does not fit into memory"
            );
            argument_error(message)
        };
        let axes = usize::try_from(tensor.ndim).map_err(|_| wrong(&tensor.ndim))?;
        let lengths = match axes {
            0 => &[],
            // SAFETY: the producer passes `ndim` lengths; not null, since there are axes.
            _ => unsafe { std::slice::from_raw_parts(tensor.shape, axes) },
        };
        let shape = lengths.iter().map(|length| usize::try_from(*length).ok());
        let shape: Option<Vec<usize>> = shape.collect();
        let shape = shape.filter(|shape| checked_bytes(shape, dtype.size()).is_some());
        let shape = shape.ok_or_else(|| wrong(&lengths))?;
        let is_empty = shape.contains(&0);
        let strides: Vec<isize> = match tensor.strides.is_null() || axes == 0 {
            true => strides_of(&shape, 1).collect(),
            // SAFETY: the producer passes `ndim` strides.
            false => unsafe { std::slice::from_raw_parts(tensor.strides, axes) }
                .iter()
                .zip(&shape)
                // The stride of an axis that is never walked along may be anything.
                .map(|(stride, length)| {
                    if *length == 1 || is_empty {
                        0
                    } else {
                        *stride as isize
                    }
                })
                .collect(),
        };
        if !reaches_within_memory(&shape, &strides, dtype.size()) {
            return Err(wrong(&(lengths, &strides)));
        }
        let start = usize::try_from(tensor.byte_offset).unwrap_or(0);
        Ok(Self {
            pointer: tensor.data.cast::<u8>().wrapping_add(start),
            dtype,
            shape,
            strides,
            _owner: Box::new(owned),
        })
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the address of the first element.
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Returns the size of all elements in bytes.
    pub(crate) fn bytes(&self) -> usize {
        // The shape was checked by `checked_bytes`.
        self.shape.iter().product::<usize>() * self.dtype.size()
    }

    /// Whether the elements lie one after the other, in C's order.
    pub(crate) fn is_contiguous(&self) -> bool {
        let expected = strides_of(&self.shape, 1);
        let mut axes = self.shape.iter().zip(&self.strides).zip(expected);
        // The stride of an axis of length 1 is never used.
        self.bytes() == 0 || axes.all(|((length, stride), own)| *length == 1 || *stride == own)
    }

    /// Appends the elements, one after the other, in C's order.
    pub(crate) fn gather_to(&self, target: &mut Vec<u8>) {
        let size = self.dtype.size();
        let mut index = vec![0_usize; self.shape.len()];
        let mut offset = 0_isize;
        for _ in 0..self.bytes() / size {
            // The strides of some axes may be negative: the offset stays within the producer's memory.
            let from = self.pointer().wrapping_offset(offset * size as isize);
            // SAFETY: the element is one of the tensor's, since `index` is within its shape. The producer keeps the
            // memory. Another thread of Python could write it, as for every API that reads an array without a lock.
            target.extend_from_slice(unsafe { std::slice::from_raw_parts(from, size) });
            offset += self.next(&mut index);
        }
    }

    /// Moves to the next element, and returns the distance to it in elements.
    fn next(&self, index: &mut [usize]) -> isize {
        let mut distance = 0;
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            distance += self.strides[axis];
            if index[axis] < self.shape[axis] {
                break;
            }
            distance -= self.strides[axis] * self.shape[axis] as isize;
            index[axis] = 0;
        }
        distance
    }

    /// Gives the memory back to its library.
    pub(crate) fn release(self, _attached: Python<'_>) {
        drop(self);
    }
}

/// Whether the distances in bytes between elements fit into an `isize`, so that walking over them does not overflow.
fn reaches_within_memory(shape: &[usize], strides: &[isize], size: usize) -> bool {
    // A product of two numbers of 64 bits fits.
    let steps = shape.iter().zip(strides);
    let steps = steps.map(|(length, stride)| *length as i128 * i128::from(*stride as i64).abs());
    let reach = steps.fold(0_i128, i128::saturating_add);
    reach.saturating_mul(size as i128) <= isize::MAX as i128
}

/// Calls `__dlpack__`, for memory of the host.
fn request<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let class = object.get_type().name()?;
    let Ok(device) = object.getattr("__dlpack_device__") else {
        return Err(PyTypeError::new_err(format!(
            "expected an array with `__dlpack__` and `__dlpack_device__`, got {class}"
        )));
    };
    let (kind, index): (i32, i32) = device.call0()?.extract()?;
    let device = abi::Device { kind, index };
    let version = (abi::VERSION.major, abi::VERSION.minor);
    let call = |options: &[(&str, (u32, u32))]| {
        let keywords = PyDict::new(py);
        for (name, value) in options {
            keywords.set_item(*name, *value)?;
        }
        object.call_method("__dlpack__", (), Some(&keywords))
    };
    if !device.is_host() {
        // Libraries since DLPack 1.0 copy to the host on request.
        let copied = call(&[("max_version", version), ("dl_device", (1, 0))]);
        return copied.map_err(|error| caused(elsewhere(device), error));
    }
    match call(&[("max_version", version)]) {
        // A library from before DLPack 1.0 takes no such option.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => call(&[]),
        capsule => capsule,
    }
}

#[cold]
fn elsewhere(device: abi::Device) -> PyErr {
    let abi::Device { kind, index } = device;
    let message = format!(
        "the array is in memory of DLPack's device ({kind}, {index}), which the host cannot read; copy it to the host \
         first"
    );
    argument_error(message)
}
