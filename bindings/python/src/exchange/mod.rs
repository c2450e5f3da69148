//! The forms in which libraries share arrays: DLPack, and the buffer protocol.
//!
//! ```text
//!  Buffer ──pin──► Pin (a guard of the runtime) ──► DLPack capsule ──► numpy.ndarray, torch.Tensor, ..
//!                                               ├─► view of the buffer protocol ──► memoryview, numpy.ndarray
//!                                               └─► MappedBuffer ──► all of these, and `__array_interface__`
//!  array of any library ──capsule──► DlTensor ──► upload that reads it in place
//! ```
//! The right side of a buffer is in `buffer`: its pins, exports and maps. Here is what does not know buffers.
//!
//! | module | contents |
//! | --- | --- |
//! | `abi` | the structs of DLPack, and the codes of element types |
//! | `import` | capsules of other libraries |
//! | `origin` | what a buffer knows of its device: for pins, and to count them |
//! | `stall` | a warning for waits that a forgotten array may hold up |

pub(crate) mod abi;
pub(crate) mod import;
pub(crate) mod origin;
pub(crate) mod stall;
