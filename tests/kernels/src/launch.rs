//! Runs a program over buffers of bytes.

use std::sync::Arc;

use millstream_client::arguments::{CubeCount, LaunchArgs, bind};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, Stream};
use millstream_ir::nest::BufferMode;
use millstream_ir::{Blocking, DType, Program};
use millstream_protocol::{Access, Error, Kernel, Source, bf16, f16};

/// Defines a handle whose element type is known at run time.
macro_rules! handles {
    ($($name:ident($rust:ty)),*) => {
        enum Typed { $($name(Handle<$rust>)),* }

        impl Typed {
            fn new(bytes: &Handle<u8>, dtype: DType) -> Self {
                match dtype {
                    $(DType::$name => Typed::$name(bytes.cast().unwrap()),)*
                    other => panic!("there are no handles of element type {other}"),
                }
            }

            fn bind<'a>(&'a self, arguments: LaunchArgs<'a>, access: Access) -> LaunchArgs<'a> {
                match self { $(Typed::$name(handle) => arguments.arg(bind(handle, access))),* }
            }
        }
    };
}

handles!(
    F64(f64),
    I64(i64),
    U64(u64),
    F32(f32),
    I32(i32),
    U32(u32),
    F16(f16),
    Bf16(bf16),
    I16(i16),
    U16(u16),
    I8(i8),
    U8(u8)
);

/// A launch of a program.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The program.
    pub program: Program,
    /// Its blocking.
    pub blocking: Blocking,
    /// The number of cubes, which only an SSA function uses.
    pub cubes: CubeCount,
    /// The contents of the buffers before.
    pub buffers: &'a [Vec<u8>],
    /// The launch words.
    pub words: &'a [u64],
}

impl Launch<'_> {
    /// Runs it on a stream of the client. Returns the contents of the buffers afterwards.
    ///
    /// # Errors
    /// The kernel or the launch is refused, or fails.
    pub fn run(self, client: &ComputeClient, stream: &Stream) -> Result<Vec<Vec<u8>>, Error> {
        let types = self.program.buffers();
        // There are no handles of bools. A kernel of bytes with the same code takes handles of bytes.
        let has_bools = types.iter().any(|(dtype, _)| *dtype == DType::Bool);
        let kernel = match has_bools {
            true => of_bytes(self.program),
            false => Kernel::from_program("tested", Arc::new(self.program)).unwrap(),
        };
        let kernel = client.kernel(kernel.with(self.blocking))?;
        let bytes = self.buffers.iter().map(|bytes| stream.create(bytes));
        let bytes: Vec<Handle<u8>> = bytes.collect::<Result<_, _>>()?;
        let typed = bytes.iter().zip(&types);
        let typed: Vec<Typed> = typed
            .map(|(bytes, (dtype, _))| match has_bools {
                true => Typed::U8(bytes.clone()),
                false => Typed::new(bytes, *dtype),
            })
            .collect();
        let mut arguments = LaunchArgs::new();
        for (handle, (_, mode)) in typed.iter().zip(&types) {
            arguments = handle.bind(arguments, access(*mode));
        }
        for word in self.words {
            arguments = arguments.arg(*word);
        }
        stream.launch(&kernel, self.cubes, arguments)?;
        bytes
            .iter()
            .map(|handle| stream.read(handle).wait())
            .collect()
    }
}

fn access(mode: BufferMode) -> Access {
    match mode {
        BufferMode::Read => Access::Read,
        BufferMode::Write => Access::Write,
        BufferMode::Update => Access::ReadWrite,
    }
}

/// Returns a kernel of this program whose bindings are declared as bytes.
fn of_bytes(program: Program) -> Kernel {
    let mut kernel = Kernel::new("tested");
    if let Program::Ssa(function) = &program {
        kernel = kernel.threads(function.threads);
    }
    for (index, (_, mode)) in program.buffers().into_iter().enumerate() {
        kernel = kernel.raw::<u8>(program.buffer_name(index), access(mode));
    }
    for word in 0..program.words() {
        kernel = kernel.scalar::<u64>(format!("w{word}"));
    }
    kernel.source(Source::Ir(Arc::new(program)))
}
