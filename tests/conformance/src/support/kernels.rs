//! A few kernels, each a closure for devices that run Rust. Other devices add a twin in their own language
//! ([`Subject`](crate::Subject) specifies the effect of each).
//!
//! A closure knows the length of its bindings; a twin receives it as the scalar `n`.

use millstream::{
    ComputeClient, CubeCount, Error, Handle, Kernel, KernelHandle, Stream, kernel::Arguments, read,
    update, write,
};

use super::{On, Valve, twin};

/// The threads of a cube: few, so that an interpreter needs little time.
const THREADS: [u32; 3] = [32, 1, 1];

/// An extension of a kernel: the number of words of metadata of its launches. A twin may need it
/// ([`Kernel::extension`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetadataWords(pub usize);

/// Prepares a kernel of the suite together with its twin.
///
/// # Errors
/// As [`ComputeClient::kernel`].
pub fn prepare(client: &ComputeClient, kernel: Kernel) -> Result<KernelHandle, Error> {
    client.kernel(twin(client, kernel.threads(THREADS)))
}

/// Prepares the kernel that adds one to every element.
pub fn add_one(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("add_one")
        .updates::<u32>("values")
        .scalar::<u32>("n")
        .native(|_cube, args| {
            args.chunk::<u32>(0)
                .iter_mut()
                .for_each(|value| *value = value.wrapping_add(1));
        });
    prepare(client, kernel).unwrap()
}

/// Prepares the kernel that copies `src` to `dst`, element by element.
pub fn transfer(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("transfer")
        .reads::<u32>("src")
        .writes::<u32>("dst")
        .scalar::<u32>("n")
        .native(|_cube, args| {
            let (src, start) = (args.read::<u32>(0), args.chunk_start(1));
            let dst = args.chunk::<u32>(1);
            dst.copy_from_slice(&src[start..start + dst.len()]);
        });
    prepare(client, kernel).unwrap()
}

/// Prepares the kernel that writes `value` to every element.
pub fn set(client: &ComputeClient) -> KernelHandle {
    let kernel = Kernel::new("set")
        .writes::<u32>("dst")
        .scalar::<u32>("value")
        .scalar::<u32>("n")
        .native(|_cube, args| {
            args.chunk::<u32>(0).fill(args.scalar(0));
        });
    prepare(client, kernel).unwrap()
}

fn elements(values: &Handle<u32>) -> u32 {
    u32::try_from(values.len()).unwrap()
}

/// Returns the arguments of [`add_one`].
pub fn in_place(values: &Handle<u32>) -> impl Arguments {
    (update(values), elements(values))
}

/// Returns the arguments of [`transfer`].
pub fn across(from: &Handle<u32>, to: &Handle<u32>) -> impl Arguments {
    (read(from), write(to), elements(to))
}

/// Returns the arguments of [`set`].
pub fn to(values: &Handle<u32>, value: u32) -> impl Arguments {
    (write(values), value, elements(values))
}

/// Returns the count of a single cube.
pub fn one() -> CubeCount {
    CubeCount::single()
}

/// Launches a kernel that updates `values`, as [`add_one`].
///
/// # Errors
/// As [`Stream::launch`].
pub fn launch_update(
    stream: &Stream,
    kernel: &KernelHandle,
    values: &Handle<u32>,
) -> Result<(), Error> {
    stream.launch(kernel, one(), in_place(values))
}

/// Launches a kernel that copies `from` to `to`, as [`transfer`].
///
/// # Errors
/// As [`Stream::launch`].
pub fn launch_transfer(
    stream: &Stream,
    kernel: &KernelHandle,
    from: &Handle<u32>,
    to: &Handle<u32>,
) -> Result<(), Error> {
    stream.launch(kernel, one(), across(from, to))
}

/// A task that panics while it runs: a kernel if kernels are Rust, otherwise a custom task.
pub struct Boom {
    on: On,
    kernel: Option<KernelHandle>,
    panics: fn(),
}

/// Creates a task that panics with "boom".
pub fn boom(on: impl Into<On>, client: &ComputeClient) -> Boom {
    Boom::new(on, client, || panic!("boom"))
}

impl Boom {
    /// Creates a task that calls `panics`.
    pub fn new(on: impl Into<On>, client: &ComputeClient, panics: fn()) -> Self {
        let on = on.into();
        let kernel = Kernel::new("boom")
            .updates::<u32>("values")
            .native(move |_cube, _args| panics());
        Self {
            on,
            kernel: on.runs_rust().then(|| client.kernel(kernel).unwrap()),
            panics,
        }
    }

    /// Returns the kernel, or `None` if kernels are not Rust.
    pub fn kernel(&self) -> Option<&KernelHandle> {
        self.kernel.as_ref()
    }

    /// Submits the task, with `values` as the binding that it would update.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    pub fn launch(&self, stream: &Stream, values: &Handle<u32>) -> Result<(), Error> {
        let (bindings, panics) = ((update(values),), self.panics);
        match &self.kernel {
            Some(kernel) => stream.launch(kernel, one(), bindings),
            None => self
                .on
                .with_resource(stream, "boom", bindings, move |_| panics()),
        }
    }
}

/// A prepared kernel that waits at a valve.
pub struct Held {
    kernel: KernelHandle,
    /// The address of the gate, for a twin that is not Rust.
    address: u64,
}

/// Prepares a kernel that waits at `valve`, then adds one to its first element.
pub fn held(client: &ComputeClient, valve: &Valve) -> Held {
    let at = valve.host_side();
    let kernel = Kernel::new("held")
        .updates::<u32>("values")
        .scalar::<u64>("valve")
        .native(move |_cube, args| {
            at.pass();
            args.chunk::<u32>(0)[0] += 1;
        });
    Held::new(client, kernel, valve)
}

/// Prepares a kernel that waits at `valve`, then copies its first element to another binding.
pub fn held_reader(client: &ComputeClient, valve: &Valve) -> Held {
    let at = valve.host_side();
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
            kernel: prepare(client, kernel).unwrap(),
            address: valve.address(),
        }
    }

    /// Launches a [`held`] kernel.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    pub fn launch(&self, stream: &Stream, values: &Handle<u32>) -> Result<(), Error> {
        stream.launch(&self.kernel, one(), (update(values), self.address))
    }

    /// Launches a [`held_reader`].
    ///
    /// # Errors
    /// As [`Stream::launch`].
    pub fn launch_reader(
        &self,
        stream: &Stream,
        values: &Handle<u32>,
        out: &Handle<u32>,
    ) -> Result<(), Error> {
        let arguments = (read(values), update(out), self.address);
        stream.launch(&self.kernel, one(), arguments)
    }
}
