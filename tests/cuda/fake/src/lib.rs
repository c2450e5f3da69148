//! A fake CUDA driver for tests, without a GPU.
//!
//! ```text
//!  a test ── Session ──► fake_cuda_*  ┐                       ┌ memory: reports races, uses after free, leaks
//!     │                               ├─► State (one lock) ───┤ streams: queues of operations, in an order of the seed
//!  the backend, unmodified ──► cu*    ┘          ▲            └ crate ptx: interprets kernels
//!                                                └── the "GPU": a thread that executes one operation at a time
//! ```
//! This package builds two libraries from the same code. A backend loads `libcuda.so` in place of NVIDIA's driver; all
//! state is there. The other library is linked into tests, which use only [`Session`]: it calls the control
//! functions of the *loaded* library.
//!
//! | module | contents |
//! | --- | --- |
//! | `session` | [`Session`]: the test's side of the controls |
//! | `loaded` | finds the library of this build, and calls its functions by name |
//! | `control` | the loaded library's side of the controls |
//! | `environment` | sessions for programs that are not tests |
//! | `calls` | the driver's functions, by subject |
//! | `call` | the common entry of all calls: counts, faults, the current context |
//! | `gpu` | the "GPU": executes one operation at a time, on its thread or on a waiting one |
//! | `execute` | the effect of each operation |
//! | `handles`, `queue`, `leaks` | methods that need several parts of the state |
//! | `state` | the whole state, under one lock |
//! | `stream` | streams: queues of operations, and which operation may run next |
//! | `capture` | captures of streams |
//! | `graph` | graphs and executable graphs |
//! | `operation` | the operations of streams |
//! | `event`, `time` | events, and the virtual clock |
//! | `native` | operations in native code, for the doubles of libraries |
//! | `memory`, `access`, `pinned` | blocks of memory, the race checker, and pinned memory in copies |
//! | `peer` | access to the memory of other GPUs |
//! | `function` | functions |
//! | `clock` | vector clocks: what happens before what |
//! | `rng` | the choices of the seed |
//! | `tensor_map` | [`TensorMap`]: the encoding of tensor maps, and their rules |

mod access;
mod call;
mod calls;
mod capture;
mod clock;
mod code;
mod control;
mod environment;
mod event;
mod execute;
mod function;
mod gpu;
mod graph;
mod handles;
mod leaks;
mod loaded;
mod memory;
mod native;
mod operation;
mod peer;
mod pinned;
mod queue;
mod rng;
mod session;
mod state;
mod stream;
mod tensor_map;
mod time;

pub use session::{NotLoaded, Session};
pub use tensor_map::{Part, TensorMap};
