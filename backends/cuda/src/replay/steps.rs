//! What a recording does at one replay: calls of the driver that have not been made.

use std::ffi::c_void;

use cudarc::driver::sys::CUdeviceptr;

use crate::fill::Set;
use crate::launch::{PARAMETERS_INLINE, Parameters, Shape};

/// Steps, in order. Empty and filled again at each replay, on the same memory (I9).
#[derive(Default)]
pub(crate) struct Steps {
    pub(crate) list: Vec<Step>,
    /// The bytes of all parameters, each from a word of its own on.
    values: Vec<u64>,
    /// Where each parameter begins, in words.
    places: Vec<u32>,
    /// There is a step that no graph can have.
    pub(crate) is_unfit: bool,
}

/// One call of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// Which of the recording's tasks it is of.
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
    Set(Set),
}

/// The task of a replay that is taken down, instead of being given to a stream.
pub(crate) struct Taking<'a> {
    pub(crate) steps: &'a mut Steps,
    pub(crate) task: usize,
}

/// A launch, and where its parameters are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) shape: Shape,
    /// The first of its `places`, and how many there are.
    first: u32,
    count: u32,
}

impl Steps {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.values.clear();
        self.places.clear();
        self.is_unfit = false;
    }

    /// Adds a launch with these parameters, which are copied.
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
            // SAFETY: each value has as many bytes as its parameter, and there is room for them.
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

    /// Where the parameters of a call lie.
    pub(crate) fn parameters(&self, call: &Call) -> [*mut c_void; PARAMETERS_INLINE] {
        let mut pointers = [std::ptr::null_mut(); PARAMETERS_INLINE];
        for (pointer, place) in pointers.iter_mut().zip(self.places_of(call)) {
            // The driver only reads what parameters point at.
            *pointer = self.values[*place as usize..].as_ptr().cast_mut().cast();
        }
        pointers
    }

    fn places_of(&self, call: &Call) -> &[u32] {
        &self.places[call.first as usize..(call.first + call.count) as usize]
    }

    /// Could these be the steps of the same graph, with other values?
    pub(crate) fn have_the_shape_of(&self, other: &Self) -> bool {
        let alike = |(one, other): (&Step, &Step)| {
            let same = match (&one.action, &other.action) {
                // Of memory that is set, a graph changes where and to what.
                (Action::Set(one), Action::Set(other)) => {
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

    /// Is a step the same as that of another, which has its shape, values and all?
    pub(crate) fn is_as_in(&self, other: &Self, step: usize) -> bool {
        let (here, there) = (&self.list[step], &other.list[step]);
        let Action::Launch(call) = &here.action else {
            return here == there;
        };
        // Of calls the places are alike already.
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
