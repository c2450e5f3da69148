//! Every operation, with every type that it supports.

use millstream::DType;
use millstream::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::expected::{Expected, TestGraph};
use super::support::On;

const TYPES: [DType; 9] = [
    DType::Bf16,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U32,
    DType::Bool,
];

#[apply(every_device)]
fn every_unary_operation_is_right_for_every_type(on: On) {
    let rig = on.open();
    for dtype in TYPES {
        let mut test = TestGraph::default();
        let x = test.numbers(dtype, &[3, 37]);
        let ops = UnaryOp::ALL.iter().filter(|op| op.takes(dtype.computed()));
        let roots: Vec<Expected> = ops.map(|op| x.unary(*op)).collect();
        test.check(&rig.client(), &roots);
    }
}

#[apply(every_device)]
fn every_binary_operation_is_right_for_every_type(on: On) {
    let rig = on.open();
    for dtype in TYPES {
        let mut test = TestGraph::default();
        let (a, b) = (test.numbers(dtype, &[3, 37]), test.numbers(dtype, &[37]));
        let ops = BinaryOp::ALL.iter().filter(|op| op.takes(dtype.computed()));
        let mut roots: Vec<Expected> = ops.map(|op| a.binary(*op, &b)).collect();
        roots.extend(CompareOp::ALL.iter().map(|op| a.compare(*op, &b)));
        test.check(&rig.client(), &roots);
    }
}

#[apply(every_device)]
fn every_reduction_is_right_for_every_type_and_axis(on: On) {
    let rig = on.open();
    for dtype in TYPES {
        for axes in [&[0][..], &[1], &[2], &[0, 2], &[1, 2], &[0, 1, 2]] {
            let mut test = TestGraph::default();
            let x = test.numbers(dtype, &[3, 5, 67]);
            let ops = ReduceOp::ALL.iter().filter(|op| op.takes(dtype.computed()));
            let roots: Vec<Expected> = ops.map(|op| x.reduce(*op, axes)).collect();
            test.check(&rig.client(), &roots);
        }
    }
}

#[apply(every_device)]
fn every_cast_is_right(on: On) {
    let rig = on.open();
    for from in TYPES {
        let mut test = TestGraph::default();
        let x = test.numbers(from, &[2, 33]);
        let roots: Vec<Expected> = TYPES.iter().map(|to| x.cast(*to)).collect();
        test.check(&rig.client(), &roots);
    }
}

#[apply(every_device)]
fn views_have_every_element_at_its_place(on: On) {
    let rig = on.open();
    let mut test = TestGraph::default();
    let x = test.floats(DType::F32, &[4, 6, 10]);
    let row = test.floats(DType::F32, &[6, 1]);
    let roots = [
        x.permute(&[2, 0, 1]),
        x.narrow(1, 2, 3).permute(&[1, 2, 0]),
        x.reshape(&[24, 10]).permute(&[1, 0]).reshape(&[10, 4, 6]),
        x.permute(&[1, 0, 2]).reshape(&[6, 40]),
        row.broadcast_to(&[4, 6, 10]).binary(BinaryOp::Add, &x),
        row.broadcast_to(&[4, 6, 10]).reshape(&[240]),
        x.narrow(2, 9, 1).reshape(&[4, 6]).permute(&[1, 0]),
    ];
    test.check(&rig.client(), &roots);
}

#[apply(every_device)]
fn gather_scatter_and_cat_are_right(on: On) {
    let rig = on.open();
    let mut test = TestGraph::default();
    let x = test.floats(DType::F32, &[7, 5]);
    let index = test.ints(DType::I64, &[4, 5]);
    let along = test.ints(DType::I64, &[7, 3]);
    let values = test.floats(DType::F32, &[4, 5]);
    let roots = [
        x.gather(0, &index),
        x.gather(1, &along),
        x.scatter(0, &index, &values, false),
        x.scatter(0, &index, &values, true),
        Expected::cat(&[&x, &values, &x], 0),
        Expected::cat(&[&x.permute(&[1, 0]), &values.permute(&[1, 0])], 1),
    ];
    test.check(&rig.client(), &roots);
}

#[apply(every_device)]
fn products_of_every_type_with_batches_and_epilogues_are_right(on: On) {
    let rig = on.open();
    for dtype in TYPES.into_iter().filter(|dtype| *dtype != DType::Bool) {
        let mut test = TestGraph::default();
        let a = test.numbers(dtype, &[2, 1, 17, 9]);
        let b = test.numbers(dtype, &[3, 9, 13]);
        let bias = test.numbers(dtype, &[13]);
        let product = a.matmul(&b);
        let roots = [
            product.clone(),
            a.matmul(&b)
                .binary(BinaryOp::Add, &bias)
                .binary(BinaryOp::Max, &bias),
            b.permute(&[0, 2, 1]).matmul(&b),
        ];
        test.check(&rig.client(), &roots);
    }
}
