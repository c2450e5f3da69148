//! Atomic operations with results.

use millstream_ir::ssa::{Builder, MemoryRef, Val};
use millstream_ir::{BinaryOp, DType};

use super::case;
use crate::data::elements;
use crate::functions::Case;

/// The threads of the one cube, and the elements that they have of their own.
const THREADS: i64 = 64;
/// The results of a thread.
const RESULTS: i64 = 22;

/// Each atomic operation on this type, by threads alone and by all threads of a cube on one element, in a buffer and in
/// shared memory.
pub fn atomics(dtype: DType) -> Case {
    let k = Builder::new("atomics", [64, 1, 1]);
    let (x, y) = (k.read("x", dtype), k.update("y", dtype));
    let (own, one) = (k.shared("own", dtype, 64), k.shared("one", dtype, 1));
    let me = k.thread();
    own.set(me, x.get(me));
    k.when(me.eq(0), || one.set(0, x.get(0)));
    k.barrier();
    let next = k.var("next", me * RESULTS + THREADS);
    let give = |value: Val<'_>| {
        y.set(next.get(), value);
        next.set(next.get() + 1);
    };
    let ops = {
        use BinaryOp::{Add, And, Max, Min, Or, Xor};
        let all = [Add, Min, Max, And, Or, Xor];
        all.into_iter().take(if dtype.is_float() { 1 } else { 6 })
    };
    let each = |memory: MemoryRef<'_>| {
        for (nth, op) in (0..).zip(ops.clone()) {
            give(memory.fetch(op, me, x.get((me * 7 + nth) % THREADS)));
        }
        give(memory.get_atomic(me));
        give(memory.swap(me, x.get((me * 5 + 3) % THREADS)));
        if !dtype.is_float() {
            // Of every second thread the element is as expected.
            let now = memory.get(me);
            let expected = (me % 2).eq(0).select(now, now + x.get(me) + 1);
            give(memory.compare_exchange(me, expected, x.get(-me + (THREADS - 1))));
            give(memory.get(me));
        }
    };
    each(y);
    each(own);
    k.barrier();
    for op in ops.clone() {
        one.fetch(op, 0, x.get(me));
        k.barrier();
        give(one.get(0));
        k.barrier();
    }
    if !dtype.is_float() {
        // A sum by compare-and-exchange.
        k.loop_(|| {
            let before = one.get_atomic(0);
            let is_done = one
                .compare_exchange(0, before, before + x.get(me))
                .eq(before);
            k.when(is_done, || k.break_());
        });
        k.barrier();
        y.set(me, one.get(0));
    }
    // Floats in memory are small multiples of a power of two, so their sums are exact in any order.
    let len = (THREADS + THREADS * RESULTS + 8) as usize;
    let buffers = [(THREADS as usize, 1), (len, 2)];
    let buffers = buffers.map(|(len, seed)| elements(dtype, len, seed, !dtype.is_float()));
    case(k.build().unwrap(), 1, buffers.to_vec(), Vec::new()).0
}
