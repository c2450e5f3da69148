//! A few kernels: a closure for devices that run Rust, and its twin in PTX for GPUs, which NVRTC made of the CUDA C in
//! `kernels` (`twins`).
//!
//! Who runs a closure knows how long its bindings are; PTX is told, by a scalar `n`.

use millstream::{
    Arguments, ComputeClient, CubeCount, Error, Handle, Kernel, KernelHandle, Source, Stream, read,
    update, write,
};
use millstream_cuda::{Cuda, CudaLaunch};

use super::{On, Valve};

/// Threads of a cube: few, so that an interpreter is done soon.
const THREADS: [u32; 3] = [32, 1, 1];

/// Adds a twin in PTX.
pub(crate) trait Twin {
    /// From `elements.cu`: each element by itself.
    fn elements_ptx(self) -> Self;
    /// From `cubes.cu`: each cube by itself.
    fn cubes_ptx(self) -> Self;
    /// From `held.cu`: at a valve.
    fn held_ptx(self) -> Self;
    /// From `large.cu`: with so many words of metadata.
    fn large_ptx(self, metadata_words: usize) -> Self;
}

impl Twin for Kernel {
    fn elements_ptx(self) -> Self {
        with_ptx(self, include_str!("../kernels/elements.ptx"))
    }

    fn cubes_ptx(self) -> Self {
        with_ptx(self, include_str!("../kernels/cubes.ptx"))
    }

    fn held_ptx(self) -> Self {
        with_ptx(self, include_str!("../kernels/held.ptx"))
    }

    fn large_ptx(self, metadata_words: usize) -> Self {
        let options = CudaLaunch::default().metadata_words(metadata_words);
        with_ptx(self, include_str!("../kernels/large.ptx")).with(options)
    }
}

fn with_ptx(kernel: Kernel, text: &'static str) -> Kernel {
    kernel.threads(THREADS).source(Source::Ptx(text.into()))
}

/// A kernel in PTX that takes parameters of these types and does nothing.
pub(crate) fn empty_ptx(name: &str, parameters: &[&str]) -> Source {
    let parameters = (0..).zip(parameters);
    let parameters: Vec<_> = parameters
        .map(|(index, of)| format!(".param .{of} {name}_{index}"))
        .collect();
    let parameters = parameters.join(", ");
    let entry = format!(".visible .entry {name}({parameters})\n{{\n    ret;\n}}\n");
    Source::Ptx(format!(".version 8.0\n.target sm_80\n.address_size 64\n\n{entry}").into())
}

/// Adds one to every element.
pub(crate) fn add_one(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("add_one")
        .updates::<u32>("values")
        .scalar::<u32>("n")
        .native(|_cube, args| {
            args.chunk::<u32>(0)
                .iter_mut()
                .for_each(|value| *value = value.wrapping_add(1));
        });
    client.kernel(kernel.elements_ptx()).unwrap()
}

/// Copies `src` to `dst`, element by element.
pub(crate) fn transfer(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("transfer")
        .reads::<u32>("src")
        .writes::<u32>("dst")
        .scalar::<u32>("n")
        .native(|_cube, args| {
            let (src, start) = (args.read::<u32>(0), args.chunk_start(1));
            let dst = args.chunk::<u32>(1);
            dst.copy_from_slice(&src[start..start + dst.len()]);
        });
    client.kernel(kernel.elements_ptx()).unwrap()
}

/// Writes `value` everywhere.
pub(crate) fn set(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("set")
        .writes::<u32>("dst")
        .scalar::<u32>("value")
        .scalar::<u32>("n")
        .native(|_cube, args| {
            args.chunk::<u32>(0).fill(args.scalar(0));
        });
    client.kernel(kernel.elements_ptx()).unwrap()
}

fn elements(values: &Handle<u32>) -> u32 {
    u32::try_from(values.len()).unwrap()
}

/// The arguments of [`add_one`].
pub(crate) fn in_place(values: &Handle<u32>) -> impl Arguments {
    (update(values), elements(values))
}

/// The arguments of [`transfer`].
pub(crate) fn across(from: &Handle<u32>, to: &Handle<u32>) -> impl Arguments {
    (read(from), write(to), elements(to))
}

/// The arguments of [`set`].
pub(crate) fn to(values: &Handle<u32>, value: u32) -> impl Arguments {
    (write(values), value, elements(values))
}

pub(crate) fn one() -> CubeCount {
    CubeCount::single()
}

pub(crate) fn launch_update(
    stream: &Stream,
    kernel: &KernelHandle,
    values: &Handle<u32>,
) -> Result<(), Error> {
    stream.launch(kernel, one(), in_place(values))
}

pub(crate) fn launch_transfer(
    stream: &Stream,
    kernel: &KernelHandle,
    from: &Handle<u32>,
    to: &Handle<u32>,
) -> Result<(), Error> {
    stream.launch(kernel, one(), across(from, to))
}

/// A task that panics while it runs: a kernel, where kernels are Rust. No kernel of a GPU panics; there it is code of the
/// user's that runs in its place, with the GPU's own resources.
pub(crate) struct Boom {
    kernel: Option<KernelHandle>,
    panics: fn(),
}

/// Panics with "boom".
pub(crate) fn boom(on: On, client: &ComputeClient) -> Boom {
    Boom::new(on, client, || panic!("boom"))
}

impl Boom {
    pub(crate) fn new(on: On, client: &ComputeClient, panics: fn()) -> Self {
        let kernel = Kernel::new("boom")
            .updates::<u32>("values")
            .native(move |_cube, _args| panics());
        Self {
            kernel: (!on.is_cuda()).then(|| client.kernel(kernel).unwrap()),
            panics,
        }
    }

    /// None on a GPU.
    pub(crate) fn kernel(&self) -> Option<&KernelHandle> {
        self.kernel.as_ref()
    }

    pub(crate) fn launch(&self, stream: &Stream, values: &Handle<u32>) -> Result<(), Error> {
        let (bindings, panics) = ((update(values),), self.panics);
        match &self.kernel {
            Some(kernel) => stream.launch(kernel, one(), bindings),
            None => Ok(stream.with_resource::<Cuda>("boom", bindings, move |_| panics())?),
        }
    }
}

/// A kernel that waits at a valve.
pub(crate) struct Held {
    kernel: KernelHandle,
    /// Where a GPU looks at it.
    address: u64,
}

/// A kernel that waits at `valve`, then adds one to its first element.
pub(crate) fn held(client: &ComputeClient, valve: &Valve) -> Held {
    let at = valve.of_host();
    let kernel = Kernel::new("held")
        .updates::<u32>("values")
        .scalar::<u64>("valve")
        .native(move |_cube, args| {
            at.pass();
            args.chunk::<u32>(0)[0] += 1;
        });
    Held::new(client, kernel, valve)
}

/// As [`held`], but it only reads, and writes what it has read to another place.
pub(crate) fn held_reader(client: &ComputeClient, valve: &Valve) -> Held {
    let at = valve.of_host();
    let kernel = Kernel::new("held_reader")
        .reads::<u32>("values")
        .updates::<u32>("out")
        .scalar::<u64>("valve")
        .native(move |_cube, args| {
            at.pass();
            args.chunk::<u32>(1)[0] = args.read::<u32>(0)[0];
        });
    Held::new(client, kernel, valve)
}

impl Held {
    fn new(client: &ComputeClient, kernel: Kernel, valve: &Valve) -> Self {
        Self {
            kernel: client.kernel(kernel.held_ptx()).unwrap(),
            address: valve.address(),
        }
    }

    pub(crate) fn launch(&self, stream: &Stream, values: &Handle<u32>) -> Result<(), Error> {
        stream.launch(&self.kernel, one(), (update(values), self.address))
    }

    /// Of a [`held_reader`].
    pub(crate) fn launch_reader(
        &self,
        stream: &Stream,
        values: &Handle<u32>,
        out: &Handle<u32>,
    ) -> Result<(), Error> {
        let arguments = (read(values), update(out), self.address);
        stream.launch(&self.kernel, one(), arguments)
    }
}
