//! What two schedules have in common that run by the same recording: everything but which buffers, scalars and lengths they name.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_ir::{Blocking, Program};

use crate::compiled::Slots;
use crate::lazy::callee::Callee;
use crate::memory::{Memory, Parameter, Place};
use crate::schedule::Steps;
use crate::schedule::item::{WordValue, Work};

/// A schedule without names. Equal ones are the same recording.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Form {
    items: Vec<FormItem>,
    /// Inputs, outputs and temporaries.
    external: Vec<Parameter>,
    /// Which parts of sizes are slots, as far as it matters: how they hang together with each other is the caller's.
    slots: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct FormItem {
    callee: FormCallee,
    cubes: [u32; 3],
    /// Where each binding lies.
    bindings: Vec<(Place, u64, u64)>,
    words: Vec<FormWord>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum FormCallee {
    /// A program, and how it is cut up.
    Program(Arc<Program>, Blocking),
    /// A kernel of a user, by where it lies: it is kept by the recording.
    Kernel(usize),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum FormWord {
    Value(u64),
    Slot(u32),
}

impl Form {
    /// The form of a schedule.
    pub(crate) fn new(
        steps: &Steps,
        memory: &Memory,
        blockings: &[Blocking],
        slots: &mut Slots,
    ) -> Self {
        let mut known: HashMap<u32, (Place, u64, u64)> = HashMap::new();
        let items = steps.items.iter().enumerate().map(|(index, item)| {
            let callee = match &item.work {
                Work::Program(program) => {
                    let program = memory.program(index, program);
                    FormCallee::Program(program.clone(), blockings[index])
                }
                Work::Custom(custom) => match &custom.callee {
                    Callee::Ssa(program) => FormCallee::Program(program.clone(), Blocking::USUAL),
                    Callee::Kernel(kernel) => FormCallee::Kernel(Arc::as_ptr(kernel) as usize),
                },
            };
            let cubes = match &item.work {
                Work::Custom(custom) => custom.cubes,
                Work::Program(_) => [1; 3],
            };
            let bindings = item.bindings.iter().map(|node| {
                let storage = steps.storage(*node);
                *known
                    .entry(storage)
                    .or_insert_with(|| memory.place(storage))
            });
            let bindings = bindings.collect();
            let words = item.words.iter().map(|word| match word {
                WordValue::Bits(bits) => FormWord::Value(*bits),
                WordValue::Size(size) => match size.known() {
                    Some(value) => FormWord::Value(value as u64),
                    None => FormWord::Slot(slots.size(size)),
                },
                WordValue::Scalar(scalar) => FormWord::Slot(slots.scalar(scalar)),
            });
            FormItem {
                callee,
                cubes,
                bindings,
                words: words.collect(),
            }
        });
        let items = items.collect();
        Self {
            items,
            external: memory.parameters(),
            slots: slots.len(),
        }
    }
}
