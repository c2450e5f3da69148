//! Preparing kernels: from a program of the IR as text, or from source texts.

use std::collections::HashMap;
use std::sync::Arc;

use millstream::ir::Program;
use millstream::ir::ssa::Function;
use millstream::kernel::ScalarSpec;
use millstream::{Access, ComputeClient, DType, KernelHandle, Source};
use pyo3::prelude::*;

use crate::errors::{argument_error, exception};

/// A kernel that is prepared for a device: `Device.kernel`.
#[pyclass(frozen, weakref, module = "millstream")]
pub(crate) struct Kernel {
    pub(crate) handle: KernelHandle,
    /// The parameters, in the order in which Python passes them.
    pub(crate) parameters: Box<[Parameter]>,
    /// The lengths of buffers that a launch passes as words.
    pub(crate) extents: Box<[Extent]>,
    /// The number of words of a launch.
    pub(crate) words: usize,
}

/// A parameter of a kernel, in the order in which Python passes it.
pub(crate) struct Parameter {
    pub(crate) name: Arc<str>,
    pub(crate) kind: ParameterKind,
}

/// What a parameter takes.
#[derive(Clone, Copy)]
pub(crate) enum ParameterKind {
    /// A buffer, with this number of axes; 1 takes any shape, as one axis of all elements.
    Binding {
        dtype: DType,
        access: Access,
        axes: usize,
    },
    /// A number, at this byte of the packed words.
    Scalar { dtype: DType, offset: usize },
}

/// A word of a launch that has a length of a buffer, in elements.
pub(crate) struct Extent {
    /// The parameter, in the order in which Python passes them.
    pub(crate) parameter: usize,
    /// The axis; none for the number of all elements.
    pub(crate) axis: Option<usize>,
    /// The index of the word.
    pub(crate) word: usize,
}

#[pymethods]
impl Kernel {
    /// `-> str`
    #[getter]
    fn name(&self) -> &str {
        self.handle.name()
    }

    /// `-> list[str]`
    #[getter]
    fn parameters(&self) -> Vec<&str> {
        self.parameters.iter().map(|p| &*p.name).collect()
    }

    fn __repr__(&self) -> String {
        format!("Kernel({})", self.handle.name())
    }
}

/// What a definition in Python says of itself: the result of its method `__millstream_kernel__`.
struct Definition {
    name: String,
    parameters: Vec<Declared>,
    /// The words behind the scalars: the parameter whose length it is, and the axis.
    extents: Vec<(usize, Option<usize>)>,
    /// The texts, by language.
    sources: HashMap<String, String>,
    threads: [u32; 3],
    shared_bytes: u32,
}

/// A parameter as a definition declares it.
struct Declared {
    name: String,
    /// None for a scalar.
    access: Option<Access>,
    dtype: DType,
    axes: usize,
}

impl Definition {
    fn of(definition: &Bound<'_, PyAny>) -> PyResult<Self> {
        let said = definition.call_method0("__millstream_kernel__")?;
        let (name, parameters, extents, sources, threads, shared_bytes) = said.extract()?;
        let known = |(name, kind, dtype, axes): (String, String, String, usize)| {
            let access = match kind.as_str() {
                "read" => Some(Access::Read),
                "write" => Some(Access::Write),
                "update" => Some(Access::ReadWrite),
                _ => None,
            };
            let unknown = || argument_error(format!("`{dtype}` is no element type"));
            let dtype = DType::from_name(&dtype).ok_or_else(unknown)?;
            Ok(Declared {
                name,
                access,
                dtype,
                axes,
            })
        };
        let parameters: Vec<(String, String, String, usize)> = parameters;
        let parameters = parameters.into_iter().map(known).collect::<PyResult<_>>()?;
        Ok(Self {
            name,
            parameters,
            extents,
            sources,
            threads,
            shared_bytes,
        })
    }
}

/// Prepares a kernel for the device of a client, detached while it compiles.
pub(crate) fn prepare(client: &ComputeClient, definition: &Bound<'_, PyAny>) -> PyResult<Kernel> {
    let py = definition.py();
    let definition = Definition::of(definition)?;
    let kernel = match definition.sources.get("ir") {
        Some(text) => ir_kernel(&definition.name, text)?,
        None => source_kernel(&definition)?,
    };
    let words = kernel.signature().scalar_words();
    let (parameters, extents) = parameters_of(definition, &kernel)?;
    let handle = py.detach(|| client.kernel(kernel));
    Ok(Kernel {
        handle: handle.map_err(exception)?,
        parameters,
        extents,
        words,
    })
}

/// `(text: str) -> None`
///
/// Checks a function of the IR. Raises `ValueError` with the error's text.
#[pyfunction]
pub(crate) fn check_function(text: &str) -> PyResult<()> {
    function_of(text)
        .map(drop)
        .map_err(pyo3::exceptions::PyValueError::new_err)
}

fn function_of(text: &str) -> Result<Function, String> {
    let function = millstream::ir::ssa::parse(text).map_err(|error| error.to_string())?;
    function.check().map_err(|error| error.to_string())?;
    Ok(function)
}

fn ir_kernel(name: &str, text: &str) -> PyResult<millstream::Kernel> {
    let invalid = |why: String| argument_error(format!("kernel `{name}` is invalid: {why}"));
    let function = function_of(text).map_err(invalid)?;
    let program = Arc::new(Program::Ssa(function));
    let kernel = millstream::Kernel::from_program(name, program);
    kernel.map_err(|error| invalid(error.to_string()))
}

fn source_kernel(definition: &Definition) -> PyResult<millstream::Kernel> {
    let mut kernel = millstream::Kernel::new(definition.name.as_str())
        .threads(definition.threads)
        .shared_bytes(definition.shared_bytes);
    for declared in &definition.parameters {
        let dtype = match declared.dtype {
            // A byte.
            DType::Bool => DType::U8,
            dtype => dtype,
        };
        kernel = match declared.access {
            Some(access) => kernel.raw_of(dtype, declared.name.as_str(), access),
            None => kernel.scalar_of(dtype, declared.name.as_str()),
        };
    }
    for (language, text) in &definition.sources {
        kernel = match language.as_str() {
            "cuda" => kernel.cuda(text.as_str()),
            "ptx" => kernel.source(Source::Ptx(text.as_str().into())),
            "wgsl" => kernel.wgsl(text.as_str()),
            other => {
                let message =
                    format!("`{other}` is no language of kernels: use cuda, ptx, wgsl or ir");
                return Err(argument_error(message));
            }
        };
    }
    Ok(kernel)
}

/// The parameters of a kernel, and the words with lengths.
type Places = (Box<[Parameter]>, Box<[Extent]>);

/// Returns the parameters in the order of the definition, with the places of the scalars, and the words with lengths.
fn parameters_of(definition: Definition, kernel: &millstream::Kernel) -> PyResult<Places> {
    let specs = kernel.signature().scalars();
    let of_parameters = definition.parameters.iter();
    let given = of_parameters.filter(|it| it.access.is_none()).count() + definition.extents.len();
    if given != specs.len() {
        let name = &definition.name;
        return Err(argument_error(format!(
            "kernel `{name}` has {} numbers, but its parameters name {given}",
            specs.len()
        )));
    }
    let mut scalars = specs.iter();
    let parameter = |declared: Declared| {
        let Declared {
            name,
            access,
            dtype,
            axes,
        } = declared;
        let kind = match access {
            Some(access) => ParameterKind::Binding {
                dtype,
                access,
                axes,
            },
            None => {
                let offset = scalars.next().map_or(0, |spec| spec.offset);
                ParameterKind::Scalar { dtype, offset }
            }
        };
        let name = name.into();
        Parameter { name, kind }
    };
    let parameters = definition.parameters.into_iter().map(parameter).collect();
    let extent = |((parameter, axis), spec): ((usize, Option<usize>), &ScalarSpec)| Extent {
        parameter,
        axis,
        word: spec.offset / 8,
    };
    let extents = definition.extents.into_iter().zip(scalars);
    Ok((parameters, extents.map(extent).collect()))
}
