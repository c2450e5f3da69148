//! Every operation on every type, with operands at the edges of the type, compared with the reference of the IR.

use std::collections::BTreeMap;

use millstream::ir::{Blocking, DType, Program};
use millstream::{CubeCount, Error};
use millstream_kernel_cases::launch::Launch;
use millstream_kernel_cases::operations::Case;
use rstest::rstest;

use crate::gpu::{Buffers, Gpu};

/// Elements of each operation.
const COUNT: usize = 1_500;

/// The greatest distance from the reference, and the operands that have it.
type Worst = (u64, Vec<u64>);

fn bytes(dtype: DType, bits: impl Iterator<Item = u64>) -> Vec<u8> {
    let size = dtype.size();
    bits.flat_map(|bits| bits.to_le_bytes().into_iter().take(size))
        .collect()
}

/// Runs a case. Returns the greatest distance of a result from the reference.
fn worst(gpu: &Gpu, case: Case) -> Result<Worst, Error> {
    let inputs = case.inputs(COUNT);
    let operands = case.operands();
    let column = |(at, dtype): (usize, &DType)| bytes(*dtype, inputs.iter().map(|each| each[at]));
    let mut buffers: Vec<Vec<u8>> = operands.iter().enumerate().map(column).collect();
    buffers.push(vec![0xa5; inputs.len() * case.result().size()]);
    let outputs = gpu.launch(Launch {
        program: Program::Ssa(case.function()),
        blocking: Blocking::DEFAULT,
        cubes: CubeCount::d1(7),
        buffers: &buffers,
        words: &[inputs.len() as u64],
    })?;
    let results = outputs[operands.len()].chunks(case.result().size());
    let distances = results.zip(&inputs).map(|(result, inputs)| {
        let mut word = [0; 8];
        word[..result.len()].copy_from_slice(result);
        let distance = case.distance(u64::from_le_bytes(word), case.reference(inputs));
        (distance, inputs.clone())
    });
    let worst = distances.max_by_key(|(distance, _)| *distance);
    Ok(worst.unwrap_or_default())
}

/// Prints the greatest distances of operations that may be inexact: `--nocapture` shows them.
#[rstest]
fn every_operation_on_every_type_agrees_with_the_reference(
    #[values(Buffers::Addresses, Buffers::Descriptors)] buffers: Buffers,
) {
    let Some(gpu) = Gpu::open(buffers) else {
        return;
    };
    let (mut wrong, mut inexact) = (Vec::new(), BTreeMap::new());
    for case in Case::all() {
        match worst(&gpu, case) {
            Ok((distance, inputs)) => {
                if distance > case.units() {
                    wrong.push(format!("{case:?}: {distance} ulp for {inputs:x?}"));
                }
                if case.units() > 0 {
                    inexact.insert(format!("{case:?}"), distance);
                }
            }
            Err(error) => wrong.push(format!("{case:?}: {error}")),
        }
    }
    println!("worst distances in units in the last place, {buffers:?}: {inexact:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
