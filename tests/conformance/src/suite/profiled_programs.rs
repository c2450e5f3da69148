//! Random programs under random profiles: a profile counts exactly the tasks that its streams were given while it was open.

use std::collections::BTreeMap;

use millstream::{Pending, Profile, ProfileToken};
use millstream_testkit::{Dice, Program, Submitted};

use crate::program::{ground, or_message, infallible_kernels};
use crate::support::*;

/// Programs, each on a device of its own, and the steps of one.
const PROGRAMS: u64 = 24;
const STEPS: usize = 80;
/// Steps of the one program of a device that takes long to open.
const STEPS_LONG: usize = 300;
/// Most profiles that are open at a time.
const OPEN_MAX: usize = 6;

/// Which tasks a profile is of.
#[derive(Clone, Debug)]
enum Scope {
    /// Those of these streams, by their numbers.
    Streams(Vec<u32>),
    /// Those of all streams of one client.
    Client(usize),
    /// Those of the device.
    Device,
}

impl Scope {
    fn has(&self, task: &Submitted) -> bool {
        match self {
            Self::Streams(streams) => streams.contains(&task.stream),
            Self::Client(client) => *client == task.client,
            Self::Device => true,
        }
    }
}

/// Tasks by name.
type Counts = BTreeMap<String, u64>;

/// A profile that has not ended, and the tasks that it must count so far.
struct Open {
    token: ProfileToken,
    scope: Scope,
    counts: Counts,
}

/// A random program whose streams are profiled.
struct Profiled<'a> {
    rig: &'a Rig,
    program: Program,
    dice: Dice,
    open: Vec<Open>,
    ended: Vec<(Pending<Profile>, Counts)>,
}

impl<'a> Profiled<'a> {
    fn new(on: On, rig: &'a Rig, seed: u64) -> Self {
        let mut dice = Dice::new(seed, 0);
        let ground = ground(on);
        let clients = vec![rig.client(), rig.client()];
        let kernels = infallible_kernels(&clients[0]);
        let tally = ground.tally.clone();
        let made = Program::new(ground, clients, kernels, &mut dice);
        Self {
            rig,
            program: or_message(&tally, made).unwrap(),
            dice,
            open: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Some tasks are held when a profile starts, and issued while it is open.
    fn step(&mut self) {
        match self.dice.below(8) {
            0 if self.open.len() < OPEN_MAX => self.start(),
            1 if !self.open.is_empty() => self.end(),
            _ => {
                self.program.take_submitted();
                let tally = self.program.tally().clone();
                let stepped = self.program.plain_step(&mut self.dice);
                or_message(&tally, stepped).unwrap();
                for task in self.program.take_submitted() {
                    let counting = self.open.iter_mut().filter(|open| open.scope.has(&task));
                    counting.for_each(|open| {
                        *open.counts.entry(task.task.to_owned()).or_default() += 1;
                    });
                }
            }
        }
    }

    fn start(&mut self) {
        let streams: Vec<_> = self.program.streams().collect();
        let (number, stream) = streams[self.dice.below(streams.len())];
        let other = streams[self.dice.below(streams.len())];
        let client = self.dice.below(2);
        let clients = self.program.clients();
        let (started, scope) = match self.dice.below(6) {
            0..3 => (stream.start_profile(), Scope::Streams(vec![number])),
            3 => (
                clients[client].start_profile_of([stream, other.1]),
                Scope::Streams(vec![number, other.0]),
            ),
            4 => (clients[client].start_profile(), Scope::Client(client)),
            _ => (self.rig.device.start_profile(), Scope::Device),
        };
        self.open.push(Open {
            token: started.unwrap(),
            scope,
            counts: Counts::new(),
        });
    }

    /// Ends a profile by any stream: it need not be one of its own.
    fn end(&mut self) {
        let open = self.open.swap_remove(self.dice.below(self.open.len()));
        let stream = self.program.stream(&mut self.dice);
        self.ended
            .push((stream.end_profile(open.token), open.counts));
    }

    fn check(mut self) {
        while !self.open.is_empty() {
            self.end();
        }
        for (answer, counts) in self.ended {
            let profile = answer.wait().unwrap();
            let kernels = profile.kernels.iter();
            // A read whose answer was dropped may have been withdrawn, so reads are not counted.
            let told: Counts = kernels
                .filter(|kernel| *kernel.name != *"copy out")
                .map(|kernel| (kernel.name.to_string(), kernel.tasks))
                .collect();
            assert_eq!(told, counts);
            assert_eq!((profile.untimed, profile.is_cut), (0, false));
            assert!(profile.busy.duration <= profile.elapsed.duration);
        }
        let tally = self.program.tally().clone();
        or_message(&tally, self.program.finish(&mut self.dice)).unwrap();
    }
}

pub(crate) fn each_task_is_in_exactly_the_profiles_that_were_open_when_it_was_submitted(on: On) {
    for seed in 0..PROGRAMS {
        let rig = on.open_seeded(seed);
        let mut profiled = Profiled::new(on, &rig, seed);
        (0..STEPS).for_each(|_| profiled.step());
        profiled.check();
    }
}

/// The same of one program, for devices that take long to open.
pub(crate) fn each_task_of_a_long_program_is_in_exactly_the_profiles_that_were_open(on: On) {
    let rig = on.open();
    let mut profiled = Profiled::new(on, &rig, 0);
    (0..STEPS_LONG).for_each(|_| profiled.step());
    profiled.check();
}
