//! The network of `examples/digits`, trained by the members of groups: each has all parameters, and a part of each
//! batch.
//!
//! Nothing here depends on where the members are: they may be the devices of one process, or one device of each rank of
//! a network.
//!
//! ```text
//!  each member                                              group LAST            group FIRST
//!  forward, and backward through the last layer ──► bucket ──► all_reduce
//!  backward through the first layer ──► bucket ─────────────────── │ ──────────────► all_reduce
//!  update of the last layer ◄──────────────────────────────────────┘                     │
//!  update of the first layer ◄───────────────────────────────────────────────────────────┘
//! ```
//! A *bucket* holds the gradients of one layer in one piece, so that one call reduces them. The bucket of the last layer
//! is reduced while the devices compute the gradients of the first one. Each bucket has a group of its own, so that its
//! reduction does not wait for the other one either. A step submits all of that, and waits for none of it.
//!
//! The gradients are sums over images, and the update divides them by the images of the batch: the sum over all members
//! is that of one device with the whole batch, except for the order of its terms.

mod member;
#[path = "../../../../../examples/digits/model.rs"]
pub mod model;
pub mod options;
pub mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::{Handle, Pending};
use millstream_cluster::{Group, Reduction};

use member::{Member, Passed};
use model::{Images, Order};

/// The error of the program.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The number of buckets: one for each layer.
pub const BUCKETS: usize = 2;
/// The bucket of the first layer, which is computed last.
pub const FIRST: usize = 0;
/// The bucket of the last layer, and of the loss.
pub const LAST: usize = 1;

/// A network in training. Every rank makes the same calls.
pub struct Training {
    /// The group that reduces each bucket.
    groups: [Group; BUCKETS],
    members: Vec<Member>,
    images: Arc<Images>,
    /// The images of a step.
    batch: usize,
}

/// A step whose backward pass has been submitted through the last layer.
pub struct Begun(Vec<Passed>);

/// The results of a round.
pub struct Round {
    /// The mean loss over the images, of the parameters before each step.
    pub loss: f64,
    /// The number of test images guessed right after the round.
    pub right: u64,
    /// The number of images learnt.
    pub images: usize,
    /// From the first submission to the loss of the last step.
    pub time: Duration,
}

impl Training {
    /// Creates the parameters of rank 0 on all members. The groups have the same members. A step learns `batch` images.
    ///
    /// # Errors
    /// Groups with different members; more ranks than images of a batch; no memory.
    pub fn new(
        groups: [Group; BUCKETS],
        batch: usize,
        images: impl Into<Arc<Images>>,
        tests: &Images,
    ) -> Result<Self, Failure> {
        let group = &groups[FIRST];
        let (ranks, locals) = (group.len(), group.local_ranks());
        let others = &groups[LAST];
        if (others.len(), others.local_ranks()) != (ranks, locals.clone()) {
            return Err("the groups of the buckets have different members".into());
        }
        if ranks > batch {
            let text =
                format!("{ranks} ranks need batches of at least {ranks} images, got {batch}");
            return Err(text.into());
        }
        let member = |(local, rank)| Member::new(group.stream(local), (rank, ranks), batch, tests);
        let members: Vec<_> = locals.enumerate().map(member).collect::<Result<_, _>>()?;
        for (bucket, group) in groups.iter().enumerate() {
            let parameters = members.iter().map(|it| &it.buckets[bucket].parameters);
            group.broadcast(0, &parameters.collect::<Vec<_>>())?;
        }
        Ok(Self {
            groups,
            members,
            images: images.into(),
            batch,
        })
    }

    /// Submits a step, and waits for nothing. Returns its loss, summed over the images of the batch, before the update.
    ///
    /// # Errors
    /// A device that is closed or lost.
    pub fn step(&self, batch: &[usize], rate: f32) -> Result<Pending<Vec<f32>>, Failure> {
        let begun = self.backward_last(batch)?;
        self.backward_first(begun)?;
        self.update(rate)
    }

    /// Submits the forward pass, the backward pass through the last layer, and the reduction of its gradients.
    ///
    /// # Errors
    /// As [`Training::step`].
    pub fn backward_last(&self, batch: &[usize]) -> Result<Begun, Failure> {
        let parts = self.members.iter();
        let parts = parts.map(|member| member.backward_last(&self.images, batch));
        let begun = Begun(parts.collect::<Result<_, _>>()?);
        self.reduce(LAST)?;
        Ok(begun)
    }

    /// Submits the backward pass through the first layer, and the reduction of its gradients.
    ///
    /// # Errors
    /// As [`Training::step`].
    pub fn backward_first(&self, begun: Begun) -> Result<(), Failure> {
        for (member, passed) in self.members.iter().zip(&begun.0) {
            member.backward_first(passed)?;
        }
        self.reduce(FIRST)
    }

    /// Submits the updates of both layers. Returns the loss of the step.
    ///
    /// # Errors
    /// As [`Training::step`].
    pub fn update(&self, rate: f32) -> Result<Pending<Vec<f32>>, Failure> {
        // Before the updates: the next step overwrites the loss.
        let loss = self.members[0].loss();
        for bucket in [LAST, FIRST] {
            for member in &self.members {
                member.update(bucket, rate)?;
            }
        }
        Ok(loss)
    }

    /// Submits the reduction of a bucket.
    fn reduce(&self, bucket: usize) -> Result<(), Failure> {
        let gradients = self.members.iter().map(|it| &it.buckets[bucket].gradients);
        let gradients: Vec<_> = gradients.collect();
        self.groups[bucket].all_reduce(Reduction::Sum, &gradients)?;
        Ok(())
    }

    /// Submits the guesses of all test images, each member's part on its device. Returns the number of right ones on
    /// all ranks.
    ///
    /// # Errors
    /// As [`Training::step`].
    pub fn guess(&self) -> Result<Pending<Vec<i64>>, Failure> {
        let right = self.members.iter().map(Member::guess);
        let right: Vec<_> = right.collect::<Result<_, _>>()?;
        let counts: Vec<_> = right.iter().collect();
        self.groups[FIRST].all_reduce(Reduction::Sum, &counts)?;
        Ok(self.members[0].stream.read(&right[0]))
    }

    /// Trains for a pass over the images, and waits for its results.
    ///
    /// # Errors
    /// The failure of a step on any rank.
    pub fn round(&self, order: &mut Order, round: usize) -> Result<Round, Failure> {
        let start = Instant::now();
        let steps = order.shuffle(self.batch);
        let steps = steps.map(|batch| self.step(batch, model::rate(round)));
        let losses: Vec<_> = steps.collect::<Result<_, _>>()?;
        let images = losses.len() * self.batch;
        let mut sum = 0.0;
        for loss in losses {
            sum += f64::from(loss.wait()?[0]);
        }
        let time = start.elapsed();
        Ok(Round {
            loss: sum / images as f64,
            right: self.guess()?.wait()?[0] as u64,
            images,
            time,
        })
    }

    /// Returns the parameters of each layer, of each member of this process.
    pub fn parameters(&self) -> impl Iterator<Item = [&Handle<f32>; BUCKETS]> {
        let members = self.members.iter();
        members.map(|member| member.buckets.each_ref().map(|bucket| &bucket.parameters))
    }
}
