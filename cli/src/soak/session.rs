//! One client's life: it opens streams and buffers, does one step after another as its dice choose, and knows what
//! every buffer must hold.

use std::sync::Arc;

use millstream::{
    CancelToken, ComputeClient, CubeCount, Error, Handle, Kernel, KernelHandle, MemoryError,
    Priority, Stream, update,
};

use super::asks::{self, End};
use super::dice::Dice;
use super::model::{Excuses, Expected, ON_PURPOSE, Pattern};
use super::tally::{Count, Tally};
use super::worker::Ground;

/// Buffers that one session has at most.
const BUFFERS_MAX: usize = 12;

/// The kernels of a client, prepared for it.
pub(crate) struct Kernels {
    pub(super) add: KernelHandle,
    pub(super) mix: KernelHandle,
    pub(super) panic: KernelHandle,
}

impl Kernels {
    pub(crate) fn new(client: &ComputeClient) -> Result<Self, Error> {
        let add = Kernel::new("add")
            .updates::<u32>("values")
            .scalar::<u32>("by")
            .native(|_, args| {
                let by: u32 = args.scalar(0);
                let values = args.chunk::<u32>(0).iter_mut();
                values.for_each(|value| *value = value.wrapping_add(by));
            });
        let mix = Kernel::new("mix")
            .reads::<u32>("left")
            .reads::<u32>("right")
            .writes::<u32>("sum")
            .native(|_, args| {
                let start = args.chunk_start(2);
                let inputs = args.read::<u32>(0)[start..].iter();
                let inputs = inputs.zip(&args.read::<u32>(1)[start..]);
                for (sum, (left, right)) in args.chunk::<u32>(2).iter_mut().zip(inputs) {
                    *sum = left.wrapping_add(*right);
                }
            });
        let panic = Kernel::new("panic")
            .updates::<u32>("values")
            .native(|_, _| panic!("{ON_PURPOSE}"));
        Ok(Self {
            add: client.kernel(add)?,
            mix: client.kernel(mix)?,
            panic: client.kernel(panic)?,
        })
    }
}

/// Adds to every element.
pub(crate) fn add(
    stream: &Stream,
    kernels: &Kernels,
    buffer: &Handle<u32>,
    by: u32,
    cubes: u32,
) -> Result<(), Error> {
    stream.launch(&kernels.add, CubeCount::d1(cubes), (update(buffer), by))
}

pub(super) struct Buffer {
    pub(super) handle: Handle<u32>,
    pub(super) expected: Expected,
    /// How its memory itself may have failed to come.
    birth: Excuses,
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        self.handle.len()
    }
}

/// One client at work.
pub(crate) struct Session<'a> {
    pub(super) ground: &'a Ground,
    pub(super) client: ComputeClient,
    pub(super) limited: bool,
    pub(super) kernels: Kernels,
    pub(super) streams: Vec<Stream>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) tokens: Vec<CancelToken>,
}

pub(super) type Stepped = Result<(), End>;

impl<'a> Session<'a> {
    /// A client with limits, priority and weight of its own.
    pub(crate) fn open(ground: &'a Ground, dice: &mut Dice) -> Result<Self, End> {
        let priorities = [Priority::Low, Priority::Normal, Priority::High];
        let mut builder = ground
            .device
            .client_builder()
            .name(format!("soak {}", dice.below(1000)))
            .priority(priorities[dice.below(3)])
            .weight(1 + dice.below(4) as u32);
        let limited = dice.one_in(3);
        if limited {
            builder = builder.hard_limit(ground.limit_bytes());
        }
        if dice.one_in(3) {
            builder = builder.max_tasks(1 + dice.below(16) as u64);
        }
        if dice.one_in(3) {
            builder = builder.max_upload_bytes(1 + dice.below(100_000) as u64);
        }
        let client = builder.build();
        ground.tally.one(Count::Clients);
        let kernels = Kernels::new(&client).map_err(|error| ground.refused("kernel", &error))?;
        let mut session = Self {
            ground,
            client,
            limited,
            kernels,
            streams: Vec::new(),
            buffers: Vec::new(),
            tokens: Vec::new(),
        };
        session.open_stream();
        Ok(session)
    }

    pub(super) fn open_stream(&mut self) {
        self.ground.tally.one(Count::Streams);
        self.streams.push(self.client.new_stream());
    }

    /// Waits for everything, and drops it.
    pub(crate) fn close(self, dice: &mut Dice) -> Stepped {
        let tally = &self.ground.tally;
        let synced = asks::answer(tally, dice, "client sync", self.client.sync())?;
        synced.map_err(|error| self.refused("client sync", error))?;
        for token in &self.tokens {
            let told = token.tally();
            tally.add(Count::Terms, told.accepted);
            if told.accepted != told.finished + told.withdrawn {
                tally.is_wrong(format!("a token lost count of its tasks: {told:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn tally(&self) -> &Arc<Tally> {
        &self.ground.tally
    }

    pub(super) fn refused(&self, what: &str, error: Error) -> End {
        self.ground.refused(what, &error)
    }

    pub(super) fn stream(&self, dice: &mut Dice) -> Stream {
        self.streams[dice.below(self.streams.len())].clone()
    }

    pub(super) fn pattern(dice: &mut Dice) -> Pattern {
        Pattern {
            base: dice.next() as u32,
            stride: dice.next() as u32,
        }
    }

    pub(super) fn any(&self, dice: &mut Dice) -> usize {
        dice.below(self.buffers.len())
    }

    /// What a task that defines all of buffer `at` leaves behind.
    pub(super) fn define(&mut self, at: usize, pattern: Pattern, excuses: Excuses) {
        let buffer = &mut self.buffers[at];
        buffer.expected = Expected::defined(pattern, buffer.birth.and(excuses));
    }

    /// What a task that adds to buffer `at` leaves behind.
    pub(super) fn added(&mut self, at: usize, base: u32, excuses: Excuses) {
        let buffer = &mut self.buffers[at];
        let by = Pattern { base, stride: 0 };
        buffer.expected = buffer.expected.changed(by, excuses);
    }

    /// Keeps a buffer that was made; a client's limit is no error where it has one.
    pub(super) fn keep(
        &mut self,
        dice: &mut Dice,
        made: Result<Handle<u32>, Error>,
        expected: Expected,
        birth: Excuses,
    ) -> Result<bool, End> {
        let handle = match made {
            Ok(handle) => handle,
            Err(Error::Memory(MemoryError::Limit { limit, .. }))
                if self.limited && limit == self.ground.limit_bytes() =>
            {
                self.tally().one(Count::Limits);
                return Ok(false);
            }
            Err(error) => return Err(self.refused("create", error)),
        };
        self.tally().one(Count::Buffers);
        self.tally().add(Count::Bytes, handle.size());
        if self.buffers.len() == BUFFERS_MAX {
            let old = self.any(dice);
            self.buffers.swap_remove(old);
        }
        let birth = birth.and(self.ground.excuses);
        let expected = Expected {
            excuses: expected.excuses.and(birth),
            ..expected
        };
        self.buffers.push(Buffer {
            handle,
            expected,
            birth,
        });
        Ok(true)
    }
}
