//! The kernels of a program, as closures. A twin in another language receives the length of its bindings as the scalar
//! `n`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use millstream::{
    ComputeClient, CubeCount, Error, Handle, Kernel, KernelHandle, Stream, kernel::Arguments, read,
    update, write,
};

/// The name of the task that fails on purpose, and the payload of its panic.
pub const BOOM: &str = "boom";

/// Returns the result of the kernel `mix` for one element and the other one.
pub(crate) fn mixed(value: u32, other: u32) -> u32 {
    value.wrapping_mul(31).wrapping_add(other)
}

/// Submits the task that fails on purpose, over the elements that it would update.
type Boom = Arc<dyn Fn(&Stream, &Handle<u32>) -> Result<(), Error> + Send + Sync>;

/// The number of runs of `tick`, by its argument.
type RunCounts = Arc<Mutex<HashMap<u32, u64>>>;

/// A kernel that counts its runs for each stream.
#[derive(Clone, Debug)]
pub(crate) struct Tick {
    pub(crate) kernel: KernelHandle,
    runs: RunCounts,
}

impl Tick {
    /// Returns the number of runs with this argument.
    pub(crate) fn runs(&self, id: u32) -> u64 {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(&id).copied().unwrap_or_default()
    }
}

/// The kernels of a program.
#[derive(Clone)]
pub struct Kernels {
    /// Adds a number to each element.
    pub add: KernelHandle,
    /// Mixes each element with another one.
    pub mix: KernelHandle,
    /// Writes a number to each element.
    pub set: KernelHandle,
    boom: Option<Boom>,
    boom_kernel: Option<KernelHandle>,
    tick: Option<Tick>,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels").finish_non_exhaustive()
    }
}

impl Kernels {
    /// Prepares all kernels for a device that runs Rust.
    ///
    /// # Errors
    /// As [`ComputeClient::kernel`].
    pub fn native(client: &ComputeClient) -> Result<Self, Error> {
        let runs = RunCounts::default();
        let counted = runs.clone();
        let tick = Kernel::new("tick")
            .scalar::<u32>("stream")
            .native(move |_cube, args| {
                let mut runs = counted.lock().unwrap_or_else(PoisonError::into_inner);
                *runs.entry(args.scalar(0)).or_default() += 1;
            });
        let boom = Kernel::new(BOOM)
            .updates::<u32>("values")
            .native(|_cube, _args| std::panic::panic_any(BOOM));
        let boom = client.kernel(boom)?;
        let listed = Some(boom.clone());
        let tick = Tick {
            kernel: client.kernel(tick)?,
            runs,
        };
        let kernels = Self::prepared(|kernel| client.kernel(kernel))?;
        Ok(Self {
            tick: Some(tick),
            ..kernels.that_fail(listed, move |stream, values| {
                stream.launch(&boom, CubeCount::single(), (update(values),))
            })
        })
    }

    /// Prepares the kernels that do not fail and access only their bindings, which any device can run. `prepare` may
    /// add sources to each.
    ///
    /// # Errors
    /// The error of `prepare`.
    pub fn prepared(
        prepare: impl Fn(Kernel) -> Result<KernelHandle, Error>,
    ) -> Result<Self, Error> {
        let add = Kernel::new("add")
            .updates::<u32>("values")
            .scalar::<u32>("by")
            .scalar::<u32>("n")
            .native(|_cube, args| {
                let by: u32 = args.scalar(0);
                for value in args.chunk::<u32>(0) {
                    *value = value.wrapping_add(by);
                }
            });
        let mix = Kernel::new("mix")
            .reads::<u32>("src")
            .updates::<u32>("dst")
            .scalar::<u32>("n")
            .native(|_cube, args| {
                let (src, start) = (args.read::<u32>(0), args.chunk_start(1));
                for (index, value) in args.chunk::<u32>(1).iter_mut().enumerate() {
                    *value = mixed(*value, src[start + index]);
                }
            });
        let set = Kernel::new("set")
            .writes::<u32>("dst")
            .scalar::<u32>("value")
            .scalar::<u32>("n")
            .native(|_cube, args| args.chunk::<u32>(0).fill(args.scalar(0)));
        Ok(Self {
            add: prepare(add)?,
            mix: prepare(mix)?,
            set: prepare(set)?,
            boom: None,
            boom_kernel: None,
            tick: None,
        })
    }

    /// Adds the task [`BOOM`], which fails. `kernel` is its kernel, if it is a launch.
    #[must_use]
    pub fn that_fail(
        mut self,
        kernel: Option<KernelHandle>,
        boom: impl Fn(&Stream, &Handle<u32>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.boom = Some(Arc::new(boom));
        self.boom_kernel = kernel;
        self
    }

    /// Removes the task that fails.
    #[must_use]
    pub fn that_never_fail(mut self) -> Self {
        (self.boom, self.boom_kernel) = (None, None);
        self
    }

    /// Returns all kernels, as the replay of the program's log needs them.
    pub fn list(&self) -> Vec<KernelHandle> {
        let optional = [
            self.boom_kernel.as_ref(),
            self.tick.as_ref().map(|tick| &tick.kernel),
        ];
        let all = [&self.add, &self.mix, &self.set].into_iter();
        all.chain(optional.into_iter().flatten()).cloned().collect()
    }

    pub(crate) fn boom(&self) -> Option<Boom> {
        self.boom.clone()
    }

    pub(crate) fn tick(&self) -> Option<&Tick> {
        self.tick.as_ref()
    }

    /// Returns the arguments of `add`.
    pub fn adds(values: &Handle<u32>, by: u32) -> impl Arguments {
        (update(values), by, values.len() as u32)
    }

    /// Returns the arguments of `mix`.
    pub fn mixes(from: &Handle<u32>, to: &Handle<u32>) -> impl Arguments {
        (read(from), update(to), to.len() as u32)
    }

    /// Returns the arguments of `set`.
    pub fn sets(values: &Handle<u32>, value: u32) -> impl Arguments {
        (write(values), value, values.len() as u32)
    }
}

/// Launches `add`, which adds `by` to every element.
///
/// # Errors
/// As [`Stream::launch`].
pub fn add(
    stream: &Stream,
    kernels: &Kernels,
    values: &Handle<u32>,
    by: u32,
    cubes: CubeCount,
) -> Result<(), Error> {
    stream.launch(&kernels.add, cubes, Kernels::adds(values, by))
}
