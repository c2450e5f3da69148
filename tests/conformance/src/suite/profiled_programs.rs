//! Random programs under random profiles: a profile counts exactly the tasks that were submitted to its streams while
//! it was open (I1, I5).

use std::collections::BTreeMap;

use millstream::{
    Pending,
    report::{Profile, ProfileToken},
};
use millstream_testkit::{Dice, Program, Submitted};

use crate::program::{config, infallible_kernels, or_message};
use crate::support::*;

/// The number of programs, each on its own device, and of steps of each.
const PROGRAMS: u64 = 24;
const STEPS: usize = 80;
/// The number of steps of the single program for devices that take long to open.
const STEPS_LONG: usize = 300;
/// The maximum number of open profiles.
const OPEN_MAX: usize = 6;

/// The tasks that a profile covers.
#[derive(Clone, Debug)]
enum Scope {
    /// Tasks of these streams, by their numbers.
    Streams(Vec<u32>),
    /// Tasks of all streams of one client.
    Client(usize),
    /// All tasks of the device.
    Device,
}

impl Scope {
    fn covers(&self, task: &Submitted) -> bool {
        match self {
            Self::Streams(streams) => streams.contains(&task.stream),
            Self::Client(client) => *client == task.client,
            Self::Device => true,
        }
    }
}

/// The number of tasks by name.
type Counts = BTreeMap<String, u64>;

/// An open profile, and the number of tasks that it must count so far.
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
        let config = config(on);
        let clients = vec![rig.client(), rig.client()];
        let kernels = infallible_kernels(&clients[0]);
        let tally = config.tally.clone();
        let made = Program::new(config, clients, kernels, &mut dice);
        Self {
            rig,
            program: or_message(&tally, made).unwrap(),
            dice,
            open: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Starts or ends a profile, or runs a step of the program. Tasks that are held when a profile starts are issued
    /// while it is open.
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
                    let counting = self.open.iter_mut().filter(|open| open.scope.covers(&task));
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

    /// Ends a profile by any stream, which need not be covered by the profile.
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
            let counted: Counts = kernels
                .filter(|kernel| *kernel.name != *"copy out")
                .map(|kernel| (kernel.name.to_string(), kernel.tasks))
                .collect();
            assert_eq!(counted, counts);
            assert_eq!((profile.untimed, profile.is_cut), (0, false));
            assert!(profile.busy.duration <= profile.elapsed.duration);
        }
        let tally = self.program.tally().clone();
        or_message(&tally, self.program.finish(&mut self.dice)).unwrap();
    }
}

/// Needs: RustKernels.
pub(crate) fn each_task_is_in_exactly_the_profiles_that_were_open_when_it_was_submitted(on: On) {
    for seed in 0..PROGRAMS {
        let rig = on.open_seeded(seed);
        let mut profiled = Profiled::new(on, &rig, seed);
        (0..STEPS).for_each(|_| profiled.step());
        profiled.check();
    }
}

/// The same for one long program, for devices that take long to open.
pub(crate) fn each_task_of_a_long_program_is_in_exactly_the_profiles_that_were_open(on: On) {
    let rig = on.open();
    let mut profiled = Profiled::new(on, &rig, 0);
    (0..STEPS_LONG).for_each(|_| profiled.step());
    profiled.check();
}
