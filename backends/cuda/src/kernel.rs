//! Kernels: sources become functions that can be launched, on the threads of those who prepare them.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUtensorMap;
use millstream_ir::lower::{self, Limits};
use millstream_ir::{Blocking, Program};
use millstream_protocol::access::Access;
use millstream_protocol::backend::Compiler;
use millstream_protocol::error::KernelError;
use millstream_protocol::kernel::BackendKernel;
use millstream_protocol::kernel::{Kernel, Source};
use millstream_protocol::properties::{DeviceProperties, Feature};

use crate::driver::{Class, Code, Context, Function, Module};
use crate::ir::{self, Entries, Printed, Ways};
use crate::launch::{
    CLUSTER_PORTABLE, CudaLaunch, METADATA_WORDS_MAX, PARAMETERS_INLINE, Shape, TENSOR_MAPS_MAX,
};
use crate::nvrtc::{Cache, Failure, Target};
use crate::product::{Blas, Product};

/// A kernel of a GPU.
pub(crate) struct CudaKernel {
    pub(crate) function: Function,
    /// Threads of a cube along each axis.
    pub(crate) threads: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared_bytes: u32,
    /// Where each scalar lies in the packed ones, in declared order, and its bytes.
    pub(crate) scalars: Vec<Range<usize>>,
    /// Bytes of each parameter of its entry point.
    pub(crate) parameter_bytes: Box<[usize]>,
    /// What a launch has beyond those.
    pub(crate) options: CudaLaunch,
    /// Of a program of the IR: how a launch chooses among its entry points. `function` is the first.
    pub(crate) ways: Option<Ways>,
    /// Of a product of floats, where there is a library for such.
    pub(crate) product: Option<Product>,
}

impl CudaKernel {
    /// A launch of it, without parameters: so many cubes, where its words and addresses say no other number.
    #[inline]
    pub(crate) fn shape(&self, cubes: [u32; 3], words: &[u64], addresses: &[u64]) -> Shape {
        let shape = Shape {
            function: self.function.raw(),
            cubes,
            threads: self.threads,
            shared_bytes: self.shared_bytes,
            options: self.options,
        };
        match &self.ways {
            None => shape,
            Some(ways) => ways.shape(shape, words, addresses),
        }
    }
}

/// Cubes of 256 threads that a multiprocessor runs at once: it has 1,536 or 2,048 threads.
const CUBES_A_UNIT: u32 = 6;

/// Prepares kernels for one GPU.
pub(crate) struct CudaCompiler {
    pub(crate) context: Arc<Context>,
    pub(crate) properties: DeviceProperties,
    pub(crate) target: Target,
    pub(crate) cache: Cache,
    /// Products may be a library's.
    pub(crate) by_library: bool,
    /// The library, once there was a product; none, where it cannot be had.
    pub(crate) blas: OnceLock<Option<Arc<Blas>>>,
}

impl Compiler for CudaCompiler {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        kernel.check_needs(&self.properties)?;
        let options = kernel.extension().copied().unwrap_or_default();
        check_options(kernel, &options, &self.properties)?;
        let blas = self.blas_for(kernel);
        let (image, printed) = self.image(kernel, blas.is_some())?;
        let refused = |what: &str, code: Code| match code.class() {
            Class::Sticky => KernelError::Lost {
                kernel: kernel.name().clone(),
            },
            _ => KernelError::Compile {
                kernel: kernel.name().clone(),
                log: format!("{what}: {code}"),
            },
        };
        let _current = self
            .context
            .lend()
            .map_err(|code| refused("the context cannot be used", code))?;
        let module = Module::load(&self.context, &image)
            .map_err(|code| refused("the driver does not load it", code))?;
        let module = Arc::new(module);
        let function = |name: &str| {
            let missing = format!("it has no entry point `extern \"C\" __global__ {name}`");
            module
                .function(name)
                .map_err(|code| refused(&missing, code))
        };
        let undescribed = |code| refused("the driver does not describe it", code);
        let cube = kernel.cube();
        let declared = declared(kernel, &options, printed.is_some());
        // Can it be launched as its signature says, by so many threads?
        let fits = |function: &Function, declared: &[(String, usize)], threads| {
            let taken = function.parameters().map_err(undescribed)?;
            check_parameters(kernel, declared, &taken)?;
            let most = function.threads_max().map_err(undescribed)?;
            check_threads(kernel, threads, most)
        };
        let ways = |entries: Entries, declared: &[(String, usize)]| {
            let loaded = entries.list.iter().map(|entry| {
                let function = function(&entry.name)?;
                fits(&function, declared, entry.threads)?;
                Ok(function)
            });
            let loaded: Vec<Function> = loaded.collect::<Result<_, KernelError>>()?;
            Ok::<_, KernelError>(entries.ways(loaded, self.limits()))
        };
        let (function, ways, epilogue) = match printed {
            None => {
                let function = function(kernel.name())?;
                fits(&function, &declared, cube.threads)?;
                (function, None, None)
            }
            Some(printed) => {
                let first = function(&printed.entries.list[0].name)?;
                let epilogue = printed.epilogue.map(|entries| {
                    let declared = ir::parameters(&entries.program);
                    ways(entries, &declared)
                });
                let main = ways(printed.entries, &declared)?;
                (first, Some(main), epilogue.transpose()?)
            }
        };
        let product = match (blas, ir::program_of(kernel).map(Arc::as_ref)) {
            (Some(blas), Some(Program::Matmul(matmul))) => Some(Product {
                blas,
                matmul: matmul.clone(),
                epilogue,
            }),
            _ => None,
        };
        let made = CudaKernel {
            threads: cube.threads,
            shared_bytes: cube.shared_bytes,
            scalars: scalars(kernel, ways.is_some()),
            parameter_bytes: declared.iter().map(|(_, bytes)| *bytes).collect(),
            options,
            function,
            ways,
            product,
        };
        // Asked for in any case: what there is unasked is shared with what the source declares itself.
        if cube.shared_bytes > 0 {
            let asked = format!(
                "it cannot have {} bytes of shared memory",
                cube.shared_bytes
            );
            made.function
                .allow_shared(cube.shared_bytes)
                .map_err(|code| refused(&asked, code))?;
        }
        if let Some(cubes) = options
            .cluster
            .map(|cluster| cluster.iter().product::<u32>())
            && cubes > CLUSTER_PORTABLE
        {
            let asked = format!("it cannot have clusters of {cubes} cubes");
            made.function
                .allow_large_clusters()
                .map_err(|code| refused(&asked, code))?;
        }
        Ok(Arc::new(made))
    }

    fn blockings(&self, program: &Program) -> Vec<Blocking> {
        lower::blockings(program)
    }
}

/// Where the values lie in the packed scalars that an entry point takes: each scalar, or all words of a program as one.
fn scalars(kernel: &Kernel, of_program: bool) -> Vec<Range<usize>> {
    let signature = kernel.signature();
    let each = signature.scalars().iter();
    let mut each = each.map(|scalar| scalar.offset..scalar.offset + scalar.dtype.size());
    if !of_program {
        return each.collect();
    }
    // They are all of one type, and so packed in order.
    let last = each.next_back();
    last.map(|last| 0..last.end).into_iter().collect()
}

/// How many there are in all.
fn volume(axes: [u32; 3]) -> u128 {
    axes.into_iter().map(u128::from).product()
}

/// Refuses what no launch on this device could have.
fn check_options(
    kernel: &Kernel,
    options: &CudaLaunch,
    properties: &DeviceProperties,
) -> Result<(), KernelError> {
    let feature = |feature| KernelError::Feature {
        kernel: kernel.name().clone(),
        feature,
    };
    if options.tensor_maps > 0 && !properties.has(Feature::TensorMaps) {
        return Err(feature(Feature::TensorMaps));
    }
    if options.cluster.is_some() && !properties.has(Feature::Clusters) {
        return Err(feature(Feature::Clusters));
    }
    let signature = kernel.signature();
    let scalars = match ir::program_of(kernel) {
        // All words are one parameter.
        Some(_) => 1,
        None => signature.scalars().len(),
    };
    let parameters = signature.bindings().len() + scalars + options.tensor_maps;
    let cluster = options.cluster.unwrap_or([1; 3]);
    let wrong = if !(1..=16).contains(&volume(cluster)) {
        format!("its clusters are of {cluster:?} cubes, and 1 to 16 can be")
    } else if options.tensor_maps > TENSOR_MAPS_MAX {
        let maps = options.tensor_maps;
        format!("it takes {maps} tensor maps, and {TENSOR_MAPS_MAX} can be")
    } else if options.metadata_words > METADATA_WORDS_MAX {
        let words = options.metadata_words;
        format!("it takes {words} words of metadata, and {METADATA_WORDS_MAX} can be")
    } else if parameters >= PARAMETERS_INLINE {
        let most = PARAMETERS_INLINE - 1;
        format!("it takes {parameters} bindings, scalars and tensor maps, and {most} can be")
    } else {
        return Ok(());
    };
    Err(KernelError::Compile {
        kernel: kernel.name().clone(),
        log: wrong,
    })
}

/// Refuses a cube that no launch could have, before one is tried.
fn check_threads(kernel: &Kernel, threads: [u32; 3], most: u32) -> Result<(), KernelError> {
    if (1..=u128::from(most)).contains(&volume(threads)) {
        return Ok(());
    }
    let [x, y, z] = threads;
    Err(KernelError::Compile {
        kernel: kernel.name().clone(),
        log: format!(
            "its cubes are of {x} x {y} x {z} threads, and 1 to {most} can be: its registers allow no more"
        ),
    })
}

impl CudaCompiler {
    /// What a GPU runs at once, as lowering asks for it.
    fn limits(&self) -> Limits {
        let cubes = self.properties.compute_units as u32 * CUBES_A_UNIT;
        Limits {
            cubes_at_once: cubes,
        }
    }

    /// The library that may do what this kernel does, if it is a product of floats that nobody wants done otherwise.
    fn blas_for(&self, kernel: &Kernel) -> Option<Arc<Blas>> {
        match ir::program_of(kernel)?.as_ref() {
            Program::Matmul(matmul)
                if self.by_library
                    && matmul.dtype.is_float()
                    && ir::blocking_of(kernel) == Blocking::USUAL => {}
            _ => return None,
        }
        let blas = self.blas.get_or_init(|| {
            let _current = self.context.lend().ok()?;
            let made = Blas::new(&self.context).map_err(|why| {
                tracing::debug!(target: "millstream::cuda", why, "products are done by our own kernels");
            });
            made.ok().map(Arc::new)
        });
        blas.clone()
    }

    /// What the driver loads: PTX text that a 0 ends, or a binary; and what it was printed from. It is the first source
    /// that can be had: without a compiler, what needs none.
    fn image(
        &self,
        kernel: &Arc<Kernel>,
        by_library: bool,
    ) -> Result<(Vec<u8>, Option<Printed>), KernelError> {
        let mut no_compiler = None;
        for source in kernel.sources() {
            match source {
                Source::Ptx(text) => return Ok((text.bytes().chain([0]).collect(), None)),
                Source::Cubin(binary) => return Ok((whole(kernel, binary)?, None)),
                Source::CudaC(text) => match self.cache.get(kernel.name(), text, &self.target) {
                    Ok(binary) => return Ok((binary, None)),
                    Err(why @ Failure::NoCompiler(_)) => no_compiler = Some(why),
                    Err(why) => return Err(why.of(kernel)),
                },
                Source::Ir(program) => {
                    let blocking = ir::blocking_of(kernel);
                    let printed = Printed::new(kernel.name(), program, blocking, by_library);
                    let printed = printed.map_err(|log| Failure::Source(log).of(kernel))?;
                    match self.cache.get(kernel.name(), &printed.text, &self.target) {
                        Ok(binary) => return Ok((binary, Some(printed))),
                        Err(why @ Failure::NoCompiler(_)) => no_compiler = Some(why),
                        Err(why) => return Err(why.of(kernel)),
                    }
                }
                _ => {}
            }
        }
        Err(match no_compiler {
            Some(why) => why.of(kernel),
            None => kernel.no_source("cuda", &["CUDA C", "PTX", "cubin", "IR"]),
        })
    }
}

/// A binary that is as long as it says: the driver is told where it begins, and nothing else.
fn whole(kernel: &Kernel, binary: &[u8]) -> Result<Vec<u8>, KernelError> {
    let number = |at: usize, bytes: usize| {
        let field = binary.get(at..at + bytes)?;
        let number = field
            .iter()
            .rev()
            .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Some(number)
    };
    let needed = match binary {
        // An ELF of 64 bits ends with its table of sections, or that of segments.
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
        // Several, in NVIDIA's container: a header, and what it says.
        [0x50, 0xED, 0x55, 0xBA, ..] => number(6, 2)
            .zip(number(8, 8))
            .and_then(|(header, rest)| header.checked_add(rest)),
        _ => None,
    };
    match needed.is_some_and(|needed| needed <= binary.len() as u64) {
        true => Ok(binary.to_vec()),
        false => Err(KernelError::Compile {
            kernel: kernel.name().clone(),
            log: format!(
                "its binary, of {} bytes, is none of CUDA's, or is cut off",
                binary.len()
            ),
        }),
    }
}

/// What an entry point takes, each with its bytes: a pointer for each binding, each scalar by value, and what
/// `CudaLaunch` says.
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
        let what = format!("the metadata, `unsigned words[{words}]` by value,");
        (what, words * size_of::<u32>())
    });
    bindings
        .chain(scalars)
        .chain(maps)
        .chain(metadata)
        .collect()
}

/// Does the entry point take what is declared? Asked once, so that no launch hands the GPU what it misreads.
fn check_parameters(
    kernel: &Kernel,
    declared: &[(String, usize)],
    taken: &[usize],
) -> Result<(), KernelError> {
    let misfit = |log: String| KernelError::Compile {
        kernel: kernel.name().clone(),
        log,
    };
    if declared.len() != taken.len() {
        return Err(misfit(format!(
            "its entry point takes {} parameters, and {} are declared: bindings, then scalars, then what `CudaLaunch` says",
            taken.len(),
            declared.len()
        )));
    }
    for (place, ((what, declared), taken)) in declared.iter().zip(taken).enumerate() {
        if declared != taken {
            return Err(misfit(format!(
                "parameter {place} of its entry point has {taken} bytes, and {what} has {declared}"
            )));
        }
    }
    Ok(())
}
