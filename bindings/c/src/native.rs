//! Kernels in C, for the processor.

use std::cell::RefCell;
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream::{Cube, Kernel, NativeArgs};
use smallvec::SmallVec;

use crate::argument::ms_value;
use crate::sized::{User, text};
use crate::status::{Answer, Fault, ensure, exports};

/// A buffer of a running launch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_span {
    /// Its first byte.
    pub data: *mut c_void,
    /// Its size in bytes.
    pub bytes: usize,
    /// Where this cube's share begins, in bytes from `data`, if the elements are divided evenly among the cubes.
    pub share_start: usize,
    /// The size of that share in bytes. 0 if there are more cubes than elements.
    pub share_bytes: usize,
}

/// What a kernel in C receives. Valid until it returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_launch_args {
    /// The size of this struct in the library, which may be greater than in the header that a program was compiled with.
    pub size: u32,
    /// The position of this cube along x, y and z.
    pub cube: [u32; 3],
    /// The number of cubes of the launch along x, y and z.
    pub cubes: [u32; 3],
    /// The number of scalars.
    pub scalar_count: u32,
    /// The number of this cube, from 0, x fastest.
    pub cube_index: u64,
    /// The number of all cubes.
    pub cube_count: u64,
    /// The buffers, in declared order.
    pub bindings: *const ms_span,
    /// Their number.
    pub binding_count: usize,
    /// The scalars, in declared order: use the field of the declared type.
    pub scalars: *const ms_value,
    /// For `ms_launch_fail`.
    pub internal: *const c_void,
    /// The words of the launch's metadata (`ms_tensor`).
    pub metadata: *const u32,
    /// Their number; 0 without metadata.
    pub metadata_count: usize,
}

/// A kernel in C. It is called once for each cube of a launch, on any thread of the device or on one that pumps, and
/// several cubes of a launch run at the same time: each writes its own share of the buffers (`ms_span`), or others that
/// no other cube touches. No other task writes the buffers meanwhile.
///
/// It must not throw or unwind, or call functions of this library other than `ms_launch_fail`.
pub type ms_kernel_fn =
    Option<unsafe extern "C" fn(args: *const ms_launch_args, user: *mut c_void)>;

type KernelFn = unsafe extern "C" fn(args: *const ms_launch_args, user: *mut c_void);

/// Frees what a kernel in C uses.
pub type ms_drop_fn = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// The message of a cube that failed.
type Failure = RefCell<Option<String>>;

exports! {
    /// Makes the launch fail when the kernel returns: what it writes is poisoned, and readers get `message`. For
    /// kernels in C, on the thread and with the arguments that they were called with.
    fn ms_launch_fail(args: *const ms_launch_args, message: *const c_char) {
        ensure!(!args.is_null(), "the arguments of the launch are NULL");
        let message = text(message, "message")?;
        // The kernel passes the arguments that it was called with.
        let failure = (*args).internal.cast::<Failure>().as_ref();
        let none = || Fault::argument("no kernel runs with these arguments");
        failure.ok_or_else(none)?.replace(Some(message.to_owned()));
        Ok(())
    }
}

/// A function of the caller, and what it uses.
pub(crate) struct Function<F> {
    pub(crate) call: F,
    /// The caller owns it until the function was taken.
    pub(crate) owner: Arc<Owner>,
}

impl<F> Function<F> {
    pub(crate) fn new(
        call: Option<F>,
        user: *mut c_void,
        drop: ms_drop_fn,
        what: &str,
    ) -> Answer<Self> {
        let call = call.ok_or_else(|| Fault::argument(format!("{what} is NULL")))?;
        let owner = Arc::new(Owner::new(user, drop));
        Ok(Self { call, owner })
    }
}

/// What a function uses, and how to free it. The caller owns it until [`Owner::take`].
pub(crate) struct Owner {
    user: User,
    drop: ms_drop_fn,
    is_ours: AtomicBool,
}

impl Owner {
    pub(crate) fn new(user: *mut c_void, drop: ms_drop_fn) -> Self {
        Self {
            user: User(user),
            drop,
            is_ours: AtomicBool::new(false),
        }
    }

    pub(crate) fn user(&self) -> *mut c_void {
        self.user.0
    }

    /// Takes the ownership: the caller's function is called when this is dropped.
    pub(crate) fn take(&self) {
        // Relaxed: dropping the last reference happens after this, by the count of references.
        self.is_ours.store(true, Ordering::Relaxed);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let (Some(drop), true) = (self.drop, *self.is_ours.get_mut()) {
            // SAFETY: the caller's function, which is called once with the pointer that it was registered with.
            unsafe { drop(self.user.0) }
        }
    }
}

/// Adds a function as a source.
pub(crate) fn add(kernel: Kernel, function: Function<KernelFn>) -> Kernel {
    // All buffers and scalars were declared before.
    let signature = kernel.signature();
    let scalars = signature.scalars().len();
    let sizes = signature.bindings().iter();
    let sizes: Arc<[usize]> = sizes.map(|binding| binding.dtype.size()).collect();
    kernel.native(move |cube, args| run_cube(&function, &sizes, scalars, cube, args))
}

fn run_cube(
    function: &Function<KernelFn>,
    sizes: &[usize],
    scalars: usize,
    cube: &Cube,
    args: &NativeArgs<'_>,
) {
    let spans = sizes.iter().enumerate().map(|(index, size)| {
        // SAFETY: only the caller's function uses the pointer, and it promises to share the bytes as declared.
        let (data, bytes) = unsafe { args.raw::<u8>(index) };
        let (start, end) = share(bytes / size, cube);
        ms_span {
            data: data.cast(),
            bytes,
            share_start: start * size,
            share_bytes: (end - start) * size,
        }
    });
    let spans: SmallVec<[ms_span; 8]> = spans.collect();
    let scalars = (0..scalars).map(|index| ms_value {
        u64: args.scalar_bits(index),
    });
    let scalars: SmallVec<[ms_value; 8]> = scalars.collect();
    let failure = Failure::default();
    let given = ms_launch_args {
        size: size_of::<ms_launch_args>() as u32,
        cube: [cube.x(), cube.y(), cube.z()],
        cubes: cube.counts(),
        scalar_count: scalars.len() as u32,
        cube_index: cube.index(),
        cube_count: cube.count(),
        bindings: spans.as_ptr(),
        binding_count: spans.len(),
        scalars: scalars.as_ptr(),
        internal: std::ptr::from_ref(&failure).cast(),
        metadata: args.metadata().as_ptr(),
        metadata_count: args.metadata().len(),
    };
    // SAFETY: the caller's function, with valid arguments.
    unsafe { (function.call)(&raw const given, function.owner.user()) };
    if let Some(message) = failure.into_inner() {
        // This is how a native kernel fails; unlike `panic!` it calls no panic hook.
        std::panic::resume_unwind(Box::new(message));
    }
}

/// Returns the bounds of a cube's share of this number of elements, as `NativeArgs::chunk` divides them.
fn share(elements: usize, cube: &Cube) -> (usize, usize) {
    let cubes = (cube.count() as usize).max(1);
    let share = elements.div_ceil(cubes);
    let start = (cube.index() as usize).saturating_mul(share).min(elements);
    (start, start.saturating_add(share).min(elements))
}
