//! Random programs under random profiles: a task is in exactly those that were open when it was given.

use std::collections::BTreeMap;

use millstream::{
    ComputeClient, Handle, KernelHandle, Pending, Profile, ProfileToken, Recording, Stream,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::support::*;

const STREAMS: usize = 3;

/// Whose work a profile is of.
#[derive(Clone, Copy, Debug)]
enum Whose {
    Stream(usize),
    Two(usize, usize),
    /// The client of the first two streams.
    Client,
    Device,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Launch(usize),
    Fill(usize),
    /// Three tasks.
    Replay(usize),
    /// All streams touch the same bytes, which makes them hold and park.
    Shared(usize),
    /// Is no task.
    Sync(usize),
    Start(Whose),
    End(usize),
}

fn whose() -> impl Strategy<Value = Whose> {
    prop_oneof![
        3 => (0..STREAMS).prop_map(Whose::Stream),
        1 => (0..STREAMS, 0..STREAMS).prop_map(|(one, other)| Whose::Two(one, other)),
        1 => Just(Whose::Client),
        1 => Just(Whose::Device),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..STREAMS).prop_map(Step::Launch),
        3 => (0..STREAMS).prop_map(Step::Fill),
        2 => (0..STREAMS).prop_map(Step::Replay),
        3 => (0..STREAMS).prop_map(Step::Shared),
        1 => (0..STREAMS).prop_map(Step::Sync),
        3 => whose().prop_map(Step::Start),
        2 => (0..64_usize).prop_map(Step::End),
    ]
}

/// What a profile must say: tasks by name.
type Counts = BTreeMap<String, u64>;

/// One profile of the model.
struct Open {
    token: ProfileToken,
    streams: Vec<usize>,
    counts: Counts,
}

struct World {
    clients: [ComputeClient; 2],
    streams: Vec<Stream>,
    own: Vec<Handle<u32>>,
    shared: Handle<u32>,
    add_one: KernelHandle,
    recordings: Vec<Recording>,
    open: Vec<Open>,
    ended: Vec<(Pending<Profile>, Counts)>,
}

impl World {
    fn new(rig: &Rig) -> Self {
        let clients = [rig.client(), rig.client()];
        let streams: Vec<_> = (0..STREAMS)
            .map(|index| clients[index / 2].new_stream())
            .collect();
        let own: Vec<_> = streams
            .iter()
            .map(|stream| stream.create(&[0_u32; 8]).unwrap())
            .collect();
        let add_one = add_one(&clients[0]);
        let record = |(stream, values): (&Stream, &Handle<u32>)| {
            let recorded = stream.record(|recorder| {
                recorder.launch(&add_one, one(), in_place(values))?;
                recorder.fill(values, 3)?;
                recorder.launch(&add_one, one(), in_place(values))
            });
            recorded.unwrap()
        };
        Self {
            recordings: streams.iter().zip(&own).map(record).collect(),
            shared: streams[0].create(&[0_u32; 8]).unwrap(),
            clients,
            streams,
            own,
            add_one,
            open: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// The model: a task of this name is given to a stream.
    fn given(&mut self, stream: usize, name: &str, tasks: u64) {
        for open in self
            .open
            .iter_mut()
            .filter(|open| open.streams.contains(&stream))
        {
            *open.counts.entry(name.to_owned()).or_default() += tasks;
        }
    }

    fn step(&mut self, rig: &Rig, step: Step) {
        match step {
            Step::Launch(stream) => {
                self.given(stream, "add_one", 1);
                launch_update(&self.streams[stream], &self.add_one, &self.own[stream]).unwrap();
            }
            Step::Shared(stream) => {
                self.given(stream, "add_one", 1);
                launch_update(&self.streams[stream], &self.add_one, &self.shared).unwrap();
            }
            Step::Fill(stream) => {
                self.given(stream, "fill", 1);
                self.streams[stream].fill(&self.own[stream], 1).unwrap();
            }
            Step::Replay(stream) => {
                self.given(stream, "add_one", 2);
                self.given(stream, "fill", 1);
                self.recordings[stream]
                    .replay(&self.streams[stream])
                    .unwrap();
            }
            Step::Sync(stream) => drop(self.streams[stream].sync()),
            Step::Start(whose) => self.start(rig, whose),
            Step::End(which) => {
                if !self.open.is_empty() {
                    let open = self.open.remove(which % self.open.len());
                    let answer = self.streams[which % STREAMS].end_profile(open.token);
                    self.ended.push((answer, open.counts));
                }
            }
        }
    }

    fn start(&mut self, rig: &Rig, whose: Whose) {
        let (started, streams) = match whose {
            Whose::Stream(stream) => (self.streams[stream].start_profile(), vec![stream]),
            Whose::Two(one, other) => {
                let both = [&self.streams[one], &self.streams[other]];
                (self.clients[0].start_profile_of(both), vec![one, other])
            }
            Whose::Client => (self.clients[0].start_profile(), vec![0, 1]),
            Whose::Device => (rig.device.start_profile(), (0..STREAMS).collect()),
        };
        self.open.push(Open {
            token: started.unwrap(),
            streams,
            counts: Counts::new(),
        });
    }

    fn check(mut self) {
        while let Some(open) = self.open.pop() {
            let answer = self.streams[0].end_profile(open.token);
            self.ended.push((answer, open.counts));
        }
        for (answer, counts) in self.ended {
            let profile = answer.wait().unwrap();
            let kernels = profile.kernels.iter();
            let told: Counts = kernels
                .map(|kernel| (kernel.name.to_string(), kernel.tasks))
                .collect();
            assert_eq!(told, counts);
            assert_eq!((profile.untimed, profile.is_cut), (0, false));
            assert!(profile.busy.duration <= profile.elapsed.duration);
        }
    }
}

pub(crate) fn each_task_is_in_exactly_the_profiles_that_were_open_when_it_was_given(on: On) {
    let config = ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..120), seed in 0..u64::MAX)| {
        let rig = on.open_seeded(seed);
        let mut world = World::new(&rig);
        // Some are held when profiles start, and issued when they have.
        for step in steps {
            world.step(&rig, step);
        }
        world.check();
    });
}

/// The same of one program, for devices that take long to open.
pub(crate) fn each_task_of_a_long_program_is_in_exactly_its_profiles(on: On) {
    let rig = on.open();
    let mut world = World::new(&rig);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let steps = prop::collection::vec(step(), 300);
    let steps = steps.new_tree(&mut runner).unwrap().current();
    for step in steps {
        world.step(&rig, step);
    }
    world.check();
}
