//! The errors of refused operations: each names the user's operation and the caller's line.
#![allow(clippy::unwrap_used, reason = "tests unwrap values that they expect")]

use millstream_graph::{DType, Graph, LazyBuffer, Over, Schedule, Size};

/// Asserts that each call is refused with an error of its name and of a line of this file.
macro_rules! refused {
    ($($name:literal: $call:expr;)*) => {{
        let calls: Vec<(&str, LazyBuffer)> = vec![$(($name, $call)),*];
        let mut wrong = Vec::new();
        for (name, buffer) in calls {
            match buffer.error() {
                None => wrong.push(format!("{name}: not refused")),
                Some(error) if (error.op(), error.at().file()) != (name, file!()) => {
                    wrong.push(format!("{name}: {error}"));
                }
                Some(_) => {}
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }};
}

#[test]
fn error_of_a_refused_operation_names_it_and_the_line_of_the_caller() {
    let graph = Graph::new();
    let x = &graph.input("x", DType::F32, [2, 3]);
    let y = &graph.input("y", DType::F32, [5, 7]);
    let row = &graph.input("row", DType::F32, [3]);
    let whole = &graph.input("whole", DType::I32, [2, 3]);
    let index = &graph.input("index", DType::I64, [2, 3]);
    let truth = &graph.input("truth", DType::Bool, [2, 3]);
    let wide = &graph.input("wide", DType::F32, [1, 1, 1, 1, 1, 1, 1, 1]);
    let n = &graph.length("n", 1 << 40);
    let long = &graph.input("long", DType::F32, [n]);
    let foreign = &Graph::new().input("x", DType::F32, [2, 3]);
    refused! {
        "abs": truth.abs();
        "sqrt": whole.sqrt();
        "neg": -truth;
        "not": !x;
        "add": x + y;
        "add": x + whole;
        "add": x + foreign;
        "sub": x - y;
        "mul": whole * 0.5;
        "div": 0.5 / whole;
        "rem": x % y;
        "bitand": x & x;
        "shl": x << 1;
        "minimum": x.minimum(y);
        "maximum": whole.maximum(0.5);
        "pow": whole.pow(2);
        "equals": x.equals(y);
        "less": x.less(whole);
        "select": x.select(x, x);
        "select": truth.select(x, whole);
        "select": truth.select(x, y);
        "select": truth.select(whole, 0.5);
        "recip": whole.cast(DType::Bool).recip();
        "square": truth.square();
        "relu": truth.relu();
        "clamp": whole.clamp(0.5, 1);
        "clamp": x.clamp(y, 1);
        "clamp": x.clamp(0, whole);
        "sigmoid": whole.sigmoid();
        "silu": whole.silu();
        "gelu": whole.gelu();
        "gelu_tanh": truth.gelu_tanh();
        "sign": truth.sign();
        "log1p": whole.log1p();
        "expm1": whole.expm1();
        "atan2": x.atan2(whole);
        "atan2": x.atan2(y);
        "atan2": whole.atan2(whole);
        "atan2": whole.atan2(0.5);
        "any": x.any(5);
        "all": x.all([0, 0]);
        "sum": truth.sum(0);
        "sum": x.sum(2);
        "sum": x.sum(Over::from(2).dropped());
        "max": x.max([0, 0]);
        "argmax": x.argmax(3);
        "mean": whole.mean(0);
        "mean": x.mean(2);
        "mean": x.cast(DType::F16).mean(2);
        "mean": x.mean(Over::from(2).dropped());
        "variance": whole.variance(0);
        "variance": x.variance(2);
        "variance": x.cast(DType::F16).variance(2);
        "softmax": whole.softmax(0);
        "softmax": x.softmax(2);
        "log_softmax": whole.log_softmax(0);
        "log_softmax": x.log_softmax(2);
        "normalize": whole.normalize(0, 1e-5);
        "normalize": x.normalize(2, 1e-5);
        "normalize": x.cast(DType::F16).normalize(2, 1e-5);
        "matmul": x.matmul(x);
        "matmul": x.matmul(row);
        "matmul_t": x.matmul_t(y);
        "matmul_t": x.matmul_t(row);
        "matmul_t": x.matmul_t(foreign);
        "einsum": LazyBuffer::einsum("ij,jk", [x, x]);
        "einsum": LazyBuffer::einsum("ij,ij->i", [x, whole]);
        "einsum": LazyBuffer::einsum("ij,ij,ij->i", [x, whole, x]);
        "einsum": LazyBuffer::einsum("ij,ij->i", [truth, truth]);
        "einsum": LazyBuffer::einsum("ij->i", [truth]);
        "einsum": LazyBuffer::einsum("ij,ij->i", [x, foreign]);
        "einsum": LazyBuffer::einsum("i,j,k->ijk", [long, long, long]);
        "einsum": LazyBuffer::einsum("abcdefgh,i->abcdefghi", [wide, row]);
        "einsum": LazyBuffer::einsum("->", []);
        "gather": x.gather(2, index);
        "gather": x.gather(0, whole);
        "take": x.take(2, index);
        "take": x.take(0, whole);
        "take": x.take(0, &whole.reshape([6]));
        "take": wide.take(0, &index.reshape([2, 3]));
        "scatter": x.scatter(2, index, x);
        "scatter": x.scatter(0, index, y);
        "scatter_add": x.scatter_add(2, index, x);
        "scatter_add": truth.scatter_add(0, index, truth);
        "cat": LazyBuffer::cat([x, y], 0);
        "cat": LazyBuffer::cat([x, x], 2);
        "cat": LazyBuffer::cat([], 0);
        "stack": LazyBuffer::stack([x, y], 0);
        "stack": LazyBuffer::stack([x, x], 3);
        "stack": LazyBuffer::stack([], 0);
        "stack": LazyBuffer::stack([wide, wide], 0);
        "roll": x.roll(2, 1);
        "flip": x.flip(2);
        "repeat": x.repeat(2, 2);
        "repeat": x.repeat(0, -1);
        "repeat": wide.repeat(0, i64::MAX);
        "pad": x.pad(2, 1, 1, 0);
        "pad": x.pad(0, -1, 1, 0);
        "pad": x.pad(0, 0, -1, 0);
        "pad": whole.pad(0, 1, 1, 0.5);
        "pad": x.pad(0, i64::MAX, 1, 0);
        "cumsum": x.cumsum(2);
        "cumsum": truth.cumsum(0);
        "cumsum": wide.cumsum(0);
        "reshape": x.reshape([4]);
        "reshape": x.reshape([4, -1]);
        "reshape": x.reshape([-1, -1]);
        "reshape": x.reshape([1, 1, 1, 1, 1, 1, 1, 2, 3]);
        "split_axis": x.split_axis(2, [1, 1]);
        "split_axis": x.split_axis(0, [3, 1]);
        "split_axis": x.split_axis(0, [-1, 3]);
        "split_axis": wide.split_axis(0, [1, 1]);
        "merge_axes": x.merge_axes(0, 2);
        "merge_axes": x.merge_axes(1, 0);
        "permute": x.permute([0, 0]);
        "permute": x.permute([0]);
        "transpose": x.transpose(0, 2);
        "transpose": x.transpose(2, 0);
        "t": row.t();
        "broadcast_to": x.broadcast_to([4, 3]);
        "broadcast_to": x.broadcast_to([3]);
        "broadcast_to": x.broadcast_to([-1, 2, 3]);
        "unsqueeze": x.unsqueeze(4);
        "unsqueeze": wide.unsqueeze(0);
        "squeeze": x.squeeze(2);
        "squeeze": x.squeeze(0);
        "narrow": x.narrow(2, 0, 1);
        "narrow": x.narrow(0, 0, 3);
        "set": x.set(y);
        "set": x.set(whole);
        "set_rows": x.set_rows(2, 0, x);
        "set_rows": x.set_rows(0, 1, x);
        "set_rows": x.set_rows(0, 0, whole);
        "set_layout": x.set_layout(whole, millstream_graph::Layout {
            offset: Size::ZERO,
            strides: vec![Size::from(3), Size::ONE],
        });
        "set_layout": x.set_layout(x, millstream_graph::Layout {
            offset: Size::ZERO,
            strides: vec![Size::ONE, Size::ONE],
        });
        "grad": whole.grad([whole])[0].clone();
        "grad": x.grad([foreign])[0].clone();
        "cast": x.cast(DType::I8);
        "input": graph.input("i8", DType::I8, [1]);
        "input": graph.input("negative", DType::F32, [-1]);
        "constant": graph.constant(DType::I32, 0.5);
        "full": graph.full(DType::I32, [2], 0.5);
        "full": graph.full(DType::F32, [-2], 0.5);
        "zeros": graph.zeros(DType::F32, [-2]);
        "scalar": graph.scalar("s", DType::I32, 0.5).1;
        "index": graph.index([2], 1);
        "index": graph.index([-2], 0);
        "iota": graph.iota(-2);
        "random_bits": graph.random_bits([-2], 0).1;
        "uniform": graph.uniform([-2], 0).1;
        "normal": graph.normal([-2], 0).1;
    };
}

#[test]
fn errors_say_what_the_user_wrote() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [2, 3]);
    let text = |refused: LazyBuffer| refused.check().unwrap_err().to_string();
    let starts = |refused: LazyBuffer, with: &str| {
        let text = text(refused);
        assert!(text.starts_with(with), "{text}");
    };
    starts(
        x.pad(1, -1, 0, 0),
        "`pad` of f32 [2, 3]: the length or offset -1 may be negative",
    );
    starts(
        x.reshape([5, -1]),
        "`reshape` of f32 [2, 3]: 6 elements do not fill [5, -1] with any length in the place of -1",
    );
    starts(
        x.reshape([-1, -1]),
        "`reshape` of f32 [2, 3]: the lengths of [-1, -1] cannot be inferred: at most one may be -1",
    );
    starts(
        LazyBuffer::einsum("ij,kj->ik", [&x, &x.cast(DType::F64)]),
        "`einsum` of f32 [2, 3] and f64 [2, 3]: the types differ",
    );
    let refused = Schedule::create_one(&x.matmul(&x)).unwrap_err().to_string();
    assert!(refused.contains("messages.rs"), "{refused}");
}
