//! The product, as native code of the fake driver in the order of a stream.

use half::{bf16, f16};

use crate::descriptors::{EXECUTION_FAILED, Layout, Lens, Operation};
use crate::loaded;

/// A range of memory, as `fake_cuda_native` takes it.
#[repr(C)]
struct Span {
    start: u64,
    bytes: u64,
}

/// A product that its stream has not reached.
pub(crate) struct Product {
    /// `cudaDataType`
    data: u32,
    /// Rows, columns, depth, batch.
    lens: [usize; 4],
    /// The distances of elements of `a`, `b` and `d`: from row to row, from column to column, in the batch.
    steps: [[usize; 3]; 3],
    uses_workspace: bool,
}

fn element_bytes(data: u32) -> u64 {
    match data {
        1 => 8,
        0 => 4,
        _ => 2,
    }
}

impl Product {
    /// Returns the product of layouts that match.
    pub(crate) fn new(operation: &Operation, [a, b, d]: [&Layout; 3], lens: Lens) -> Self {
        let steps = |of: &Layout, transposed: bool| match transposed {
            true => [of.leading as usize, 1, of.stride as usize],
            false => [1, of.leading as usize, of.stride as usize],
        };
        let [of_a, of_b] = operation.transposed;
        Self {
            data: d.data,
            lens: lens.map(|len| len as usize),
            steps: [steps(a, of_a), steps(b, of_b), steps(d, false)],
            uses_workspace: false,
        }
    }

    /// Submits it to a stream, with the addresses of `a`, `b`, `d` and of a workspace, if it uses one.
    pub(crate) fn submit(
        mut self,
        [a, b, d]: [u64; 3],
        workspace: u64,
        stream: u64,
    ) -> Result<(), u32> {
        let [rows, columns, depth, batch] = self.lens;
        let span = |start, [row, column, on]: [usize; 3], [rows, columns]: [usize; 2]| {
            let last = (rows - 1) * row + (columns - 1) * column + (batch - 1) * on;
            let bytes = (last as u64 + 1) * element_bytes(self.data);
            Span { start, bytes }
        };
        let [of_a, of_b, of_d] = self.steps;
        let reads = [
            span(a, of_a, [rows, depth]),
            span(b, of_b, [depth, columns]),
        ];
        let mut writes = vec![span(d, of_d, [rows, columns])];
        self.uses_workspace = workspace != 0;
        if self.uses_workspace {
            writes.push(Span {
                start: workspace,
                bytes: 8,
            });
        }
        let data = Box::into_raw(Box::new(self));
        let arguments = [
            stream,
            c"a product".as_ptr() as u64,
            reads.as_ptr() as u64,
            reads.len() as u64,
            writes.as_ptr() as u64,
            writes.len() as u64,
            0,
            run as *const () as u64,
            data as u64,
        ];
        let driver = loaded::driver().ok_or(EXECUTION_FAILED)?;
        match loaded::call(driver, "fake_cuda_native", &arguments) {
            0 => Ok(()),
            _ => {
                // SAFETY: made above, and the driver has not taken it.
                drop(unsafe { Box::from_raw(data) });
                Err(EXECUTION_FAILED)
            }
        }
    }

    /// Computes each element, from the last index of the depth to the first. This is another order than that of other
    /// kernels, so that a test that depends on the order fails.
    ///
    /// # Safety
    /// The pointers are to as many elements of the type as the driver has checked.
    unsafe fn compute<T: Copy, F: Copy + Default>(
        &self,
        [a, b]: [*const u8; 2],
        d: *mut u8,
        load: fn(T) -> F,
        fused: fn(F, F, F) -> F,
        store: fn(F) -> T,
    ) {
        let (a, b, d) = (a.cast::<T>(), b.cast::<T>(), d.cast::<T>());
        let [rows, columns, depth, batch] = self.lens;
        let at = |of: usize, row: usize, column: usize, on: usize| {
            let [by_row, by_column, by_batch] = self.steps[of];
            row * by_row + column * by_column + on * by_batch
        };
        for on in 0..batch {
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |at| (row, at))) {
                let mut sum = F::default();
                for inner in (0..depth).rev() {
                    // SAFETY: as the caller guarantees.
                    let (x, y) = unsafe {
                        let x = a.add(at(0, row, inner, on)).read_unaligned();
                        (x, b.add(at(1, inner, column, on)).read_unaligned())
                    };
                    sum = fused(load(x), load(y), sum);
                }
                // SAFETY: as above.
                unsafe { d.add(at(2, row, column, on)).write_unaligned(store(sum)) };
            }
        }
    }
}

/// Runs a product, with pointers to its inputs and outputs.
extern "C" fn run(data: u64, inputs: *const *const u8, outputs: *const *mut u8) {
    // SAFETY: `submit` has made it, and the driver runs it once.
    let product = unsafe { Box::from_raw(data as *mut Product) };
    // SAFETY: the driver has checked the ranges of `submit`.
    unsafe {
        let (sides, d) = ([*inputs, *inputs.add(1)], *outputs);
        match product.data {
            0 => product.compute(sides, d, |x| x, f32::mul_add, |x| x),
            1 => product.compute(sides, d, |x| x, f64::mul_add, |x| x),
            2 => product.compute(sides, d, f16::to_f32, f32::mul_add, f16::from_f32),
            _ => product.compute(sides, d, bf16::to_f32, f32::mul_add, bf16::from_f32),
        }
        if product.uses_workspace {
            (*outputs.add(1)).write_bytes(1, 8);
        }
    }
}
