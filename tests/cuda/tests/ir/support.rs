//! A device on the fake driver that runs programs, and test data.

use std::sync::Arc;

use fake_cuda::Session;
use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, LaunchArgs, bind};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, Stream};
use millstream_cuda::Cuda;
use millstream_ir::nest::BufferMode;
use millstream_ir::{Blocking, DType, Program};
use millstream_protocol::access::Access;
use millstream_protocol::element::{bf16, f16};
use millstream_protocol::kernel::Kernel;
use millstream_protocol::memory::MemoryOptions;
use millstream_protocol::options::DeviceOptions;

use crate::library::library;

/// A fake GPU, a device on it, and a stream.
pub(crate) struct Gpu {
    stream: Stream,
    client: ComputeClient,
    device: Device,
    session: Session,
    /// Live objects of the fake cuBLASLt before this device was opened. Lost devices of earlier tests leave theirs.
    objects_before: i64,
}

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

impl Gpu {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(seed, |cuda| cuda)
    }

    /// As [`Self::new`], with other options of the backend.
    pub(crate) fn with(seed: u64, options: impl FnOnce(Cuda) -> Cuda) -> Self {
        let chosen = options(Cuda::ordinal(0).queues(1));
        let session = Session::begin(seed).unwrap_or_else(|error| panic!("{error}"));
        let options =
            DeviceOptions::default().memory(MemoryOptions::default().page_bytes(256 << 10));
        // The fake supports only PTX.
        let cuda = chosen.compile_to_ptx(true);
        let objects_before = library().living();
        let device = Device::open_with(cuda, options).unwrap();
        let client = device.new_client();
        Self {
            objects_before,
            stream: client.new_stream(),
            client,
            device,
            session,
        }
    }

    /// Returns the client and the stream, for tests that do more than run one program.
    pub(crate) fn open(&self) -> (&ComputeClient, &Stream) {
        (&self.client, &self.stream)
    }

    /// Runs a program over these buffers and returns their contents.
    pub(crate) fn run(
        &self,
        program: Program,
        cubes: u32,
        buffers: &[Vec<u8>],
        words: &[u64],
    ) -> Vec<Vec<u8>> {
        self.run_blocked(program, Blocking::DEFAULT, cubes, buffers, words)
    }

    /// As [`Self::run`], with a blocking.
    pub(crate) fn run_blocked(
        &self,
        program: Program,
        blocking: Blocking,
        cubes: u32,
        buffers: &[Vec<u8>],
        words: &[u64],
    ) -> Vec<Vec<u8>> {
        let types = program.buffers();
        let kernel = Kernel::from_program("tested", Arc::new(program)).unwrap();
        let kernel = kernel.with(blocking);
        let kernel = match self.client.kernel(kernel) {
            Ok(kernel) => kernel,
            Err(error) => panic!("{error}"),
        };
        let bytes: Vec<Handle<u8>> = buffers
            .iter()
            .map(|bytes| self.stream.create(bytes).unwrap())
            .collect();
        let typed: Vec<Typed> = bytes
            .iter()
            .zip(&types)
            .map(|(bytes, (dtype, _))| Typed::new(bytes, *dtype))
            .collect();
        let mut arguments = LaunchArgs::new();
        for (handle, (_, mode)) in typed.iter().zip(&types) {
            let access = match mode {
                BufferMode::Read => Access::Read,
                BufferMode::Write => Access::Write,
                BufferMode::Update => Access::ReadWrite,
            };
            arguments = handle.bind(arguments, access);
        }
        for word in words {
            arguments = arguments.arg(*word);
        }
        self.stream
            .launch(&kernel, CubeCount::Static(cubes, 1, 1), arguments)
            .unwrap();
        let read = bytes.iter().map(|handle| self.stream.read(handle).wait());
        read.collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the session of the fake driver.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Returns a description of the last launch.
    pub(crate) fn launched(&self) -> String {
        self.session.launched().pop().unwrap_or_default()
    }

    /// Returns the number of live cuBLASLt objects of this device.
    pub(crate) fn library_objects(&self) -> i64 {
        library().living() - self.objects_before
    }

    /// Closes the device and asserts that the fake reports nothing: no race, no access out of bounds, no leak.
    pub(crate) fn close(self) {
        let objects_before = self.objects_before;
        drop((self.stream, self.client, self.device));
        assert_eq!(
            library().living(),
            objects_before,
            "the device leaks objects of cuBLASLt"
        );
        self.session.assert_clean();
    }
}

/// Returns pseudo-random elements, the same for the same seed. With `special` some of them are edge cases.
pub(crate) fn elements(dtype: DType, len: usize, seed: u64, special: bool) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    let mut bytes = Vec::with_capacity(len * dtype.size());
    for _ in 0..len {
        let draw = next();
        let float = match draw % 97 {
            0 if special => f64::NAN,
            1 if special => f64::INFINITY,
            2 if special => f64::NEG_INFINITY,
            3 if special => -3e19,
            4 if special => 7e9,
            5 if special => 300.5,
            6 if special => -40_000.5,
            // Next to the midpoint of two f16 values, and of two bf16 values. Rounding to f32 first gives the midpoint
            // itself, so a cast by way of f32 rounds the wrong way.
            7 if special => 1.0 + 1.0 / 2048.0 + 1e-10,
            8 if special => -(1.0 + 3.0 / 256.0 - 1e-10),
            _ => (draw >> 8) as f64 % 4096.0 / 512.0 - 4.0,
        };
        let whole = match draw % 13 {
            0 if special => i64::MIN,
            1 if special => 0,
            2 if special => -1,
            3 if special => 128,
            4 if special => (1 << 40) + (1 << 32) + 1,
            _ => (draw >> 8) as i64 % 23 - 7,
        };
        let bits = match dtype {
            DType::F64 => float.to_bits(),
            DType::F32 => u64::from((float as f32).to_bits()),
            DType::F16 => u64::from(f16::from_f64(float).to_bits()),
            DType::Bf16 => u64::from(bf16::from_f64(float).to_bits()),
            _ => whole as u64,
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.size()]);
    }
    bytes
}
