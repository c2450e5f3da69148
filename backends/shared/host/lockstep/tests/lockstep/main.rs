//! Functions run on the CPU: written by hand, and lowered from nests.
#![allow(clippy::unwrap_used, reason = "tests")]

mod edges;
mod hand;
mod nests;
mod products;
mod side_by_side;
mod typed;

use std::sync::Arc;

use millstream_ir::Program;
use millstream_ir::ssa::Function;
use millstream_lockstep::Columns;
use millstream_protocol::{Cube, Kernel, NativeArgs, NativeView};

/// Runs the cubes of a function over these bytes. Returns the bytes afterwards.
fn run(function: &Function, counts: [u32; 3], before: &[Vec<u8>], words: &[u64]) -> Vec<Vec<u8>> {
    let columns = Columns::new(function).unwrap();
    run_columns(&columns, function, counts, before, words)
}

/// The same with a function that is compiled, and may have run before.
fn run_columns(
    columns: &Columns,
    function: &Function,
    counts: [u32; 3],
    before: &[Vec<u8>],
    words: &[u64],
) -> Vec<Vec<u8>> {
    let program = Arc::new(Program::Ssa(function.clone()));
    let kernel = Kernel::from_program("tried", program).unwrap();
    // As words, which are aligned for every type.
    let aligned = |bytes: &Vec<u8>| {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        words.collect()
    };
    let mut memory: Vec<Vec<u64>> = before.iter().map(aligned).collect();
    let views = memory.iter_mut().zip(before);
    let views = views.map(|(memory, bytes)| NativeView {
        pointer: memory.as_mut_ptr().cast(),
        bytes: bytes.len() as u64,
    });
    let views: Vec<NativeView> = views.collect();
    let cube = Cube::new(0, counts);
    // SAFETY: the buffers live, are aligned for every type, and nothing else touches them; each cube runs once.
    let arguments = unsafe { NativeArgs::new(kernel.signature(), &views, words, &[], cube) };
    columns.run(0..counts.iter().product::<u32>().into(), counts, &arguments);
    let bytes = memory.iter().zip(before).map(|(memory, bytes)| {
        let all = memory.iter().flat_map(|word| word.to_le_bytes());
        all.take(bytes.len()).collect()
    });
    bytes.collect()
}
