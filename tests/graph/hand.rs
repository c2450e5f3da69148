//! Functions that were written by hand, called by graphs.

use millstream::graph::DType;
use millstream::ir::ssa::{Builder, Function};

/// `to[i] = factor * from[i]` for each of `n` elements, by any number of threads.
pub(crate) fn scale() -> Function {
    let k = Builder::new("scale", [4, 1, 1]);
    let (from, to) = (k.read("from", DType::F32), k.write("to", DType::F32));
    let (factor, n) = (k.scalar("factor", DType::F32), k.scalar("n", DType::I64));
    k.range(k.index(), n, k.count(), |i| to.set(i, factor * from.get(i)));
    k.build().expect("it is well-formed")
}
