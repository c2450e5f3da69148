//! The places of temporaries in the arena: which are one, because an item works in place, and at which offsets.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_ir::Program;
use millstream_ir::nest::{BufferMode, Nest};
use millstream_protocol::{
    Access,
    hazard::order::{Order, Touch},
};

use super::{InPlace, Memory, ParameterRole};
use crate::error::ScheduleError;
use crate::memory::plan::{Plan, Temporary};
use crate::schedule::Steps;
use crate::schedule::item::{Item, Work, Written};
use crate::schedule::walk::Local;

impl Memory {
    /// Merges temporaries in place, and assigns offsets. Two temporaries of equal size are one if the first ends at the
    /// item that begins the second, and the item reads and writes each element at one place.
    pub(super) fn place_temporaries(
        &mut self,
        steps: &Steps,
        mut temporaries: Vec<(Local, Temporary)>,
        known: &HashMap<Local, usize>,
        order: Option<&Order>,
    ) -> Result<(), ScheduleError> {
        let mut same: Vec<usize> = (0..temporaries.len()).collect();
        for (index, item) in steps.items.iter().enumerate() {
            let ends_here = |written: &Written, binding: usize| {
                let out = *known.get(&steps.storage(written.node))?;
                let input = *known.get(&steps.storage(item.bindings[binding]))?;
                let (_, it) = &temporaries[same[input]];
                let fits = it.last() == index && it.bytes == temporaries[out].1.bytes;
                let begins = temporaries[out].1.first() == index;
                (begins && fits && same[input] != out).then_some((out, input))
            };
            // At most one output of an item: another would need another input.
            let mut pairs = item.writes.iter().flat_map(|written| {
                let bindings = written.in_place.iter();
                bindings.map(move |binding| (written, *binding))
            });
            let found = pairs.find_map(|(written, binding)| {
                let (out, input) = ends_here(written, binding)?;
                Some((written.binding, binding, out, input))
            });
            let Some((output, binding, out, input)) = found else {
                continue;
            };
            if let Work::Program(program) = &item.work
                && let Program::Nest(nest) = &**program
            {
                let program = Arc::new(Program::Nest(in_place(nest, binding, output)));
                self.programs.insert(index, InPlace { program, output });
                let one = same[input];
                same[out] = one;
                let later = temporaries[out].1.items[1..].to_vec();
                temporaries[one].1.items.extend(later);
            }
        }
        let mut placed: Vec<Temporary> = Vec::new();
        let mut places = vec![0; temporaries.len()];
        for (index, (_, temporary)) in temporaries.iter().enumerate() {
            if same[index] == index {
                places[index] = placed.len();
                placed.push(temporary.clone());
            }
        }
        let too_large = || ScheduleError::TooLarge("the memory of the temporaries".to_owned());
        let plan = Plan::new(&placed, order).ok_or_else(too_large)?;
        self.temporary_bytes = plan.bytes;
        for ((storage, Temporary { bytes, .. }), one) in temporaries.into_iter().zip(same) {
            let offset = plan.offsets[places[one]];
            self.unplanned_bytes = self.unplanned_bytes.saturating_add(bytes);
            let place = (ParameterRole::Arena, offset, bytes);
            self.places.insert(storage, place);
        }
        Ok(())
    }
}

/// Returns the nest with one of its outputs bound to one of its inputs.
fn in_place(nest: &Nest, input: usize, output: usize) -> Nest {
    let mut nest = nest.clone();
    for access in &mut nest.accesses {
        let buffer = usize::from(access.buffer);
        let moved = if buffer == output { input } else { buffer };
        access.buffer = (moved - usize::from(moved > output)) as u16;
    }
    nest.buffers[input].mode = BufferMode::Update;
    nest.buffers.remove(output);
    nest
}

/// Returns the order of items by the hazards of the buffers that they access, before temporaries share memory.
pub(super) fn order_of(steps: &Steps) -> Order {
    let mut spaces: HashMap<Local, u32> = HashMap::new();
    let mut touches = |item: &Item| {
        let stored: Vec<Local> = item.written().map(|node| steps.storage(node)).collect();
        let touched = item.touched().map(|node| steps.storage(node));
        let touch = |storage: Local| {
            let next = spaces.len() as u32;
            Touch {
                space: *spaces.entry(storage).or_insert(next),
                range: 0..1,
                access: match stored.contains(&storage) {
                    true => Access::ReadWrite,
                    false => Access::Read,
                },
            }
        };
        touched.map(touch).collect::<Vec<Touch>>()
    };
    let items: Vec<Vec<Touch>> = steps.items.iter().map(&mut touches).collect();
    Order::of(&items)
}
