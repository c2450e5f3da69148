//! Compiles kernels: turns sources into functions that can be launched. Runs on the thread that prepares the kernel.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUtensorMap;
use millstream_gpu::{Variants, compile_error};
use millstream_ir::lower;
use millstream_ir::{Blocking, Program};
use millstream_protocol::{
    Access, BackendKernel, Compiler, DeviceProperties, Feature, Kernel, KernelError, Source,
};

use crate::driver::{Code, Context, LoadError, Module};
use crate::ir::{self, Entries, Printed, PrintedEntry};
use crate::launch::{
    CLUSTER_PORTABLE, CudaLaunch, METADATA_WORDS_MAX, PARAMETERS_INLINE, Shape, TENSOR_MAPS_MAX,
};
use crate::nvrtc::{Cache, Failure, Target, choose_target};
use crate::product::{Blas, Product};

/// A compiled kernel.
pub(crate) struct CudaKernel {
    /// The entry points, from which each launch selects one.
    pub(crate) entries: Entries,
    /// Bytes of dynamic shared memory.
    pub(crate) shared_bytes: u32,
    /// The byte range of each scalar within the packed scalars, in declared order.
    pub(crate) scalars: Vec<Range<usize>>,
    /// Bytes of each parameter of the entry point.
    pub(crate) parameter_bytes: Box<[usize]>,
    /// The launch options.
    pub(crate) options: CudaLaunch,
    /// Set for a product of floats if cuBLASLt is available.
    pub(crate) product: Option<Product>,
}

impl CudaKernel {
    /// Returns a launch without parameters. It has `cubes` cubes, unless the kernel is an IR program whose words and
    /// addresses determine the number.
    #[inline]
    pub(crate) fn shape(&self, cubes: [u32; 3], words: &[u64], addresses: &[u64]) -> Shape {
        Shape {
            shared_bytes: self.shared_bytes,
            options: self.options,
            ..ir::shape(&self.entries, cubes, words, addresses)
        }
    }
}

/// Prepares kernels for one GPU.
pub(crate) struct CudaCompiler {
    pub(crate) context: Arc<Context>,
    pub(crate) properties: DeviceProperties,
    /// Whether kernels are compiled to PTX, which the driver compiles further.
    pub(crate) to_ptx: bool,
    /// The compute capability of the GPU, major and minor.
    pub(crate) capability: (i32, i32),
    /// What the compiler compiles for, chosen for the first kernel that it compiles.
    pub(crate) target: OnceLock<Result<Target, Failure>>,
    pub(crate) cache: Cache,
    /// Whether cuBLASLt may perform products.
    pub(crate) use_library: bool,
    /// The library, loaded for the first product. `None` inside if it is not available.
    pub(crate) blas: OnceLock<Option<Arc<Blas>>>,
}

impl Compiler for CudaCompiler {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        kernel.check_needs(&self.properties)?;
        let options = kernel.extension().copied().unwrap_or_default();
        check_options(kernel, &options, &self.properties)?;
        let blas = self.blas_for(kernel);
        let current = self.context.push_current();
        let _current = current.map_err(refused(kernel, "the context cannot be used"))?;
        let (module, printed) = self.load(kernel, blas.is_some())?;
        let module = Arc::new(module);
        let cube = kernel.cube();
        let is_program = printed.is_some();
        let declared = declared(kernel, &options, is_program);
        let entry = |name: &str, declared: &[(String, usize)], threads| {
            let missing = format!("the code has no entry point `extern \"C\" __global__ {name}`");
            let function = module.function(name).map_err(refused(kernel, &missing))?;
            let no_attribute = || refused(kernel, "the driver cannot describe the entry point");
            let actual = function.parameters().map_err(no_attribute())?;
            check_parameters(kernel, declared, &actual)?;
            let most = function.threads_max().map_err(no_attribute())?;
            check_threads(kernel, threads, most)?;
            Ok::<_, KernelError>((function, threads))
        };
        let load = |printed: Variants<PrintedEntry>| {
            let declared = printed.program().map(ir::parameters).unwrap_or_default();
            printed.try_map(|_, (name, threads)| entry(&name, &declared, threads))
        };
        let (entries, epilogue) = match printed {
            None => {
                let only = entry(kernel.name(), &declared, cube.threads)?;
                (Variants::single(only), None)
            }
            Some(printed) => (
                load(printed.entries)?,
                printed.epilogue.map(load).transpose()?,
            ),
        };
        let product = match (blas, ir::program_of(kernel).map(Arc::as_ref)) {
            (Some(blas), Some(Program::Matmul(matmul))) => {
                blas.warm(matmul.dtype);
                Some(Product {
                    blas,
                    matmul: matmul.clone(),
                    epilogue,
                })
            }
            _ => None,
        };
        let (function, _) = entries.first();
        // Always requested: the default limit also covers what the source declares statically.
        if cube.shared_bytes > 0 {
            let failed = format!(
                "cannot reserve {} bytes of shared memory per cube",
                cube.shared_bytes
            );
            let allowed = function.allow_shared(cube.shared_bytes);
            allowed.map_err(refused(kernel, &failed))?;
        }
        let cubes: u32 = options.cluster.unwrap_or([1; 3]).iter().product();
        if cubes > CLUSTER_PORTABLE {
            let failed = format!("the GPU does not allow clusters of {cubes} cubes");
            let allowed = function.allow_large_clusters();
            allowed.map_err(refused(kernel, &failed))?;
        }
        Ok(Arc::new(CudaKernel {
            shared_bytes: cube.shared_bytes,
            scalars: scalars(kernel, is_program),
            parameter_bytes: declared.iter().map(|(_, bytes)| *bytes).collect(),
            options,
            entries,
            product,
        }))
    }

    fn blockings(&self, program: &Program) -> Vec<Blocking> {
        lower::blockings(program)
    }
}

/// Returns a function that converts the error of a driver call for a kernel.
fn refused(kernel: &Kernel, what: &str) -> impl Fn(Code) -> KernelError {
    move |code| match code.is_sticky() {
        true => KernelError::Lost {
            kernel: kernel.name().clone(),
        },
        false => compile_error(kernel, format!("{what}: {code}")),
    }
}

/// Returns the byte ranges of the scalar parameters within the packed scalars: one per scalar, or for a program a
/// single one with all its words.
fn scalars(kernel: &Kernel, of_program: bool) -> Vec<Range<usize>> {
    let signature = kernel.signature();
    if of_program {
        let words = Some(signature.scalar_words()).filter(|words| *words > 0);
        let words = words.map(|words| 0..words * size_of::<u64>());
        return words.into_iter().collect();
    }
    let each = signature.scalars().iter();
    let each = each.map(|scalar| scalar.offset..scalar.offset + scalar.dtype.size());
    each.collect()
}

/// Returns the product of the lengths of the axes.
fn volume(axes: [u32; 3]) -> u128 {
    axes.into_iter().map(u128::from).product()
}

/// Returns an error if this device cannot launch a kernel with these options.
fn check_options(
    kernel: &Kernel,
    options: &CudaLaunch,
    properties: &DeviceProperties,
) -> Result<(), KernelError> {
    let features = [
        (options.tensor_maps > 0, Feature::TensorMaps),
        (options.cluster.is_some(), Feature::Clusters),
    ];
    for (is_needed, feature) in features {
        if is_needed && !properties.has(feature) {
            let kernel = kernel.name().clone();
            return Err(KernelError::Feature { kernel, feature });
        }
    }
    let cluster = options.cluster.unwrap_or([1; 3]);
    if !(1..=16).contains(&volume(cluster)) {
        let log = format!("expected clusters of 1 to 16 cubes, got {cluster:?}");
        return Err(compile_error(kernel, log));
    }
    let signature = kernel.signature();
    let scalars = match ir::program_of(kernel) {
        // All words of a program are one parameter.
        Some(_) => 1,
        None => signature.scalars().len(),
    };
    let parameters = signature.bindings().len() + scalars + options.tensor_maps;
    let limits = [
        ("tensor maps", options.tensor_maps, TENSOR_MAPS_MAX),
        (
            "words of metadata",
            options.metadata_words,
            METADATA_WORDS_MAX,
        ),
        (
            "bindings, scalars and tensor maps",
            parameters,
            PARAMETERS_INLINE - 1,
        ),
    ];
    for (what, got, most) in limits {
        if got > most {
            let log = format!("expected at most {most} {what}, got {got}");
            return Err(compile_error(kernel, log));
        }
    }
    Ok(())
}

/// Returns an error if the entry point cannot be launched with a cube of these threads.
fn check_threads(kernel: &Kernel, threads: [u32; 3], most: u32) -> Result<(), KernelError> {
    if (1..=u128::from(most)).contains(&volume(threads)) {
        return Ok(());
    }
    let [x, y, z] = threads;
    Err(compile_error(
        kernel,
        format!(
            "expected cubes of 1 to {most} threads, as the registers of the entry point allow, got {x} x {y} x {z}"
        ),
    ))
}

impl CudaCompiler {
    /// Returns cuBLASLt if it may perform this kernel: a product of floats with the default blocking.
    fn blas_for(&self, kernel: &Kernel) -> Option<Arc<Blas>> {
        match ir::program_of(kernel)?.as_ref() {
            Program::Matmul(matmul)
                if self.use_library
                    && matmul.dtype.is_float()
                    && ir::blocking_of(kernel) == Blocking::DEFAULT => {}
            _ => return None,
        }
        let blas = self.blas.get_or_init(|| {
            let _current = self.context.push_current().ok()?;
            let blas = Blas::new(&self.context).map_err(|why| {
            tracing::debug!(target: "millstream::cuda", why, "cuBLASLt is not available; using millstream's kernels for products");
            });
            blas.ok().map(Arc::new)
        });
        blas.clone()
    }

    /// Returns what the compiler compiles for, or why it cannot compile for this GPU and driver.
    fn target(&self) -> Result<&Target, Failure> {
        let choose = || {
            let driver = self.context.gpu.info.driver;
            choose_target(self.capability, driver, self.to_ptx)
        };
        let target = self.target.get_or_init(choose);
        target.as_ref().map_err(Clone::clone)
    }

    /// Loads the first source that can be used here. A source is passed over if there is no compiler for this GPU and
    /// this driver, or if the driver does not support this form of code, such as PTX of a later version. For an IR
    /// program also returns its printed form. The context is current.
    fn load(
        &self,
        kernel: &Arc<Kernel>,
        use_library: bool,
    ) -> Result<(Module, Option<Printed>), KernelError> {
        let mut first = None;
        for source in kernel.sources() {
            let (image, printed) = match self.image(kernel, source, use_library) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(why @ KernelError::NoCompiler { .. }) => {
                    first.get_or_insert(why);
                    continue;
                }
                Err(why) => return Err(why),
            };
            let LoadError { code, log } = match Module::load(&self.context, &image) {
                Ok(module) => return Ok((module, printed)),
                Err(error) => error,
            };
            let mut why = refused(kernel, "the driver cannot load the code")(code);
            if let KernelError::Compile { log: text, .. } = &mut why
                && !log.is_empty()
            {
                *text += &format!("\n{log}");
            }
            if !code.is_of_unsupported_code() {
                return Err(why);
            }
            first.get_or_insert(why);
        }
        let none = || kernel.no_source("cuda", &["CUDA C", "PTX", "cubin", "IR"]);
        Err(first.unwrap_or_else(none))
    }

    /// Returns the code of a source for the driver: PTX that ends with a zero byte, or a checked binary. Of an IR program
    /// also its printed form. `None` if the source is of another backend.
    fn image(
        &self,
        kernel: &Kernel,
        source: &Source,
        use_library: bool,
    ) -> Result<Option<Image>, KernelError> {
        let compile = |text: &str| {
            let target = self.target();
            let binary = target.and_then(|target| self.cache.get(kernel.name(), text, target));
            binary.map_err(|failure| failure.into_error(kernel))
        };
        Ok(Some(match source {
            Source::Ptx(text) => (text.bytes().chain([0]).collect(), None),
            Source::Cubin(binary) => (checked_binary(kernel, binary)?, None),
            Source::CudaC(text) => (compile(text)?, None),
            Source::Ir(program) => {
                let units = self.properties.compute_units;
                let printed = Printed::new(kernel, program, units, use_library)?;
                (compile(&printed.text)?, Some(printed))
            }
            _ => return Ok(None),
        }))
    }
}

/// Code for the driver, and of an IR program its printed form.
type Image = (Vec<u8>, Option<Printed>);

/// Returns the binary if it is as long as its header says. The driver receives a pointer without a length, and would
/// read past the end of a truncated binary.
fn checked_binary(kernel: &Kernel, binary: &[u8]) -> Result<Vec<u8>, KernelError> {
    let number = |at: usize, bytes: usize| {
        let field = binary.get(at..at + bytes)?;
        let number = field
            .iter()
            .rev()
            .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Some(number)
    };
    let needed = match binary {
        // A 64-bit ELF file ends with its section table or its segment table.
        [0x7F, b'E', b'L', b'F', 2, ..] => {
            let table = |start, size, count| {
                number(size, 2)?
                    .checked_mul(number(count, 2)?)?
                    .checked_add(number(start, 8)?)
            };
            table(32, 54, 56)
                .zip(table(40, 58, 60))
                .map(|(one, other)| one.max(other))
        }
        // NVIDIA's container of several binaries: the lengths of a header and of the contents.
        [0x50, 0xED, 0x55, 0xBA, ..] => number(6, 2)
            .zip(number(8, 8))
            .and_then(|(header, rest)| header.checked_add(rest)),
        _ => None,
    };
    match needed.is_some_and(|needed| needed <= binary.len() as u64) {
        true => Ok(binary.to_vec()),
        false => Err(compile_error(
            kernel,
            format!(
                "the binary of {} bytes is truncated or not a CUDA binary",
                binary.len()
            ),
        )),
    }
}

/// Returns the declared parameters of an entry point with their sizes: a pointer for each binding, each scalar by
/// value, and those of `CudaLaunch`.
fn declared(kernel: &Kernel, options: &CudaLaunch, of_program: bool) -> Vec<(String, usize)> {
    if let (true, Some(program)) = (of_program, ir::program_of(kernel)) {
        return ir::parameters(program);
    }
    let signature = kernel.signature();
    let bindings = signature.bindings().iter().map(|binding| {
        let qualifier = match binding.access {
            Access::Read => "const ",
            _ => "",
        };
        let what = format!("`{qualifier}{}* {}`", binding.dtype, binding.name);
        (what, size_of::<u64>())
    });
    let scalars = signature.scalars().iter();
    let scalars = scalars.map(|scalar| {
        let what = format!("`{} {}`", scalar.dtype, scalar.name);
        (what, scalar.dtype.size())
    });
    let map = "`const __grid_constant__ CUtensorMap`";
    let maps = (0..options.tensor_maps).map(|_| (map.to_owned(), size_of::<CUtensorMap>()));
    let words = options.metadata_words;
    let metadata = (words > 0).then(|| {
        let what = format!("the metadata `unsigned words[{words}]`");
        (what, words * size_of::<u32>())
    });
    bindings
        .chain(scalars)
        .chain(maps)
        .chain(metadata)
        .collect()
}

/// Returns an error if the parameters of the entry point differ from the declared ones. A launch of a wrong declaration
/// would make the driver read out of bounds.
fn check_parameters(
    kernel: &Kernel,
    declared: &[(String, usize)],
    actual: &[usize],
) -> Result<(), KernelError> {
    if declared.len() != actual.len() {
        return Err(compile_error(
            kernel,
            format!(
                "the entry point takes {} parameters, but {} are declared (bindings, scalars, then those of `CudaLaunch`)",
                actual.len(),
                declared.len()
            ),
        ));
    }
    for (place, ((what, declared), actual)) in declared.iter().zip(actual).enumerate() {
        if declared != actual {
            return Err(compile_error(
                kernel,
                format!(
                    "parameter {place} of the entry point has {actual} bytes, but {what} has {declared}"
                ),
            ));
        }
    }
    Ok(())
}
