//! The steps of one replay: the driver calls that its tasks make, collected before any of them is made.

use std::ffi::c_void;

use cudarc::driver::sys::CUdeviceptr;

use crate::fill::Memset;
use crate::launch::{PARAMETERS_INLINE, Parameters, Shape};

/// Steps in task order. Cleared and refilled at each replay, so that the memory is reused (I9).
#[derive(Default)]
pub(crate) struct Steps {
    pub(crate) list: Vec<Step>,
    /// The bytes of all parameters; each parameter starts at a new word.
    values: Vec<u64>,
    /// The first word of each parameter.
    places: Vec<u32>,
    /// Whether a task has no node: it has launch attributes, or a library performs it.
    pub(crate) unsupported: bool,
}

/// One driver call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The index of its task in the recording.
    pub(crate) task: usize,
    pub(crate) action: Action,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Launch(Call),
    Copy {
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
    },
    Memset(Memset),
}

/// Collects the steps of one task, in place of a stream.
pub(crate) struct StepSink<'a> {
    pub(crate) steps: &'a mut Steps,
    pub(crate) task: usize,
}

/// A launch, with the location of its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) shape: Shape,
    /// The first of its entries in `places`, and their number.
    first: u32,
    count: u32,
}

impl Steps {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.values.clear();
        self.places.clear();
        self.unsupported = false;
    }

    /// Adds a launch and copies its parameters.
    pub(crate) fn launch(
        &mut self,
        task: usize,
        (shape, parameters, parameter_bytes): (Shape, &Parameters, &[usize]),
    ) {
        let first = self.places.len() as u32;
        for (value, bytes) in parameters.values().iter().zip(parameter_bytes) {
            let place = self.values.len();
            self.places.push(place as u32);
            self.values.resize(place + bytes.div_ceil(8), 0);
            // SAFETY: each value has as many bytes as its parameter, and the resized vector has room for them.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    value.cast::<u8>(),
                    self.values[place..].as_mut_ptr().cast(),
                    *bytes,
                );
            }
        }
        let action = Action::Launch(Call {
            shape,
            first,
            count: self.places.len() as u32 - first,
        });
        self.list.push(Step { task, action });
    }

    /// Adds a step.
    pub(crate) fn push(&mut self, task: usize, action: Action) {
        self.list.push(Step { task, action });
    }

    /// Returns pointers to the parameters of a call.
    pub(crate) fn parameters(&self, call: &Call) -> [*mut c_void; PARAMETERS_INLINE] {
        let mut pointers = [std::ptr::null_mut(); PARAMETERS_INLINE];
        for (pointer, place) in pointers.iter_mut().zip(self.places_of(call)) {
            // The cast to mutable is sound: the driver only reads parameters.
            *pointer = self.values[*place as usize..].as_ptr().cast_mut().cast();
        }
        pointers
    }

    fn places_of(&self, call: &Call) -> &[u32] {
        &self.places[call.first as usize..(call.first + call.count) as usize]
    }

    /// Returns `true` if a graph of `other` can be updated to these steps: they differ in their values only.
    pub(crate) fn have_shape_of(&self, other: &Self) -> bool {
        let alike = |(one, other): (&Step, &Step)| {
            let same = match (&one.action, &other.action) {
                // An update of a memset node can change its address and value, but not its extent.
                (Action::Memset(one), Action::Memset(other)) => {
                    (one.element, one.pitch, one.width, one.height)
                        == (other.element, other.pitch, other.width, other.height)
                }
                (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
            };
            same && one.task == other.task
        };
        self.list.len() == other.list.len()
            && self.places == other.places
            && self.list.iter().zip(&other.list).all(alike)
    }

    /// Returns `true` if a step is equal to that of `other`, values included. `other` has the same shape.
    pub(crate) fn equal_at(&self, other: &Self, step: usize) -> bool {
        let (here, there) = (&self.list[step], &other.list[step]);
        let Action::Launch(call) = &here.action else {
            return here == there;
        };
        // The places are equal already, so comparing the values suffices.
        let next = (call.first + call.count) as usize;
        let end = self
            .places
            .get(next)
            .map_or(self.values.len(), |place| *place as usize);
        let start = self
            .places
            .get(call.first as usize)
            .map_or(end, |place| *place as usize);
        here == there && self.values[start..end] == other.values[start..end]
    }
}
