//! The ranks of MPI as the members of a [`Group`](millstream_cluster::Group): collectives over many hosts that are tasks
//! of streams.
//!
//! ```no_run
//! use millstream::{Cpu, Device};
//! use millstream_cluster::{Fleet, Reduction};
//! use millstream_mpi::World;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = World::init()?;
//! let fleet = Fleet::new([Device::open(Cpu::default())?])?;
//! let group = world.group(&fleet, 0)?;
//! let stream = group.stream(0);
//! let values = stream.create(&[world.rank() as f32; 4])?;
//! group.all_reduce(Reduction::Sum, &[&values])?;
//! println!("rank {}: {:?}", world.rank(), stream.read(&values).wait()?);
//! # Ok(())
//! # }
//! ```
//! Start it with `mpirun -n 4 PROGRAM`.
//!
//! # Threads
//!
//! One thread at a time calls MPI, and all calls are non-blocking. The threads of a device never wait for other ranks, so
//! kernels run while bytes travel. While a call is in flight a thread polls MPI, which has no other way to make progress,
//! and yields between polls: a thread that waits for the device of a group, if there is one, otherwise the thread that
//! [`World::init`] starts, which sleeps without calls.
//!
//! # Order
//!
//! Every rank makes the same calls of a group, in the same order. Before any output is written, the ranks compare what they
//! called; in groups of up to 16 ranks the bytes of calls of up to 1 KiB travel with that. If it differs, the outputs of all ranks are poisoned with
//! [`Remote::Mismatch`](millstream::error::Remote::Mismatch), which names the two calls and their places in the source. Threads
//! that call collectives at the same time use a group each: calls of different groups may begin in any order on any rank.
//!
//! A rank that does not make a call leaves the others waiting. [`World::waiting`] says which call waits for which ranks, and
//! so does a warning after 10 seconds.
//!
//! # Ranks that end
//!
//! If MPI can report it (Open MPI 5 under `mpirun --with-ft ulfm`), the end of a rank fails the calls of all groups that
//! it belongs to with [`Remote::Ended`](millstream::error::Remote::Ended). Everything else goes on, and [`World::survivors`]
//! makes a world of the ranks that are left. Otherwise `mpirun` ends all ranks.
//!
//! MPI notices ranks that are killed. It notices a rank that exits or hangs only with its heartbeat:
//! `--mca mpi_ft_detector true --mca mpi_ft_detector_thread true`. A [`World`] that is dropped by a panic ends its process
//! with `abort`, so that the other ranks learn of it.
//!
//! # Memory of CUDA devices
//!
//! In groups of one device for each rank, MPI accesses the memory of a CUDA device in the calls that accept it: if
//! `MPIX_Query_cuda_support` returns 1, in sends and receives, and with other MPIs than Open MPI in collectives as well. Otherwise a broadcast and a transfer of more than 1 MiB is cut into pieces, as all-reduces of data on the host are, on
//! all ranks if one of them needs it, so that copies and messages overlap. All other data passes through the host as a whole. The
//! variable `MILLSTREAM_MPI_CUDA` replaces what MPI answers: `none`, `transfers`, `all`. Nothing of that has run on hardware.
//!
//! # Floating point
//!
//! Calls of up to 1 KiB in groups of up to 16 ranks combine the elements in the order of the ranks. For others the order is
//! that of MPI's algorithm for the size and the number of ranks, with all-reduces cut into pieces of 1 MiB. All ranks receive the
//! same bits; other numbers of ranks may round differently.

mod aware;
mod check;
mod comm;
mod element;
mod engine;
mod failures;
mod forming;
mod group;
mod inquiry;
mod job;
mod lane;
mod link;
mod moving;
mod network;
mod part;
mod pieces;
mod raw;
mod text;
mod transfer;
mod waiting;
mod world;

pub use raw::MpiError;
pub use waiting::Waiting;
pub use world::World;
