//! Arrays of other libraries that share memory with buffers, without a copy: DLPack, the buffer protocol, and the array
//! interface.
//!
//! ```text
//!  Buffer ──pin──► Pin (a guard of the runtime) ──► DLPack capsule ──► numpy.ndarray, torch.Tensor, ..
//!                                               ├─► view of the buffer protocol ──► memoryview, numpy.ndarray
//!                                               └─► MappedBuffer ──► all of these, and `__array_interface__`
//!  array of any library ──capsule──► DlTensor ──► upload that reads it in place
//! ```
//! # Lifetimes
//! A [`pin::Pin`] is a guard of [`millstream::Stream::get_resource`]. It is taken once all tasks have completed that write
//! the bytes (for a writable pin: that use them). Until it is dropped, the runtime holds tasks back that would write them,
//! and reuses no byte of them: the guard is a task that has not completed. Each export owns a reference to its pin, so the
//! pin lasts as long as its last consumer. The deleter of a capsule may run on any thread, attached or not: it drops Rust
//! values only.
//!
//! On CUDA the work of a consumer may run on after it has freed the array. So the pin is kept until the stream that the
//! consumer has passed to `__dlpack__` has completed its work; a thread waits for that ([`export`]). The consumer need not
//! wait for us: the tasks before the pin are complete.
//!
//! | module | contents |
//! | --- | --- |
//! | `abi` | the structs of DLPack, and the codes of element types |
//! | `origin` | what a buffer knows of its device: for pins, and to count them |
//! | `pin` | memory of a buffer that is kept for a consumer |
//! | `export`, `import` | capsules that we make, and capsules of others |
//! | `stall` | a warning for waits that a forgotten array may hold up |
//! | `view` | the buffer protocol |
//! | `mapped` | `MappedBuffer` |

pub(crate) mod abi;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod mapped;
pub(crate) mod origin;
pub(crate) mod pin;
pub(crate) mod stall;
pub(crate) mod view;
