//! The form of a schedule: everything that determines its recording. Schedules that differ only in the identity of
//! their buffers, scalars and lengths have the same form and share one recording.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_ir::{Blocking, Program};
use millstream_protocol::recording::RecordedWord;

use crate::compiled::Slots;
use crate::lazy::callee::Callee;
use crate::memory::{Memory, Parameter, ParameterRole};
use crate::schedule::Steps;
use crate::schedule::item::{WordValue, Work};

/// A schedule without the identity of its buffers, scalars and lengths. Schedules with equal forms have the same
/// recording.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Form {
    items: Vec<FormItem>,
    /// The parameters: inputs, outputs and temporaries.
    external: Vec<Parameter>,
    /// The number of slots. How their values depend on each other is up to the run, which computes them.
    slots: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct FormItem {
    callee: FormCallee,
    cubes: [u32; 3],
    /// The place of each binding.
    bindings: Vec<(ParameterRole, u64, u64)>,
    words: Vec<RecordedWord>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum FormCallee {
    /// A program with its blocking.
    Program(Arc<Program>, Blocking),
    /// A kernel of a user, by its address. The compiled schedule keeps it alive, so no other kernel gets this address.
    Kernel(usize),
}

impl Form {
    /// Returns the words of an item's launch.
    pub(super) fn words(&self, item: usize) -> &[RecordedWord] {
        &self.items[item].words
    }

    /// Returns the form of a schedule. Assigns slots to sizes and scalars in the order of their first use.
    pub(crate) fn new(
        steps: &Steps,
        memory: &Memory,
        blockings: &[Blocking],
        slots: &mut Slots,
    ) -> Self {
        let mut known: HashMap<u32, (ParameterRole, u64, u64)> = HashMap::new();
        let items = steps.items.iter().enumerate().map(|(index, item)| {
            let callee = match &item.work {
                Work::Program(program) => {
                    let program = memory.program(index, program);
                    FormCallee::Program(program.clone(), blockings[index])
                }
                Work::Custom(custom) => match &custom.callee {
                    Callee::Ssa(program) => FormCallee::Program(program.clone(), Blocking::DEFAULT),
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
                WordValue::Bits(bits) => RecordedWord::Value(*bits),
                WordValue::Size(size) => match size.known() {
                    Some(value) => RecordedWord::Value(value as u64),
                    None => RecordedWord::Slot(slots.size(size)),
                },
                WordValue::Scalar(scalar) => RecordedWord::Slot(slots.scalar(scalar)),
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
