//! Kernels of users as operations of a graph.

use std::panic::Location;
use std::sync::Arc;

use millstream_core::access::Access;
use millstream_core::kernel::Kernel;
use millstream_ir::DType;

use crate::error::Why;
use crate::lazy::buffer::{LazyBuffer, all_held};
use crate::lazy::node::Op;
use crate::literal::Literal;
use crate::shape::Shape;

/// A kernel, its cubes and its scalars, as one operation.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) cubes: [u32; 3],
    /// The bits of each scalar, in declared order.
    pub(crate) scalars: Vec<u64>,
    pub(crate) in_place: bool,
}

/// A call of a kernel: how many cubes, and which scalars.
///
/// ```
/// use millstream_core::kernel::Kernel;
/// use millstream_graph::{Call, DType, Graph};
///
/// let double = Kernel::new("double").reads::<f32>("from").writes::<f32>("to").native(|_, args| {
///     let from = args.read::<f32>(0);
///     let start = args.chunk_start(1);
///     for (index, to) in args.chunk::<f32>(1).iter_mut().enumerate() {
///         *to = 2.0 * from[start + index];
///     }
/// });
/// let graph = Graph::new();
/// let x = graph.input("x", DType::F32, [64]);
/// let y = Call::new(double, [4, 1, 1]).make([&x], DType::F32, [64]);
/// assert!(y.check().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Call {
    kernel: Arc<Kernel>,
    cubes: [u32; 3],
    scalars: Vec<Literal>,
}

impl Call {
    /// A call of `kernel` with so many cubes along each axis.
    pub fn new(kernel: impl Into<Arc<Kernel>>, cubes: [u32; 3]) -> Self {
        Self {
            kernel: kernel.into(),
            cubes,
            scalars: Vec::new(),
        }
    }

    /// Adds a scalar, in declared order.
    pub fn scalar(mut self, value: impl Into<Literal>) -> Self {
        self.scalars.push(value.into());
        self
    }

    /// What the kernel makes of the arguments: its bindings are these, in order, and then the result, which it writes.
    #[track_caller]
    pub fn make<'a>(
        self,
        arguments: impl IntoIterator<Item = &'a LazyBuffer>,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> LazyBuffer {
        let (at, shape) = (Location::caller(), shape.into());
        self.call(
            "custom",
            arguments.into_iter().collect(),
            None,
            (dtype, shape),
            at,
        )
    }

    /// The source changed in place by the kernel: its bindings are the arguments, in order, and then the source, which it
    /// updates. The result *is* the source, in its new version: see [`LazyBuffer::set`].
    #[track_caller]
    pub fn make_in_place<'a>(
        self,
        arguments: impl IntoIterator<Item = &'a LazyBuffer>,
        source: &'a LazyBuffer,
    ) -> LazyBuffer {
        let (at, out) = (Location::caller(), (source.dtype(), source.shape()));
        let arguments = arguments.into_iter().collect();
        self.call("custom_in_place", arguments, Some(source), out, at)
    }

    fn call<'a>(
        self,
        name: &'static str,
        mut arguments: Vec<&'a LazyBuffer>,
        source: Option<&'a LazyBuffer>,
        (dtype, shape): (DType, Shape),
        at: &'static Location<'static>,
    ) -> LazyBuffer {
        let given = arguments.len() + 1;
        arguments.extend(source);
        let held = match all_held(arguments) {
            Ok(held) => held,
            Err(refused) => return refused,
        };
        LazyBuffer::of_held(name, held, at, |held| {
            let signature = self.kernel.signature();
            let specs = signature.bindings();
            let refuse = |why: String| Err(Why::Kernel(format!("`{}` {why}", self.kernel.name())));
            if specs.len() != given {
                let declared = specs.len();
                return refuse(format!("declares {declared} bindings, {given} are bound"));
            }
            let types = held.iter().map(|held| held.dtype()).chain([dtype]);
            for (index, (spec, given)) in specs.iter().zip(types).enumerate() {
                let last = if source.is_some() {
                    Access::ReadWrite
                } else {
                    Access::Write
                };
                let expected = if index + 1 == specs.len() {
                    last
                } else {
                    Access::Read
                };
                if spec.dtype != given {
                    let (name, declared) = (&spec.name, spec.dtype);
                    return refuse(format!("declares `{name}` as {declared}, not {given}"));
                }
                if spec.access != expected {
                    let (name, declared) = (&spec.name, spec.access);
                    return refuse(format!(
                        "declares `{name}` as {declared}, here it is {expected}"
                    ));
                }
            }
            let specs = signature.scalars();
            if specs.len() != self.scalars.len() {
                let (declared, given) = (specs.len(), self.scalars.len());
                return refuse(format!("declares {declared} scalars, {given} are given"));
            }
            let mut scalars = Vec::with_capacity(specs.len());
            for (spec, value) in specs.iter().zip(&self.scalars) {
                let dtype = spec.dtype;
                let value = value.bits(dtype).ok_or_else(|| Why::Literal {
                    value: value.to_string(),
                    dtype,
                })?;
                scalars.push(value);
            }
            let custom = Custom {
                kernel: self.kernel.clone(),
                cubes: self.cubes,
                scalars,
                in_place: source.is_some(),
            };
            Ok((Op::Custom(Arc::new(custom)), dtype, shape.clone()))
        })
    }
}
