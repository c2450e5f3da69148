//! Scenarios for several ranks. `cargo test` starts each under `mpirun`; with names it starts those alone.
//!
//! `MILLSTREAM_MPIRUN` replaces the command and its options, which are by default those of Open MPI 5.
#![allow(clippy::unwrap_used, reason = "tests")]

mod ended;
mod gpu;
mod groups;
mod mismatch;
mod order;
mod programs;
mod values;
mod waiting;

use millstream_cluster_programs::{digits, reaction};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use millstream::{Cpu, Device, Element, Handle, Stream};
use millstream_cluster::{Fleet, Group};
use millstream_mpi::{Waiting, World};

/// A scenario: its name, its number of ranks, what each rank does.
type Scenario = (&'static str, usize, fn(World));

use gpu::SCENARIOS as OF_GPUS;

const SCENARIOS: &[Scenario] = &[
    ("values_alone", 1, values::programs),
    ("values_2", 2, values::programs),
    ("values_4", 4, values::programs),
    ("types", 3, values::every_type),
    ("devices", 2, values::programs_of_several_devices),
    ("large", 4, values::a_large_buffer),
    ("limit_2", 2, values::sizes_at_the_limit),
    ("limit_16", 16, values::sizes_at_the_limit),
    ("limit_17", 17, values::sizes_at_the_limit),
    ("ten_thousand", 2, values::ten_thousand),
    ("values_6", 6, values::programs),
    ("lists", 3, groups::lists),
    ("reaction", 3, programs::reaction_and_diffusion),
    ("digits", 4, programs::digits),
    ("threads", 2, order::threads_that_interleave_collectives),
    ("poison", 3, order::poison_reaches_every_rank),
    ("cancelled", 2, order::a_cancelled_call_fails_on_every_rank),
    ("mismatch", 3, mismatch::other_calls_are_reported),
    ("waiting", 3, waiting::for_a_rank_that_has_not_called),
    ("awaited", 3, groups::the_rank_that_a_meeting_awaits),
    ("at_once", 2, waiting::a_report_after_no_time),
    ("reporters", 4, waiting::the_first_ranks_have_not_called),
    ("answers", 3, waiting::answers_to_earlier_questions),
    ("beside", 6, groups::groups_beside_calls_and_questions),
    ("left", 2, waiting::a_small_call_when_the_world_ends),
    ("ended_asking", 3, ended::a_rank_ends_while_another_asks),
    ("ended_all_reduce", 4, ended::all_reduce),
    ("ended_reduce_scatter", 4, ended::reduce_scatter),
    ("ended_all_gather", 4, ended::all_gather),
    ("ended_broadcast", 4, ended::broadcast),
    ("ended_receive", 4, ended::receive),
    ("ended_by_panic", 2, ended::by_a_panic),
];

/// The variable with the folder in which each rank leaves a file at the end. The exit status of `mpirun` says nothing of
/// ranks that were killed.
const DONE: &str = "MILLSTREAM_SCENARIO_DONE";

/// How long a scenario may take, on a busy machine.
const SCENARIO_ENDS_WITHIN: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(name) = arguments
        .first()
        .and_then(|first| first.strip_prefix("rank:"))
    {
        gpu::prepare(name);
        let mut scenarios = SCENARIOS.iter().chain(OF_GPUS);
        let scenario = scenarios.find(|scenario| scenario.0 == name).unwrap();
        let world = World::init().unwrap();
        let done = format!("{}/{}", std::env::var(DONE).unwrap(), world.rank());
        (scenario.2)(world);
        std::fs::write(done, "").unwrap();
        return ExitCode::SUCCESS;
    }
    let names: Vec<&String> = arguments
        .iter()
        .filter(|name| !name.starts_with('-'))
        .collect();
    let chosen = |scenario: &&Scenario| {
        names.is_empty() || names.iter().any(|name| scenario.0.contains(name.as_str()))
    };
    let mut failed = 0;
    for (name, ranks, _) in SCENARIOS.iter().chain(OF_GPUS).filter(chosen) {
        let start = Instant::now();
        let outcome = run(name, *ranks);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("scenario {name}, {ranks} ranks ... ok ({seconds:.1} s)"),
            Err(why) => {
                failed += 1;
                println!("scenario {name}, {ranks} ranks ... FAILED: {why}");
            }
        }
    }
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Runs a scenario under `mpirun`.
fn run(name: &str, ranks: usize) -> Result<(), String> {
    let default = "mpirun --with-ft ulfm --oversubscribe";
    let command = std::env::var("MILLSTREAM_MPIRUN").unwrap_or_else(|_| default.to_owned());
    let mut words = command.split_whitespace();
    let program = words.next().ok_or("MILLSTREAM_MPIRUN is empty")?;
    let done = std::env::temp_dir().join(format!("millstream-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&done).map_err(|error| error.to_string())?;
    let child = Command::new(program)
        .args(words)
        .env(DONE, &done)
        .args(["-n", &ranks.to_string()])
        .arg(std::env::current_exe().map_err(|error| error.to_string())?)
        .arg(format!("rank:{name}"))
        .spawn()
        .map_err(|error| format!("`{program}` did not start: {error}; install Open MPI 5"))?;
    let status = wait(child)?;
    let ended = std::fs::read_dir(&done).map_or(0, Iterator::count);
    // Nothing depends on the folder any more.
    let _ = std::fs::remove_dir_all(&done);
    let expected = ranks - usize::from(name.starts_with("ended"));
    match status.success() && ended == expected {
        true => Ok(()),
        false => Err(format!(
            "{status}, {ended} of {expected} ranks came to their end"
        )),
    }
}

/// Waits for a program, and ends it if it takes too long.
fn wait(mut child: Child) -> Result<ExitStatus, String> {
    let id = child.id().to_string();
    let (sender, ended) = mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait()));
    let outcome = match ended.recv_timeout(SCENARIO_ENDS_WITHIN) {
        Ok(status) => status.map_err(|error| error.to_string()),
        Err(_) => {
            // The ranks end with it, and so does the wait.
            let _ = Command::new("kill").arg(id).status();
            Err("it did not end in time".to_owned())
        }
    };
    // The receiver may be gone, which is no error.
    let _ = waiter.join();
    outcome
}

/// A rank: its device and a group of all.
struct Rank {
    fleet: Fleet,
    group: Group,
    rank: usize,
    size: usize,
    world: World,
}

impl Rank {
    fn new(world: World) -> Self {
        Self::of(world, Device::open(Cpu::default()).unwrap())
    }

    fn of(world: World, device: Device) -> Self {
        let fleet = Fleet::new([device]).unwrap();
        Self {
            group: world.group(&fleet, 0).unwrap(),
            fleet,
            rank: world.rank(),
            size: world.size(),
            world,
        }
    }

    /// Asks what waits until the answer is the expected one: a rank that has just called is not known to have joined at
    /// once.
    fn ask_until(&self, expected: impl Fn(&[Waiting]) -> bool) -> Vec<Waiting> {
        loop {
            let waiting = self.world.waiting().unwrap();
            if expected(&waiting) {
                return waiting;
            }
        }
    }

    /// Waits until another rank has given a sign.
    fn await_sign(&self, group: &Group, from: usize) {
        let sign = self.own_stream().create(&[1_u32]).unwrap();
        group.receive(from, &sign).unwrap();
        assert_eq!(self.read(&sign), [0]);
    }

    fn give_sign(&self, group: &Group, to: usize) {
        let sign = self.own_stream().create(&[0_u32]).unwrap();
        group.send(to, &sign).unwrap();
    }

    /// Returns a stream whose tasks wait for no call.
    fn own_stream(&self) -> Stream {
        self.fleet.devices()[0].new_client().new_stream()
    }

    fn stream(&self) -> &Stream {
        self.group.stream(0)
    }

    fn create<T: Element>(&self, values: &[T]) -> Handle<T> {
        self.stream().create(values).unwrap()
    }

    /// Reads on a stream of its own, which waits for the data alone.
    fn read<T: Element>(&self, handle: &Handle<T>) -> Vec<T> {
        self.own_stream().read(handle).wait().unwrap()
    }

    fn error<T: Element>(&self, handle: &Handle<T>) -> millstream::Error {
        let read = self.own_stream().read(handle).wait();
        read.map(drop).unwrap_err()
    }
}
