//! Kernels: a name, a signature and one or more sources.
//!
//! A [`Kernel`] is plain data that any thread builds. A client prepares it (`ComputeClient::kernel`), which compiles
//! the source that its device understands. Launches of a prepared kernel resolve nothing and allocate nothing (I9).

mod native;
mod signature;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use millstream_ir::nest::BufferMode;
use millstream_ir::{DType, Program, ProgramError};
pub use native::{AtomicElement, Cube, NativeArgs, NativeView};
#[cfg(feature = "journal")]
pub(crate) use signature::SignatureFlags;
pub use signature::{BindingSpec, ScalarSpec, Share, Signature};

use crate::binding::Access;
use crate::element::Element;
use crate::error::KernelError;
use crate::feature::Feature;
use crate::properties::DeviceProperties;

/// A kernel as compiled by a backend.
pub type BackendKernel = Arc<dyn Any + Send + Sync>;

/// A native kernel. It is called once per cube, on any thread that runs cubes of the device.
pub type NativeKernel = dyn Fn(&Cube, &NativeArgs<'_>) + Send + Sync + 'static;

/// A source of a kernel. A backend compiles the first one that it understands.
#[derive(Clone)]
#[non_exhaustive]
pub enum Source {
    /// A Rust closure, for the CPU and the simulator.
    Native(Arc<NativeKernel>),
    /// CUDA C, compiled when the kernel is prepared; the entry point has the kernel's name.
    CudaC(Arc<str>),
    /// PTX text.
    Ptx(Arc<str>),
    /// A compiled CUDA binary.
    Cubin(Arc<[u8]>),
    /// A SPIR-V module, whose entry point has the kernel's name, or is its only one.
    SpirV(Arc<[u32]>),
    /// WGSL text.
    Wgsl(Arc<str>),
    /// A text in a language that only its backend knows, such as OpenCL C. A backend compiles the texts of its own kind
    /// ([`Source::text_of`]).
    Text {
        /// The name of the language, which backends compare and errors display.
        kind: Arc<str>,
        /// The text.
        text: Arc<str>,
    },
    /// A program that every device lowers itself.
    Ir(Arc<Program>),
}

impl Source {
    /// Returns the kind of source, as errors display it.
    pub fn kind(&self) -> &str {
        match self {
            Source::Native(_) => "native",
            Source::CudaC(_) => "CUDA C",
            Source::Ptx(_) => "PTX",
            Source::Cubin(_) => "cubin",
            Source::SpirV(_) => "SPIR-V",
            Source::Wgsl(_) => "WGSL",
            Source::Text { kind, .. } => kind,
            Source::Ir(_) => "IR",
        }
    }

    /// Returns the text, if this is a [`Source::Text`] of this kind.
    pub fn text_of(&self, kind: &str) -> Option<&Arc<str>> {
        match self {
            Source::Text { kind: own, text } if **own == *kind => Some(text),
            _ => None,
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.kind())
    }
}

/// The shape of a cube, on devices that run a cube as several threads. A native kernel is called once per cube,
/// whatever the shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct CubeShape {
    /// Threads along each axis. Default: 256, 1, 1.
    pub threads: [u32; 3],
    /// Bytes of shared memory in addition to what the source declares. Default: 0.
    pub shared_bytes: u32,
}

/// An option of a kernel ([`Kernel::with`]): its native source divides the work of a launch by the index of the cube among
/// their number, whatever that is, and takes nothing else from the cube. A device whose threads are the host's may then run
/// it as fewer cubes than the launch has, which saves calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnyCubes;

impl Default for CubeShape {
    fn default() -> Self {
        Self {
            threads: [256, 1, 1],
            shared_bytes: 0,
        }
    }
}

/// A kernel as declared by its author.
///
/// ```
/// use millstream_protocol::Kernel;
///
/// let double = Kernel::new("double").updates::<f32>("values").scalar::<f32>("factor").native(|_cube, args| {
///     let factor: f32 = args.scalar(0);
///     for value in args.chunk::<f32>(0) {
///         *value *= factor;
///     }
/// });
/// assert_eq!(double.signature().bindings().len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    name: Arc<str>,
    signature: Signature,
    cube: CubeShape,
    sources: Vec<Source>,
    extensions: Extensions,
}

/// Values of backends' own types, at most one per type.
#[derive(Clone, Default)]
struct Extensions(Vec<Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} extensions", self.0.len())
    }
}

impl Kernel {
    /// Creates a kernel without arguments or sources.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            signature: Signature::default(),
            cube: CubeShape::default(),
            sources: Vec::new(),
            extensions: Extensions::default(),
        }
    }

    /// Creates a kernel for any device from a program. The bindings are the buffers of the program, and the scalars are
    /// its launch words: those of an SSA function with their names and types (a `bool` is a `u8`), those of nests and
    /// products as `w0`, `w1`, .. of type `u64`. Bindings may overlap, as far as the program works in place. A cube of
    /// an SSA function has the threads of the function.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use millstream_ir::{DType, Program, ssa::Builder};
    /// use millstream_protocol::Kernel;
    ///
    /// let k = Builder::new("scale", [64, 1, 1]);
    /// let (y, by) = (k.update("y", DType::F32), k.scalar("by", DType::F32));
    /// y.set(k.index(), y.get(k.index()) * by);
    /// let scale = Kernel::from_program("scale", Arc::new(Program::Ssa(k.build()?)))?;
    /// assert_eq!(scale.signature().to_string(), "(update y: f32, by: f32, may alias)");
    /// # Ok::<(), millstream_ir::ProgramError>(())
    /// ```
    ///
    /// # Errors
    /// If the program is invalid.
    pub fn from_program(
        name: impl Into<Arc<str>>,
        program: Arc<Program>,
    ) -> Result<Self, ProgramError> {
        program.check()?;
        let mut kernel = Self::new(name).may_alias();
        if let Program::Ssa(function) = program.as_ref() {
            kernel = kernel.threads(function.threads);
        }
        for (index, (dtype, mode)) in program.buffers().into_iter().enumerate() {
            kernel.signature.push_binding(BindingSpec {
                name: program.buffer_name(index).into(),
                access: match mode {
                    BufferMode::Read => Access::Read,
                    BufferMode::Write => Access::Write,
                    BufferMode::Update => Access::ReadWrite,
                },
                dtype,
                share: Share::Raw,
            });
        }
        // A backend reads scalar `i` of a program from word `i`.
        kernel.signature.set_words();
        match program.as_ref() {
            Program::Ssa(function) => {
                let scalars = function.scalars.iter().map(|scalar| {
                    let dtype = match scalar.dtype {
                        DType::Bool => DType::U8,
                        dtype => dtype,
                    };
                    (scalar.name.as_str().into(), dtype)
                });
                kernel.signature.push_scalars(scalars);
                if function.prints() {
                    kernel.signature.require(Feature::Printing);
                }
            }
            program => {
                let words = 0..program.words();
                let words = words.map(|index| (format!("w{index}").into(), DType::U64));
                kernel.signature.push_scalars(words);
            }
        }
        Ok(kernel.source(Source::Ir(program)))
    }

    /// Adds a binding that the kernel only reads. Every cube sees all of it.
    pub fn reads<T: Element>(self, name: impl Into<Arc<str>>) -> Self {
        self.binding::<T>(name, Access::Read, Share::Whole)
    }

    /// Adds a binding of which the launch defines every byte. It is divided evenly among the cubes: cube `i` receives
    /// the elements `i * chunk ..`, with `chunk = ceil(len / cubes)`.
    pub fn writes<T: Element>(self, name: impl Into<Arc<str>>) -> Self {
        self.binding::<T>(name, Access::Write, Share::Chunks)
    }

    /// Adds a binding that the kernel reads and writes, divided among the cubes as by [`Kernel::writes`].
    pub fn updates<T: Element>(self, name: impl Into<Arc<str>>) -> Self {
        self.binding::<T>(name, Access::ReadWrite, Share::Chunks)
    }

    /// Adds a binding that all cubes read and write concurrently, with atomics.
    pub fn updates_atomically<T: AtomicElement>(self, name: impl Into<Arc<str>>) -> Self {
        self.binding::<T>(name, Access::ReadWrite, Share::Atomic)
    }

    /// Adds a binding that native code accesses only through a pointer ([`NativeArgs::raw`], `unsafe`).
    pub fn raw<T: Element>(self, name: impl Into<Arc<str>>, access: Access) -> Self {
        self.binding::<T>(name, access, Share::Raw)
    }

    /// As [`Kernel::raw`], for an element type that is known at run time.
    pub fn raw_of(self, dtype: DType, name: impl Into<Arc<str>>, access: Access) -> Self {
        self.binding_of(dtype, name, access, Share::Raw)
    }

    fn binding<T: Element>(self, name: impl Into<Arc<str>>, access: Access, share: Share) -> Self {
        self.binding_of(T::DTYPE, name, access, share)
    }

    fn binding_of(
        mut self,
        dtype: DType,
        name: impl Into<Arc<str>>,
        access: Access,
        share: Share,
    ) -> Self {
        self.signature.push_binding(BindingSpec {
            name: name.into(),
            access,
            dtype,
            share,
        });
        self
    }

    /// Adds a scalar. In a launch the scalars follow the bindings, in declared order.
    pub fn scalar<T: Element>(self, name: impl Into<Arc<str>>) -> Self {
        self.scalar_of(T::DTYPE, name)
    }

    /// As [`Kernel::scalar`], for a type that is known at run time.
    pub fn scalar_of(mut self, dtype: DType, name: impl Into<Arc<str>>) -> Self {
        self.signature.push_scalar(name.into(), dtype);
        self
    }

    /// Declares that the kernel is correct even if bindings of one launch overlap and one of them is written. On the
    /// CPU only [`Kernel::raw`] and atomic bindings may then overlap.
    pub fn may_alias(mut self) -> Self {
        self.signature.set_may_alias(true);
        self
    }

    /// Declares that the kernel requires `feature` of the device.
    pub fn requires(mut self, feature: Feature) -> Self {
        self.signature.require(feature);
        self
    }

    /// Sets the threads of a cube along each axis, for devices that run a cube as several threads.
    pub fn threads(mut self, threads: [u32; 3]) -> Self {
        self.cube.threads = threads;
        self
    }

    /// Sets the bytes of shared memory that each cube has in addition, for sources that declare it without a length
    /// (`extern __shared__`).
    pub fn shared_bytes(mut self, bytes: u32) -> Self {
        self.cube.shared_bytes = bytes;
        self
    }

    /// Adds a Rust closure as a source.
    pub fn native(
        mut self,
        kernel: impl Fn(&Cube, &NativeArgs<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.sources.push(Source::Native(Arc::new(kernel)));
        self
    }

    /// Adds CUDA C as a source.
    pub fn cuda(self, text: impl Into<Arc<str>>) -> Self {
        self.source(Source::CudaC(text.into()))
    }

    /// Adds a text in WGSL as a source; the entry point has the kernel's name, or is the only one.
    pub fn wgsl(self, text: impl Into<Arc<str>>) -> Self {
        self.source(Source::Wgsl(text.into()))
    }

    /// Adds a SPIR-V module as a source. The module is code that the driver runs unchecked: a wrong one may do what any
    /// wrong machine code may do.
    pub fn spirv(self, words: impl Into<Arc<[u32]>>) -> Self {
        self.source(Source::SpirV(words.into()))
    }

    /// Adds a text in a language that only its backend knows, as a source of that kind. On other devices the error
    /// lists the kind as one that they do not understand.
    ///
    /// ```
    /// # use millstream_protocol::Kernel;
    /// let text = "kernel void one(global uint* values) { values[get_global_id(0)] = 1; }";
    /// let one = Kernel::new("one").writes::<u32>("values").text("OpenCL C", text);
    /// assert_eq!(one.source_kinds(), "OpenCL C");
    /// assert!(one.sources()[0].text_of("OpenCL C").is_some());
    /// ```
    pub fn text(self, kind: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        let (kind, text) = (kind.into(), text.into());
        self.source(Source::Text { kind, text })
    }

    /// Adds a source before all others: a device that understands it takes it.
    pub fn prefer(mut self, source: Source) -> Self {
        self.sources.insert(0, source);
        self
    }

    /// Declares that bindings of one launch never overlap if one of them is written, also for a kernel of a program.
    pub fn exclusive(mut self) -> Self {
        self.signature.set_may_alias(false);
        self
    }

    /// Adds a source.
    pub fn source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Adds an option of one kind of backend, as a value of the backend's own type: launch options of CUDA, for
    /// example. It replaces a value of the same type. Backends that do not know the type ignore it.
    ///
    /// ```
    /// # use millstream_protocol::Kernel;
    /// #[derive(PartialEq, Debug)]
    /// struct Unroll(u32); // of some backend
    /// let kernel = Kernel::new("sum").with(Unroll(4));
    /// assert_eq!(kernel.extension(), Some(&Unroll(4)));
    /// ```
    pub fn with<E: Any + Send + Sync>(mut self, extension: E) -> Self {
        let Extensions(all) = &mut self.extensions;
        all.retain(|other| !other.is::<E>());
        all.push(Arc::new(extension));
        self
    }

    /// Returns the value of this type that [`Kernel::with`] added.
    pub fn extension<E: Any>(&self) -> Option<&E> {
        let Extensions(all) = &self.extensions;
        all.iter().find_map(|extension| extension.downcast_ref())
    }

    /// Returns the name, which failures, logs and traces display.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the declared arguments.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Returns the shape of a cube.
    pub fn cube(&self) -> CubeShape {
        self.cube
    }

    /// Returns the sources, in the order in which they were added.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Returns the kinds of the sources, separated by commas; empty if there are none.
    pub fn source_kinds(&self) -> String {
        let kinds: Vec<&str> = self.sources.iter().map(Source::kind).collect();
        kinds.join(", ")
    }

    /// Returns the error of a backend that accepts sources of these kinds and finds none among the kernel's.
    pub fn no_source(&self, backend: &'static str, taken: &[&str]) -> KernelError {
        KernelError::NoSource {
            kernel: self.name.clone(),
            backend,
            available: self.source_kinds(),
            taken: taken.join(", "),
        }
    }

    /// Checks that a device with these properties has what the kernel needs, regardless of its sources.
    ///
    /// # Errors
    /// [`KernelError::Feature`], [`KernelError::TooManyBindings`].
    pub fn check_needs(&self, properties: &DeviceProperties) -> Result<(), KernelError> {
        let lacks = |feature: &&_| !properties.has(**feature);
        if let Some(feature) = self.required().iter().find(lacks) {
            return Err(KernelError::Feature {
                kernel: self.name.clone(),
                feature: *feature,
            });
        }
        let declared = self.signature.bindings().len();
        if declared > properties.max_bindings {
            return Err(KernelError::TooManyBindings {
                kernel: self.name.clone(),
                declared,
                limit: properties.max_bindings,
            });
        }
        Ok(())
    }

    /// Returns whether threads of the kernel may print.
    pub fn prints(&self) -> bool {
        self.required().contains(&Feature::Printing)
    }

    /// Returns the features that the kernel requires.
    pub fn required(&self) -> &BTreeSet<Feature> {
        self.signature.required()
    }
}
