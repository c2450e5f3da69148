//! A CUDA driver for tests, without a GPU.
//!
//! ```text
//!  a test ── Session ──► fake_cuda_*  ┐                       ┌ memory: reports races, uses after the end, leaks
//!     │                               ├─► State (one lock) ───┤ streams: queues of operations, in a seed's order
//!  the backend, unmodified ──► cu*    ┘          ▲            └ crate ptx: kernels, interpreted
//!                                                └── the "GPU": a thread that executes one operation at a time
//! ```
//! This package is two libraries of the same code. `libcuda.so` is what a backend loads instead of NVIDIA's driver; all
//! state is there. The other is linked into tests, which use [`Session`] alone of it: it looks up the controls of
//! the *loaded* library.
//!
//! | module | what |
//! | --- | --- |
//! | `session` | [`Session`]: what a test says to the fake |
//! | `control` | the other side of it, in the loaded library |
//! | `environment` | a session for programs that know nothing of the fake |
//! | `calls` | the driver's functions, by subject |
//! | `call` | what all of them do first: count, fault, look for a context |
//! | `gpu` | the "GPU": executes one operation at a time, on its thread or on one that waits |
//! | `execute` | what each operation does |
//! | `queue`, `capture`, `presence`, `leaks` | methods of the state that need several of its parts |
//! | `state` | all there is, under one lock |
//! | `stream` | operations in order, and which may be next |
//! | `graph` | graphs, what is made of them to be launched, and what captures remember |
//! | `operation` | what streams do |
//! | `event`, `time` | moments of streams, and when they were |
//! | `host_function` | functions of the host's in streams |
//! | `memory`, `access`, `pinned` | blocks of memory, who may touch them, and the host's in copies |
//! | `peer` | which GPU may use whose memory |
//! | `function` | functions, and what fits onto the GPU |
//! | `clock` | what happened before what |
//! | `chance` | what the seed chooses |
//! | `tensor_map` | [`TensorMap`]: what a tensor map says, and whether it may |

mod access;
mod call;
mod calls;
mod capture;
mod chance;
mod clock;
mod code;
mod control;
mod environment;
mod event;
mod execute;
mod function;
mod gpu;
mod graph;
mod host_function;
mod leaks;
mod memory;
mod operation;
mod peer;
mod pinned;
mod presence;
mod queue;
mod session;
mod state;
mod stream;
mod tensor_map;
mod time;

pub use session::{NotLoaded, Session};
pub use tensor_map::{Part, TensorMap};
