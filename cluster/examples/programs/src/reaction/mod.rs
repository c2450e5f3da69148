//! Reaction and diffusion of two substances on a torus (Gray and Scott, 1984) over the members of a group.
//!
//! The domain is cut into strips of rows, one for each rank. A strip has a halo row at each end: a copy of its
//! neighbour's edge row. Nothing here depends on where the members are: they may be the devices of one process, or one
//! device of each rank of a network.
//!
//! ```text
//!  row 0          halo       ◄── receive, the neighbour's last row
//!  row 1          first row  ──► send
//!  rows 2 ..      interior       needs no halo: computed while the halos travel
//!  row n          last row   ──► send
//!  row n + 1      halo       ◄── receive, the neighbour's first row
//! ```
//! A step reads one buffer and writes the other. It submits its sends, its receives and three launches, and waits for
//! none of them. Each task names the rows that it touches, and the devices derive the order from that: the edge rows of
//! the next buffer come after the halos of this one, and the interior does not.

mod domain;
mod equations;
mod member;
pub mod overlap;
pub mod picture;

use millstream::{Handle, Pending};
use millstream_cluster::Group;

pub use domain::Domain;
#[allow(unused_imports, reason = "not every includer sets its cost")]
pub use equations::NAME as KERNEL;
use member::Member;

/// The error of the program.
pub type Failure = Box<dyn std::error::Error>;

/// Which tasks a step submits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tasks {
    /// All of them.
    Step,
    /// The launches alone: to measure them. The halos keep what they hold.
    Launches,
    /// The exchange of the halos alone: to measure it. Each exchange sends what the one before has received, so that
    /// it waits for that.
    Exchange,
}

/// A simulation on the members of a group. Every rank makes the same calls.
pub struct Reaction {
    group: Group,
    domain: Domain,
    members: Vec<Member>,
    /// The number of steps submitted so far, of any tasks.
    steps: usize,
    /// The index of the buffers that hold the newest step.
    now: usize,
}

/// The end of the steps that had been submitted at some time, on the members of this process.
pub struct Mark(Vec<Pending<Vec<f32>>>);

impl Mark {
    /// Waits for it.
    ///
    /// # Errors
    /// The failure of a step.
    pub fn wait(self) -> Result<(), Failure> {
        for edge in self.0 {
            edge.wait()?;
        }
        Ok(())
    }
}

impl Reaction {
    /// Fills the strips of the members of this process.
    ///
    /// # Errors
    /// A rank without a row; no memory.
    pub fn new(group: &Group, domain: Domain) -> Result<Self, Failure> {
        Self::with(group, domain, true)
    }

    /// Allocates the strips of the members of this process, for runs whose data does not matter.
    ///
    /// # Errors
    /// As [`Reaction::new`].
    pub fn unfilled(group: &Group, domain: Domain) -> Result<Self, Failure> {
        Self::with(group, domain, false)
    }

    fn with(group: &Group, domain: Domain, is_filled: bool) -> Result<Self, Failure> {
        let (ranks, rows) = (group.len(), domain.rows);
        if domain.columns == 0 || rows < ranks {
            let text = format!("{ranks} ranks need at least {ranks} rows, got {rows}");
            return Err(text.into());
        }
        let locals = group.local_ranks().enumerate();
        let members = locals.map(|(local, rank)| {
            let strip = domain.strip(rank, ranks);
            Member::new(group.stream(local), domain, rank, strip, is_filled)
        });
        Ok(Self {
            group: group.clone(),
            domain,
            members: members.collect::<Result<_, _>>()?,
            steps: 0,
            now: 0,
        })
    }

    /// Submits some steps, and waits for none.
    ///
    /// # Errors
    /// A device that is closed or lost.
    pub fn submit(&mut self, tasks: Tasks, steps: usize) -> Result<(), Failure> {
        for _ in 0..steps {
            if tasks != Tasks::Launches {
                for member in &self.members {
                    let is_backwards = tasks == Tasks::Exchange && self.steps % 2 == 1;
                    member.exchange(&self.group, self.now, is_backwards)?;
                }
            }
            if tasks != Tasks::Exchange {
                for member in &self.members {
                    member.compute(self.now)?;
                }
                self.now = 1 - self.now;
            }
            self.steps += 1;
        }
        Ok(())
    }

    /// Returns the end of the steps so far.
    pub fn mark(&self) -> Mark {
        let members = self.members.iter();
        Mark(members.flat_map(|member| member.edges(self.now)).collect())
    }

    /// Returns the strips of the members of this process, with both fields, after the steps so far.
    pub fn strips(&self) -> impl Iterator<Item = &Handle<f32>> {
        self.members.iter().map(|member| member.strip(self.now))
    }

    /// Sends the strips to rank 0. There it waits for them, and returns the second substance row by row; elsewhere it
    /// waits for nothing and returns `None`.
    ///
    /// # Errors
    /// The failure of a step on any rank.
    pub fn gather(&self) -> Result<Option<Vec<f32>>, Failure> {
        let others = self.members.iter().filter(|member| member.rank > 0);
        for member in others {
            self.group.send(0, member.strip(self.now))?;
        }
        let Some(root) = self.members.iter().find(|member| member.rank == 0) else {
            return Ok(None);
        };
        let mut strips = vec![root.stream.read(root.strip(self.now))];
        for rank in 1..self.group.len() {
            let rows = self.domain.strip(rank, self.group.len()).len();
            let buffer = root.stream.empty(rows * self.domain.row_len())?;
            self.group.receive(rank, &buffer)?;
            strips.push(root.stream.read(&buffer));
        }
        let mut second = Vec::with_capacity(self.domain.cells());
        for strip in strips {
            second.extend(self.domain.second(&strip.wait()?));
        }
        Ok(Some(second))
    }
}
