//! Kernels of users as operations of a graph.

use std::sync::Arc;

use millstream_ir::nest::BufferMode;
use millstream_ir::ssa::Function;
use millstream_ir::{DType, Program};
use millstream_protocol::{Access, Kernel};

use crate::error::{By, Why, why};
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::callee::{Custom, shares_a_word};
use crate::lazy::node::Op;
use crate::lazy::scalar::{CallScalar, WordValue};
use crate::shape::Shape;

/// Returns a scalar as a launch word, if it has the type that the kernel declares.
fn word(dtype: DType, value: &CallScalar) -> Result<WordValue, Why> {
    let expected = |given| why::expected("the scalar", dtype, given);
    match value {
        CallScalar::Number(value) => {
            let bits = value.bits(dtype).ok_or_else(|| why::literal(*value, dtype));
            bits.map(WordValue::Bits)
        }
        CallScalar::Scalar(scalar) if scalar.dtype() == dtype => {
            Ok(WordValue::Scalar(scalar.clone()))
        }
        CallScalar::Scalar(scalar) => Err(expected(scalar.dtype())),
        CallScalar::Size(size) if dtype == DType::I64 => Ok(WordValue::Size(size.clone())),
        CallScalar::Size(_) => Err(expected(DType::I64)),
    }
}

/// A call of a kernel: the kernel, its number of cubes, and its scalars.
///
/// ```
/// use millstream_protocol::Kernel;
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
#[must_use = "a call does nothing until `make` or `make_in_place`"]
pub struct Call {
    callee: Callee,
    cubes: [u32; 3],
    scalars: Vec<CallScalar>,
}

#[derive(Clone, Debug)]
enum Callee {
    /// A kernel with its own sources.
    Kernel(Arc<Kernel>),
    /// An SSA function.
    Ssa(Box<Function>),
}

impl Call {
    /// Creates a call of `kernel` with this number of cubes along each axis.
    pub fn new(kernel: impl Into<Arc<Kernel>>, cubes: [u32; 3]) -> Self {
        Self {
            callee: Callee::Kernel(kernel.into()),
            cubes,
            scalars: Vec::new(),
        }
    }

    /// Creates a call of an SSA function with this number of cubes along each axis. Functions with the same
    /// instructions are compiled once. `make` and `make_in_place` check the function.
    pub fn ssa(function: Function, cubes: [u32; 3]) -> Self {
        Self {
            callee: Callee::Ssa(Box::new(function)),
            cubes,
            scalars: Vec::new(),
        }
    }

    /// Adds a scalar, in declared order: a number, or a scalar or length of the graph, which runs may set.
    ///
    /// A kernel that is not an SSA function takes its scalars packed by type: one that runs set must have eight bytes,
    /// or share its eight bytes with no other.
    pub fn scalar(mut self, value: impl Into<CallScalar>) -> Self {
        self.scalars.push(value.into());
        self
    }

    /// Returns the buffer that the kernel writes. Its bindings are the arguments, in order, and then the result.
    #[track_caller]
    pub fn make<'a>(
        self,
        arguments: impl IntoIterator<Item = &'a LazyBuffer>,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> LazyBuffer {
        let (arguments, out) = (arguments.into_iter().collect(), (dtype, shape.into()));
        self.call(By::new("custom"), arguments, None, out)
    }

    /// Updates the source in place. The kernel's bindings are the arguments, in order, and then the source. The result
    /// *is* the source, in its new version: see [`LazyBuffer::set`].
    ///
    /// As `set` it stores into the memory of an input, of a buffer of the graph, or of a version of one. Any other
    /// source, such as a view, a cast or a sum, is first computed into a new buffer, which the kernel updates. This
    /// depends on how the source was made, not on lengths: a cast to the same type is a cast.
    #[track_caller]
    pub fn make_in_place<'a>(
        self,
        arguments: impl IntoIterator<Item = &'a LazyBuffer>,
        source: &'a LazyBuffer,
    ) -> LazyBuffer {
        let out = (source.dtype(), source.shape());
        let arguments = arguments.into_iter().collect();
        self.call(By::new("custom_in_place"), arguments, Some(source), out)
    }

    fn call<'a>(
        self,
        by: By,
        mut arguments: Vec<&'a LazyBuffer>,
        source: Option<&'a LazyBuffer>,
        (dtype, shape): (DType, Shape),
    ) -> LazyBuffer {
        let given = arguments.len() + 1;
        arguments.extend(source);
        LazyBuffer::of_all(by, arguments, |node_refs| {
            let (kernel, function) = match self.callee {
                Callee::Kernel(kernel) => (kernel, None),
                Callee::Ssa(function) => {
                    let program = Arc::new(Program::Ssa((*function).clone()));
                    let kernel = Kernel::from_program(&*function.name, program);
                    let invalid =
                        |why| format!("`{}` is not a valid program: {why}", function.name);
                    (Arc::new(kernel.map_err(invalid)?), Some(function))
                }
            };
            let refuse = |why: String| Err(format!("`{}` {why}", kernel.name()).into());
            let specs = kernel.signature().bindings();
            if specs.len() != given {
                let declared = specs.len();
                return refuse(format!("declares {declared} bindings, got {given}"));
            }
            let types = node_refs.iter().map(|node_ref| node_ref.dtype);
            let types = types.chain([dtype]);
            let last = specs.len() - 1;
            for (index, (spec, given)) in specs.iter().zip(types).enumerate() {
                let (name, declared, access) = (&spec.name, spec.dtype, spec.access);
                let expected = match (index == last, source.is_some()) {
                    (false, _) => Access::Read,
                    (true, true) => Access::ReadWrite,
                    (true, false) => Access::Write,
                };
                if declared != given {
                    return refuse(format!("declares `{name}` as {declared}, got {given}"));
                }
                // An updated binding may also be declared as written. A new buffer must be: it has no content to read.
                let fits =
                    access == expected || (index == last && access.writes() && source.is_some());
                if !fits {
                    return refuse(format!(
                        "declares `{name}` as {access}, but this call requires {expected}"
                    ));
                }
            }
            let declared = kernel.signature().scalars().iter().map(|spec| spec.dtype);
            let types: Vec<DType> = match &function {
                Some(function) => function.scalars.iter().map(|it| it.dtype).collect(),
                None => declared.collect(),
            };
            if types.len() != self.scalars.len() {
                let (declared, given) = (types.len(), self.scalars.len());
                return refuse(format!("declares {declared} scalars, got {given}"));
            }
            let given = types.into_iter().zip(&self.scalars);
            let scalars: Vec<WordValue> = given
                .map(|(dtype, value)| word(dtype, value))
                .collect::<Result<_, _>>()?;
            if let Some(name) = shares_a_word(&kernel, &scalars) {
                return refuse(format!(
                    "packs `{name}` into eight bytes with another scalar, so runs cannot set it: declare it with eight bytes"
                ));
            }
            let program = function.map(|mut function| {
                // The buffer may have more elements than a run: a function that writes all of them writes only as many
                // as the lengths of the run.
                if source.is_none()
                    && shape.known().is_none()
                    && let Some(output) = function.params.last_mut()
                {
                    output.mode = BufferMode::Update;
                }
                Arc::new(Program::Ssa(*function))
            });
            let custom = Custom {
                kernel,
                program,
                cubes: self.cubes,
                scalars,
                in_place: source.is_some(),
            };
            Ok((Op::Custom(Arc::new(custom)), dtype, shape.clone()))
        })
    }
}
