//! The parameters of a kernel.

use millstream_ir::DType;
use millstream_ir::nest::BufferMode;
use millstream_ir::ssa::MemoryRef;

use super::{
    AtomicBuffer, Buffer, BufferMut, Kind, Of, Place, Tracer, V, add, and, lt, mul, position,
};
use crate::number::Number;

impl<'k> Tracer<'k> {
    fn param<T: Kind>(self, name: &str, mode: BufferMode) -> MemoryRef<'k> {
        let memory = self.builder.param(name, T::WORD, mode);
        let each = T::BYTES / T::WORD.size();
        self.builder
            .count_each(memory, u32::try_from(each).unwrap_or(u32::MAX));
        memory
    }

    /// Adds a buffer that the kernel reads.
    pub fn buffer<T: Kind>(self, name: &str) -> Buffer<'k, T> {
        Buffer::new(self.param::<T>(name, BufferMode::Read))
    }

    /// Adds a buffer that the kernel stores to.
    pub fn buffer_mut<T: Kind>(self, name: &str, mode: BufferMode) -> BufferMut<'k, T> {
        BufferMut::new(self.param::<T>(name, mode))
    }

    /// Adds a buffer of atomics.
    pub fn atomics<T: Number>(self, name: &str) -> AtomicBuffer<'k, T> {
        let mode = BufferMode::Update;
        AtomicBuffer::new(self.builder.param(name, T::DTYPE, mode))
    }

    /// Adds a scalar, or several for one parameter.
    pub fn scalar<T: Kind>(self, name: &str) -> Of<'k, T> {
        T::parameter(self, name)
    }

    /// Adds the length of a buffer.
    pub fn length(self, buffer: impl Place<'k>) {
        self.builder.len(buffer.words().memory());
    }
}

/// The number of a thread of a launch.
pub struct Numbers<'k> {
    /// The number of threads.
    pub threads: V<'k, usize>,
    /// That of this thread: the last axis is the fastest.
    pub number: V<'k, usize>,
    /// Whether the launch has such a thread: cubes have more.
    pub runs: V<'k, bool>,
}

impl<'k> Tracer<'k> {
    /// Adds the numbers of threads of a launch along its axes, the slowest first.
    pub fn numbers<const AXES: usize>(self) -> Numbers<'k> {
        self.axes.set(AXES);
        let position: [V<'k, usize>; AXES] = position(self);
        let threads: [V<'k, usize>; AXES] = std::array::from_fn(|axis| {
            V::new(self.builder.scalar(format!("__threads_{axis}"), DType::U64))
        });
        let axes = position.into_iter().zip(threads);
        let all = axes.map(|(at, threads)| Numbers {
            threads,
            number: at,
            runs: lt(at, threads),
        });
        let both = all.reduce(|slow, fast| Numbers {
            threads: mul(slow.threads, fast.threads),
            number: add(mul(slow.number, fast.threads), fast.number),
            runs: and(slow.runs, fast.runs),
        });
        both.expect("a launch has at least one axis")
    }
}
