//! Capsules of DLPack over the memory of a buffer, or over a copy of it on the host.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use millstream::backend::{Process, Refused};
use millstream::cuda::{ConsumerStream, Mark};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::Buffer;
use super::pin::{Pin, PinUse};
use crate::elements::strides_of;
use crate::exchange::abi::{
    DataType, Device, IS_COPIED, Managed, ManagedTensor, ManagedTensorVersioned, READ_ONLY, Tensor,
};
use crate::held::{DETACHED_COPY_BYTES, room_for};
use crate::submit::wait_for;

/// The keyword arguments of `__dlpack__`.
pub(crate) struct Request {
    pub(crate) stream: Option<i64>,
    pub(crate) max_version: Option<(u32, u32)>,
    pub(crate) dl_device: Option<(i32, i32)>,
    pub(crate) copy: Option<bool>,
}

impl Request {
    /// Decides whether the request gets a copy on the host or the memory itself, of `own`, and checks that the consumer
    /// can take it.
    fn copies(&self, own: Device, is_writable: bool) -> PyResult<bool> {
        let target = self
            .dl_device
            .map_or(own, |(kind, index)| Device { kind, index });
        if target.is_host() && self.stream.is_some() {
            let message = "memory of the host has no streams; pass `stream=None`";
            return Err(PyBufferError::new_err(message));
        }
        if self.copy != Some(true) && target == own {
            if is_writable || self.is_versioned() {
                return Ok(false);
            }
            // A consumer of the first version does not know of memory that it must not write, so it gets a copy unless
            // it refuses one.
            if self.copy.is_none() && own.is_host() {
                return Ok(true);
            }
            return Err(PyBufferError::new_err(
                "the memory is read-only, which a consumer of DLPack before 1.0 does not know of; pass \
                 `buffer.map(writable=True)` in place of the buffer, or an array of `numpy.asarray(buffer)`, or \
                 `copy=True`",
            ));
        }
        if self.copy != Some(false) && target == Device::CPU {
            return Ok(true);
        }
        let (kind, index) = (target.kind, target.index);
        let (own_kind, own_index) = (own.kind, own.index);
        Err(PyBufferError::new_err(format!(
            "the buffer is in memory of DLPack's device ({own_kind}, {own_index}), and cannot be exported to device \
             ({kind}, {index}) with `copy={}`; a copy on the host, device (1, 0), is possible",
            self.copy
                .map_or("None", |copy| if copy { "True" } else { "False" })
        )))
    }

    fn is_versioned(&self) -> bool {
        self.max_version.is_some_and(|(major, _)| major >= 1)
    }

    /// Returns a capsule with the memory of a buffer. Does not wait if it is pinned; otherwise as [`Pin::take`].
    pub(crate) fn export<'py>(
        &self,
        py: Python<'py>,
        buffer: &Buffer,
        pinned: Option<PinUse>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = buffer.origin.place.device();
        let is_writable = pinned.as_ref().is_some_and(|pin| pin.is_writable());
        let lent = match (self.copies(own, is_writable)?, pinned) {
            (false, pinned) => {
                let pin = pinned.map_or_else(|| Pin::take(py, buffer, false), Ok)?;
                Lent::pinned(own, pin, self.stream)?
            }
            // Not by a task, which a writable pin would hold back.
            (true, Some(pin)) if own.is_host() => {
                Lent::copied(copy_of(py, &pin, buffer.handle.size() as usize)?)
            }
            (true, _) if is_writable => {
                return Err(PyBufferError::new_err(
                    "memory of a GPU cannot be copied to the host while it is mapped for writing; release it first",
                ));
            }
            (true, _) => Lent::copied(copy_to_host(py, buffer)?),
        };
        match self.is_versioned() {
            true => capsule::<ManagedTensorVersioned>(py, lent, buffer),
            false => capsule::<ManagedTensor>(py, lent, buffer),
        }
    }
}

/// Reads a buffer to memory of its own.
fn copy_to_host(py: Python<'_>, buffer: &Buffer) -> PyResult<Vec<u8>> {
    let pending = py.detach(|| buffer.origin.client.new_stream().read(&buffer.handle));
    wait_for(py, pending)
}

/// Copies the bytes of a pin, detached if they are many.
fn copy_of(py: Python<'_>, pin: &Pin, bytes: usize) -> PyResult<Vec<u8>> {
    let mut copy = room_for(bytes)?;
    let mut fill = || {
        // SAFETY: the pin keeps this number of bytes, and the copy has room for them. Python may write them meanwhile if the
        // pin is writable, as with any array that is read without a lock, so there is no slice of them.
        unsafe {
            std::ptr::copy_nonoverlapping(pin.pointer(), copy.as_mut_ptr(), bytes);
            copy.set_len(bytes);
        }
    };
    match bytes {
        // The pointer of an empty buffer may be null.
        0 => {}
        1..=DETACHED_COPY_BYTES => fill(),
        _ => py.detach(fill),
    }
    Ok(copy)
}

/// Memory that a consumer has until it calls the deleter.
struct Lent {
    pointer: *mut u8,
    device: Device,
    flags: u64,
    /// What the deleter drops, on any thread.
    owner: Box<dyn Send>,
}

impl Lent {
    /// The memory of a buffer, which the consumer uses by a stream of a GPU.
    fn pinned(device: Device, pin: PinUse, stream: Option<i64>) -> PyResult<Self> {
        let (consumer, process) = (pin.consumer(stream)?, Process::current());
        Ok(Self {
            pointer: pin.pointer(),
            device,
            flags: if pin.is_writable() { 0 } else { READ_ONLY },
            owner: Box::new(Pinned {
                pin: Some(pin),
                consumer,
                process,
            }),
        })
    }

    /// A copy of this library, which the deleter frees at once. The system's allocator aligns it for any element.
    fn copied(mut copy: Vec<u8>) -> Self {
        Self {
            pointer: copy.as_mut_ptr(),
            device: Device::CPU,
            flags: IS_COPIED,
            owner: Box::new(copy),
        }
    }
}

/// A pin, and the stream of the consumer if the memory is of a GPU.
struct Pinned {
    /// `Some` until the drop.
    pin: Option<PinUse>,
    consumer: Option<ConsumerStream>,
    process: Process,
}

impl Drop for Pinned {
    /// Keeps the memory of a GPU until the consumer's stream has finished with it, which another thread finds out: the
    /// deleter may be called with the interpreter's lock. The consumer may destroy the stream as soon as this returns.
    fn drop(&mut self) {
        let (pin, consumer) = (self.pin.take(), self.consumer.take());
        let Some(consumer) = consumer else {
            return;
        };
        if !self.process.is_current() {
            // The memory is the parent's, and the driver cannot be called here.
            std::mem::forget((pin, consumer));
            return;
        }
        match consumer.end() {
            Ok(end) => release((pin.map(PinUse::end), end)),
            // A pin that is kept still counts, and warnings about tasks that wait name it.
            refused => let_go(pin, &refused),
        }
    }
}

/// Drops a pin whose use has ended, or of a lost GPU, where nothing uses the memory any more. After another error, such as that
/// of a capture, the end cannot be learned: the memory is then neither written nor reused.
fn let_go<P, T>(pin: P, ended: &Result<T, Refused>) {
    if !matches!(ended, Ok(_) | Err(Refused::Lost(_))) {
        std::mem::forget(pin);
    }
}

/// A pin that is kept until the work of a consumer has completed.
type Left = (Option<Arc<Pin>>, Mark);

/// The queue of the thread that drops pins, once it was started.
static RELEASER: Mutex<Option<Sender<Left>>> = Mutex::new(None);

/// How long the thread waits before it looks again: the shortest and the longest time.
const LOOKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(32)];

/// Hands a pin to the thread that drops it, which is started if there is none.
fn release(left: Left) {
    let mut sender = RELEASER.lock().unwrap_or_else(PoisonError::into_inner);
    let unsent = match &*sender {
        Some(running) => running.send(left).err().map(|unsent| unsent.0),
        None => Some(left),
    };
    let Some(left) = unsent else { return };
    let (queue, receiver) = mpsc::channel();
    let thread = thread::Builder::new().name("millstream-release".into());
    match thread.spawn(move || drop_pins(&receiver)) {
        Ok(_) => {
            // The thread receives as long as there is a sender.
            let _ = queue.send(left);
            *sender = Some(queue);
        }
        Err(_) => {
            drop(sender);
            let_go(left.0, &left.1.wait());
        }
    }
}

/// Drops each pin once its end has passed, in whatever order they do: one stream may wait for what another pin holds back.
/// The pause between two looks grows while nothing ends.
fn drop_pins(receiver: &Receiver<Left>) {
    let [shortest, longest] = LOOKS;
    let (mut all, mut pause) = (Vec::<Left>::new(), shortest);
    loop {
        let next = match all.is_empty() {
            true => receiver.recv().map_err(RecvTimeoutError::from),
            false => receiver.recv_timeout(pause),
        };
        match next {
            Ok(left) => {
                all.push(left);
                all.extend(receiver.try_iter());
                pause = shortest;
            }
            Err(RecvTimeoutError::Timeout) => pause = longest.min(2 * pause),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        all.retain_mut(|(pin, end)| {
            let asked = end.is_complete();
            let waits = matches!(asked, Ok(false));
            if !waits {
                let_go(pin.take(), &asked);
            }
            waits
        });
    }
}

/// A managed tensor and what it points to. The box of it is the context of the tensor.
struct Exported<T> {
    managed: T,
    _owner: Box<dyn Send>,
    _shape: Box<[i64]>,
    _strides: Box<[i64]>,
}

/// Frees a tensor. Consumers call it on any thread, with or without the interpreter's lock.
unsafe extern "C" fn delete<T: Managed>(managed: *mut T) {
    if managed.is_null() {
        return;
    }
    // SAFETY: the consumer passes the tensor that `capsule` made, once.
    let context = unsafe { *(*managed).context() };
    // SAFETY: the context is the box of which the tensor is a part.
    drop(unsafe { Box::from_raw(context.cast::<Exported<T>>()) });
}

fn capsule<'py, T: Managed>(
    py: Python<'py>,
    lent: Lent,
    buffer: &Buffer,
) -> PyResult<Bound<'py, PyAny>> {
    let shape = &*buffer.shape;
    let mut lengths: Box<[i64]> = shape.iter().map(|length| *length as i64).collect();
    let mut strides: Box<[i64]> = strides_of(shape, 1).map(|stride| stride as i64).collect();
    let tensor = Tensor {
        data: lent.pointer.cast(),
        device: lent.device,
        ndim: shape.len() as i32,
        dtype: DataType::of(buffer.dtype),
        shape: lengths.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let exported = Box::into_raw(Box::new(Exported {
        managed: T::new(tensor, lent.flags, delete::<T>),
        _owner: lent.owner,
        _shape: lengths,
        _strides: strides,
    }));
    // SAFETY: the box was just made, and nothing else has a pointer to it.
    let managed = unsafe { &raw mut (*exported).managed };
    // SAFETY: as above.
    unsafe { *(*managed).context() = exported.cast() };
    // SAFETY: the name is static, and the destructor is for capsules with such a tensor.
    let made = unsafe {
        ffi::PyCapsule_New(
            managed.cast(),
            T::NAME.0.as_ptr(),
            Some(end_of_capsule::<T>),
        )
    };
    if made.is_null() {
        // SAFETY: the capsule was not made, so it does not free the tensor.
        unsafe { delete::<T>(managed) };
        return Err(PyErr::fetch(py));
    }
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, made) })
}

/// Frees the tensor of a capsule that no consumer has taken: a consumer renames the capsule.
unsafe extern "C" fn end_of_capsule<T: Managed>(capsule: *mut ffi::PyObject) {
    let name = T::NAME.0.as_ptr();
    // SAFETY: the interpreter passes the capsule.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name) } != 0 {
        // SAFETY: the capsule has the name with which `capsule` makes it, and so such a tensor.
        unsafe { delete(ffi::PyCapsule_GetPointer(capsule, name).cast::<T>()) };
    }
}
