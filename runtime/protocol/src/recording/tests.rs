//! The parameters of a recording, compared with lists that are searched.

use millstream_sync::slots::SlotId;
use proptest::prelude::*;

use super::*;

const SLICES: u32 = 6;
const BYTES: u64 = 24;

fn slice(index: u32) -> SliceId {
    SliceId(SlotId {
        index,
        generation: 0,
    })
}

fn binding() -> impl Strategy<Value = Binding> {
    let access = prop::sample::select(vec![Access::Read, Access::Write, Access::ReadWrite]);
    let range = (0..BYTES).prop_flat_map(|offset| (Just(offset), 0..=BYTES - offset));
    (0..SLICES, range, access)
        .prop_map(|(index, (offset, len), access)| Binding::new(slice(index), offset, len, access))
}

fn op() -> impl Strategy<Value = RecordedOp> {
    let launch = RecordedOp::Launch {
        kernel: KernelId(SlotId {
            index: 0,
            generation: 0,
        }),
        count: LaunchCount::Dynamic,
    };
    prop::sample::select(vec![RecordedOp::Copy, launch])
}

/// Returns `true` if a task reads a byte of the parameter that no earlier task has written.
fn reads_undefined(tasks: &[RecordedTask], parameter: u32) -> bool {
    let mut defined = [false; BYTES as usize];
    tasks.iter().any(|task| {
        let own = task.bindings.iter();
        let own: Vec<_> = own
            .filter(|binding| binding.parameter == parameter)
            .collect();
        let bytes = |binding: &RecordedBinding| {
            binding.offset as usize..(binding.offset + binding.len) as usize
        };
        let reads = own.iter().filter(|binding| binding.access.reads());
        let stale = reads
            .flat_map(|binding| bytes(binding))
            .any(|byte| !defined[byte]);
        let writes = own
            .iter()
            .filter(|binding| binding.access == Access::Write && !task.is_dynamic());
        writes
            .flat_map(|binding| bytes(binding))
            .for_each(|byte| defined[byte] = true);
        stale
    })
}

proptest! {
    #[test]
    fn parameters_are_slices_in_order_of_first_use(
        tasks in prop::collection::vec((op(), prop::collection::vec(binding(), 0..4)), 0..12),
        scratch in 0_u32..1 << SLICES,
    ) {
        let mut parameters = Parameters::default();
        let is_scratch = |index: u32| scratch & 1 << index != 0;
        for index in (0..SLICES).filter(|index| is_scratch(*index)) {
            parameters.formal.insert(slice(index));
            parameters.scratch.insert(slice(index));
        }
        let mut order: Vec<u32> = Vec::new();
        for (_, bindings) in &tasks {
            for binding in bindings {
                if !order.contains(&binding.slice.index()) {
                    order.push(binding.slice.index());
                }
            }
        }
        let mut recorded: Vec<RecordedTask> = tasks.iter().map(|(op, bindings)| RecordedTask {
            op: *op,
            bindings: bindings.iter().map(|binding| parameters.add(op, binding, (1, false))).collect(),
            scalars: Box::default(),
            slots: Box::default(),
            metadata: Box::default(),
            tensor_maps: Box::default(),
        }).collect();
        parameters.place(&mut recorded);
        let found: Vec<u32> = parameters.finished().iter().map(|found| found.binding.slice.index()).collect();
        prop_assert_eq!(&found, &order);
        for (task, (_, bindings)) in recorded.iter().zip(&tasks) {
            for (relative, binding) in task.bindings.iter().zip(bindings) {
                let parameter = &parameters.list[relative.parameter as usize].binding;
                prop_assert_eq!(parameter.slice, binding.slice);
                prop_assert_eq!(parameter.offset + relative.offset, binding.offset);
            }
        }
        let stale = (0..order.len() as u32)
            .filter(|parameter| is_scratch(order[*parameter as usize]) && reads_undefined(&recorded, *parameter));
        prop_assert_eq!(parameters.stale(&recorded).to_vec(), stale.collect::<Vec<_>>());
    }
}
