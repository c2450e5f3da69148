//! A prepared kernel whose arguments the compiler checks.

use std::marker::PhantomData;
use std::ops::Deref;

use millstream_protocol::error::{Error, LaunchError};

use crate::arguments::{ArgumentTypes, CubeCount, kinds_of, kinds_of_types};
use crate::{KernelHandle, Stream};

/// A prepared kernel whose arguments have types that the compiler knows. [`KernelHandle::typed`] makes it, once.
///
/// A launch gives a handle for each binding, whose access the type says, and a number for each scalar, whose width the compiler
/// infers. It costs what [`Stream::launch`] costs, and no more is checked.
///
/// ```
/// # use millstream_client::{KernelHandle, Recording, Stream};
/// # use millstream_protocol::error::Error;
/// # use millstream_client::handle::Handle;
/// use millstream_client::arguments::{CubeCount, Read, Write};
/// # fn f(stream: &Stream, scale: &KernelHandle, x: &Handle<f32>, y: &Handle<f32>) -> Result<Recording, Error> {
/// let scale = scale.typed::<(Read<f32>, Write<f32>, f32)>()?;
/// scale.launch(stream, CubeCount::cover(x.len(), 256), (x, y, 3.0))?; // an f32
/// // It is a kernel as any other, with arguments for calls that take those:
/// stream.record(|recorder| recorder.launch(&scale, 4, scale.arguments((x, y, 0.5))))
/// # }
/// ```
///
/// A scalar of another width does not compile, nor does a handle of other elements:
///
/// ```compile_fail,E0308
/// # use millstream_client::{Stream, TypedKernel};
/// # use millstream_protocol::error::Error;
/// # use millstream_client::handle::Handle;
/// # use millstream_client::arguments::{Read, Write};
/// # type Scale = TypedKernel<(Read<f32>, Write<f32>, f32)>;
/// # fn f(stream: &Stream, scale: &Scale, x: &Handle<f32>, y: &Handle<f32>) -> Result<(), Error> {
/// scale.launch(stream, 4, (x, y, 3_u32))
/// # }
/// ```
/// ```compile_fail,E0308
/// # use millstream_client::{Stream, TypedKernel};
/// # use millstream_protocol::error::Error;
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
    /// The kernel with the types of its arguments, for launches that the compiler checks.
    ///
    /// # Errors
    /// [`LaunchError::Types`] when the signature declares others. The sentence has those of the signature, to be written.
    pub fn typed<A: ArgumentTypes>(&self) -> Result<TypedKernel<A>, Error> {
        let declared = kinds_of(self.kernel.signature());
        let given = kinds_of_types::<A>();
        if declared != given {
            let (task, why) = (self.name().clone(), LaunchError::Types { declared, given });
            return Err(Error::Launch { task, why });
        }
        Ok(TypedKernel {
            kernel: self.clone(),
            types: PhantomData,
        })
    }
}

impl<A: ArgumentTypes> TypedKernel<A> {
    /// Runs the kernel with `count` cubes on `stream`, as [`Stream::launch`]. May wait for room in the mailbox; through
    /// [`Stream::nowait`] it does not.
    ///
    /// # Errors
    /// As [`Stream::launch`], but for the number and the types of the arguments.
    #[inline]
    pub fn launch(
        &self,
        stream: &Stream,
        count: impl Into<CubeCount>,
        arguments: A::Given<'_>,
    ) -> Result<(), Error> {
        stream.launch(&self.kernel, count, self.arguments(arguments))
    }

    /// Arguments of these types, for calls that take the kernel and its arguments.
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
        write!(f, "TypedKernel<{}>({})", kinds_of_types::<A>(), self.name())
    }
}
