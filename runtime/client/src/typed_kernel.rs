//! A prepared kernel whose argument types the compiler checks.

use std::marker::PhantomData;
use std::ops::Deref;

use millstream_protocol::{ArgumentError, ArgumentErrorKind, Error};

use crate::arguments::{ArgumentTypes, CubeCount, displayed, kinds_of, kinds_of_types, refused};
use crate::{KernelHandle, Stream};

/// A prepared kernel whose argument types the compiler checks. [`KernelHandle::typed`] makes one.
///
/// A launch takes a handle for each binding, with the access that its type declares, and a number for each scalar,
/// whose type the compiler infers. It costs as much as [`Stream::launch`].
///
/// ```
/// # use millstream_client::{KernelHandle, Recording, Stream};
/// # use millstream_protocol::Error;
/// # use millstream_client::handle::Handle;
/// use millstream_client::arguments::{CubeCount, Read, Write};
/// # fn f(stream: &Stream, scale: &KernelHandle, x: &Handle<f32>, y: &Handle<f32>) -> Result<Recording, Error> {
/// let scale = scale.typed::<(Read<f32>, Write<f32>, f32)>()?;
/// scale.launch(stream, CubeCount::cover(x.len(), 256), (x, y, 3.0))?; // an f32
/// // It derefs to a kernel handle, and makes arguments for other calls:
/// stream.record(|recorder| recorder.launch(&scale, 4, scale.arguments((x, y, 0.5))))
/// # }
/// ```
///
/// A scalar of another type does not compile, and neither does a handle of other elements:
///
/// ```compile_fail,E0308
/// # use millstream_client::{Stream, TypedKernel};
/// # use millstream_protocol::Error;
/// # use millstream_client::handle::Handle;
/// # use millstream_client::arguments::{Read, Write};
/// # type Scale = TypedKernel<(Read<f32>, Write<f32>, f32)>;
/// # fn f(stream: &Stream, scale: &Scale, x: &Handle<f32>, y: &Handle<f32>) -> Result<(), Error> {
/// scale.launch(stream, 4, (x, y, 3_u32))
/// # }
/// ```
/// ```compile_fail,E0308
/// # use millstream_client::{Stream, TypedKernel};
/// # use millstream_protocol::Error;
/// # use millstream_client::handle::Handle;
/// # use millstream_client::arguments::{Read, Write};
/// # type Scale = TypedKernel<(Read<f32>, Write<f32>, f32)>;
/// # fn f(stream: &Stream, scale: &Scale, x: &Handle<f32>, y: &Handle<u32>) -> Result<(), Error> {
/// scale.launch(stream, 4, (x, y, 3.0))
/// # }
/// ```
pub struct TypedKernel<A: ArgumentTypes> {
    kernel: KernelHandle,
    types: PhantomData<fn(A)>,
}

impl KernelHandle {
    /// Attaches the types of the kernel's arguments, so that the compiler checks launches.
    ///
    /// # Errors
    /// [`Error::Argument`] if the signature declares other types. The message lists the types of the signature.
    pub fn typed<A: ArgumentTypes>(&self) -> Result<TypedKernel<A>, Error> {
        let declared = kinds_of(self.kernel.signature());
        let given = kinds_of_types::<A>();
        if declared != given {
            let message = format!(
                "expected arguments {}, got {}: use the types of the signature",
                displayed(&declared),
                displayed(&given)
            );
            let why = ArgumentError::new(ArgumentErrorKind::Type, message);
            return Err(*refused(self, why));
        }
        Ok(TypedKernel {
            kernel: self.clone(),
            types: PhantomData,
        })
    }
}

impl<A: ArgumentTypes> TypedKernel<A> {
    /// Runs the kernel with `count` cubes on `stream`, as [`Stream::launch`]. May block while there is no room for the
    /// task, unless the stream is a [`Stream::nowait`].
    ///
    /// # Errors
    /// Same as [`Stream::launch`], except for the number and the types of the arguments.
    #[inline]
    pub fn launch(
        &self,
        stream: &Stream,
        count: impl Into<CubeCount>,
        arguments: A::Given<'_>,
    ) -> Result<(), Error> {
        stream.launch(&self.kernel, count, self.arguments(arguments))
    }

    /// Returns arguments of these types, for calls that take a kernel and its arguments.
    #[inline]
    pub fn arguments<'a>(&self, given: A::Given<'a>) -> A::Arguments<'a> {
        A::arguments(given)
    }
}

impl<A: ArgumentTypes> Deref for TypedKernel<A> {
    type Target = KernelHandle;

    #[inline]
    fn deref(&self) -> &KernelHandle {
        &self.kernel
    }
}

impl<A: ArgumentTypes> Clone for TypedKernel<A> {
    fn clone(&self) -> Self {
        Self {
            kernel: self.kernel.clone(),
            types: PhantomData,
        }
    }
}

impl<A: ArgumentTypes> std::fmt::Debug for TypedKernel<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let types = displayed(&kinds_of_types::<A>());
        write!(f, "TypedKernel<{types}>({})", self.name())
    }
}
