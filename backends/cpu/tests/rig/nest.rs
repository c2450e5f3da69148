//! A program of the IR.

use std::sync::Arc;

use millstream_ir::nest::{Access, Buffer, BufferMode, Level, Op, Store, Stride, Value};
use millstream_ir::{BinaryOp, DType, Nest, Program, ReduceOp, UnaryOp};
use millstream_protocol::Kernel;

/// A softmax over rows without the maximum: its exponentials are retained in thread memory between passes.
pub(crate) fn nest() -> Kernel {
    let dtype = DType::F32;
    let row = vec![Stride::Word(2), Stride::One];
    let access = |buffer| Access {
        buffer,
        offset: None,
        strides: row.clone(),
    };
    let value = |op| Value { dtype, op };
    let nest = Nest {
        outer: 1,
        inner: 1,
        words: 3,
        buffers: [BufferMode::Read, BufferMode::Write]
            .map(|mode| Buffer { dtype, mode })
            .to_vec(),
        accesses: vec![access(0), access(1)],
        values: vec![
            value(Op::Load(0)),
            value(Op::Unary(UnaryOp::Exp, 0)),
            value(Op::Reduce(ReduceOp::Sum, 1)),
            value(Op::Binary(BinaryOp::Div, 1, 2)),
        ],
        stores: vec![Store {
            access: 1,
            value: 3,
            level: Level::Inner,
            scatter: None,
        }],
    };
    Kernel::from_program("nest", Arc::new(Program::Nest(nest))).expect("a nest")
}
