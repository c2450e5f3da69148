//! All ranks that MPI has started.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use millstream_cluster::{Fleet, Group};

use crate::engine::Command;
use crate::link::Link;
use crate::network::MpiNetwork;
use crate::raw::{DEVICES_MAX, MpiError};
use crate::waiting::Waiting;

/// MPI is initialized at most once in a process.
static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// The ranks that `mpirun` started. A process has one.
///
/// A drop waits for the calls in flight, at most 10 seconds, and finalizes MPI, which waits for the other ranks. A panic that
/// drops the world, or the fleet of one of its groups, ends the process with `abort`: otherwise MPI may not notice that
/// this rank has ended.
pub struct World {
    rank: usize,
    size: usize,
    engine: Arc<Link>,
    thread: Option<JoinHandle<()>>,
}

impl World {
    /// Initializes MPI, and starts the thread that makes its calls.
    ///
    /// # Errors
    /// [`MpiError::Initialized`], [`MpiError::Thread`], [`MpiError::Call`].
    pub fn init() -> Result<Self, MpiError> {
        // Relaxed: nothing else depends on it.
        if INITIALIZED.swap(true, Ordering::Relaxed) {
            return Err(MpiError::Initialized);
        }
        let (reply, answer) = bounded(1);
        let run = move || {
            Link::run(|started| {
                // The receiver waits.
                let _ = reply.send(started);
            });
        };
        let thread = std::thread::Builder::new().name("millstream-mpi".to_owned());
        let thread = thread
            .spawn(run)
            .map_err(|error| MpiError::Thread(error.to_string()))?;
        let (engine, rank, size) = answer.recv().unwrap_or_else(|_| Err(ended()))?;
        Ok(Self {
            rank,
            size,
            engine,
            thread: Some(thread),
        })
    }

    /// Returns the rank of this process, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Makes a group of all ranks, with one device each: here `device` of `fleet`. Waits for all ranks, which make their
    /// groups in the same order. Threads that call collectives at the same time use a group each.
    ///
    /// # Errors
    /// [`MpiError::RankEnded`], [`MpiError::Call`], [`MpiError::Cluster`] if there is no such device.
    pub fn group(&self, fleet: &Fleet, device: usize) -> Result<Group, MpiError> {
        self.group_of(fleet, &[device])
    }

    /// Makes a group of all ranks, with several devices each: here those of `fleet` with these numbers, of which every rank
    /// lists as many. Waits as [`World::group`].
    ///
    /// # Errors
    /// As [`World::group`].
    pub fn group_of(&self, fleet: &Fleet, devices: &[usize]) -> Result<Group, MpiError> {
        self.form(None, (self.rank, self.size), fleet, devices)
    }

    /// Makes a group of some ranks, such as a row of a grid. Only they call it, with the same list; their ranks in the group
    /// are its order. `devices` are those of this rank, as in [`World::group_of`]. Waits for the listed ranks.
    ///
    /// The groups of a rank are made one after the other. So ranks that make several groups make them in one order: if a
    /// rank makes the groups `{0, 1}` and `{1, 2}`, it makes that one first which the others make first, too. After a rank
    /// has ended, MPI makes no group of the others: make a world of the [survivors](World::survivors) first. If a rank, listed
    /// or not, ends in the moment after the listed ranks have met, MPI's call that makes the communicator may block for ever,
    /// and with it all calls of this rank.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use millstream_cluster::{Fleet, Reduction};
    /// # let world = millstream_mpi::World::init()?;
    /// # let fleet = Fleet::new([millstream::Device::open(millstream::Cpu::default())?])?;
    /// // A grid of ranks with 4 columns: a group for the row of this rank.
    /// let first = world.rank() / 4 * 4;
    /// let row: Vec<usize> = (first..first + 4).collect();
    /// let group = world.group_of_ranks(&row, &fleet, &[0])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MpiError::NoRank`], [`MpiError::RankTwice`], [`MpiError::NotListed`]; [`MpiError::Lists`] if the ranks that meet
    /// list different ranks; otherwise as [`World::group`].
    pub fn group_of_ranks(
        &self,
        ranks: &[usize],
        fleet: &Fleet,
        devices: &[usize],
    ) -> Result<Group, MpiError> {
        let mut listed = vec![false; self.size];
        for &rank in ranks {
            let seen = listed.get_mut(rank);
            let seen = seen.ok_or(MpiError::NoRank {
                rank,
                ranks: self.size,
            })?;
            if std::mem::replace(seen, true) {
                return Err(MpiError::RankTwice { rank });
            }
        }
        let place = ranks.iter().position(|rank| *rank == self.rank);
        let place = place.ok_or(MpiError::NotListed { rank: self.rank })?;
        self.form(Some(ranks.to_vec()), (place, ranks.len()), fleet, devices)
    }

    fn form(
        &self,
        ranks: Option<Vec<usize>>,
        (rank, size): (usize, usize),
        fleet: &Fleet,
        devices: &[usize],
    ) -> Result<Group, MpiError> {
        // The list is checked before the other ranks wait for this one.
        if devices.len() > DEVICES_MAX {
            return Err(MpiError::Devices {
                devices: devices.len(),
            });
        }
        fleet.group_of(devices)?;
        let group = self.ask(|reply| Command::Form(ranks, devices.len(), reply))?;
        let network = MpiNetwork {
            rank,
            size,
            group,
            next: AtomicU64::new(0),
            engine: self.engine.clone(),
            is_helped: AtomicBool::new(false),
        };
        Ok(fleet.group_over_all(Arc::new(network), devices)?)
    }

    /// Returns the calls of this rank that wait, and the ranks for which they wait: to find out why a program hangs. Asks the
    /// other ranks, which takes a second if one of them has no call in flight.
    ///
    /// The same is logged as a warning of `tracing` after a wait of 10 seconds ([`World::report_after`]): of a transfer by its
    /// rank; of a collective by the first two ranks of its group, if their data is ready, after twice the time by the first
    /// four, and so on.
    ///
    /// # Errors
    /// [`MpiError::Thread`].
    pub fn waiting(&self) -> Result<Vec<Waiting>, MpiError> {
        self.ask(Command::Waiting)
    }

    /// Sets how long a call waits, without progress of any call of its group, before a warning says what it waits for;
    /// after twice that time there is another one, and so on.
    pub fn report_after(&self, time: Duration) {
        self.engine.send(Command::ReportAfter(time));
    }

    /// Makes a world of the ranks that are left, after a rank has ended. All of them call it. Their numbers change, and
    /// their order stays. Waits for the others.
    ///
    /// # Errors
    /// [`MpiError::NoSurvivors`] if this MPI cannot do that; [`MpiError::Call`].
    pub fn survivors(mut self) -> Result<Self, MpiError> {
        (self.rank, self.size) = self.ask(Command::Survive)?;
        Ok(self)
    }

    fn ask<T>(
        &self,
        command: impl FnOnce(Sender<Result<T, MpiError>>) -> Command,
    ) -> Result<T, MpiError> {
        let (reply, answer) = bounded(1);
        self.engine.send(command(reply));
        answer.recv().unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> MpiError {
    MpiError::Thread("it has ended".to_owned())
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
        self.engine.send(Command::End);
        if let Some(thread) = self.thread.take() {
            // A panic of the engine was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World(rank {} of {})", self.rank, self.size)
    }
}
