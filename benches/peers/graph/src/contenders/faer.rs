//! The crate `faer`: products of matrices, on one thread.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use crate::contenders::{Contender, Into, Offer, What, hand};
use crate::work::{Input, Work};

pub(crate) struct Faer;

impl Contender for Faer {
    fn name(&self) -> &'static str {
        "faer"
    }

    fn job<'a>(&'a self, work: Work, what: What, inputs: &'a [Input]) -> Offer<'a> {
        match (work, what) {
            (Work::Product(side), What::Run) => {
                let (left, right) = (&inputs[0].numbers, &inputs[1].numbers);
                Into::offer(work, move |out| multiply(out, left, right, [side; 3]))
            }
            (Work::Layers, What::Run) => hand::layers(inputs, multiply),
            _ => Ok(None),
        }
    }
}

fn multiply(out: &mut [f32], left: &[f32], right: &[f32], sizes: [usize; 3]) {
    let [rows, inner, columns] = sizes;
    let out = MatMut::from_row_major_slice_mut(out, rows, columns);
    let left = MatRef::from_row_major_slice(left, rows, inner);
    let right = MatRef::from_row_major_slice(right, inner, columns);
    matmul(out, Accum::Replace, left, right, 1.0, Par::Seq);
}
