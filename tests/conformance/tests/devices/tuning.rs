//! Autotuning by the device's clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::tune::{
    Begun, Chosen, Effort, Fastest, HostClock, Identity, Measure, Policy, Progress, Store,
    StoreError, StreamClock, Tunable, TunableSet, Tuner,
};
use millstream::{ComputeClient, Cpu, Device, DeviceOptions, Error, Handle, Stream};
use rstest::rstest;
use rstest_reuse::apply;

use crate::support::*;

type Adders = TunableSet<usize, (), Handle<u32>>;

/// Returns candidates that add one to a new buffer, each the given number of times.
fn adders(client: &ComputeClient, stream: &Stream, times: &[usize]) -> Adders {
    let mut set = TunableSet::new("adders", |_: &usize, (): &()| ());
    for times in times.iter().copied() {
        let (stream, add_one) = (stream.clone(), add_one(client));
        set = set.with(Tunable::new(format!("{times} times"), move |()| {
            let values = stream.create(&[0_u32; 1024])?;
            for _ in 0..times {
                launch_update(&stream, &add_one, &values)?;
            }
            Ok::<_, Error>(values)
        }));
    }
    set
}

/// Returns a candidate whose kernel panics at once. Only a read of its data finds that.
fn failing(
    name: &str,
    (on, client, stream): (On, &ComputeClient, &Stream),
) -> Tunable<(), Handle<u32>> {
    let (boom, stream) = (boom(on, client), stream.clone());
    Tunable::new(name, move |()| {
        let values = stream.create(&[0_u32; 4])?;
        boom.launch(&stream, &values)?;
        Ok::<_, Error>(values)
    })
}

fn effort() -> Effort {
    Effort::default().samples(12)
}

fn identity() -> Identity {
    Identity {
        device: "any".into(),
        version: "1".into(),
    }
}

#[apply(every_device)]
fn fastest_candidate_on_the_device_is_chosen(#[case] on: On) {
    let (_rig, client, stream) = on.start();
    let set = adders(&client, &stream, &[60, 1, 30]);
    let tuner = Tuner::with_effort(effort());
    let mut clock = StreamClock::new(&stream).evicting(1 << 16).unwrap();
    let values = tuner.execute(&set, &1024, (), &mut clock, Policy::Wait);
    assert_eq!(stream.get(&values.unwrap())[0], 1);
    assert_eq!(tuner.fastest(&1024), Fastest::Hit(1));
    let outcome = tuner.outcome(&1024).unwrap();
    assert_ne!(outcome.clock, "the device's clock", "{}", clock.clock());
    let mut candidates = outcome.candidates.iter();
    assert!(
        candidates.all(|candidate| candidate.result.is_ok()),
        "{outcome:?}"
    );
}

/// I7: a candidate whose work fails on the device is excluded; the other candidates and the device are not affected.
#[apply(every_device)]
fn candidate_that_fails_on_the_device_is_excluded_i7(#[case] on: On) {
    let (_rig, client, stream) = on.start();
    let set = adders(&client, &stream, &[40, 2]).with(failing("fails", (on, &client, &stream)));
    // A kernel that fails while it runs has a time; only a read of its data finds the failure.
    let reads = stream.clone();
    let set = set.settled(move |values| reads.read(values).wait().map(drop));
    let tuner = Tuner::with_effort(effort());
    let mut clock = StreamClock::new(&stream);
    let chosen = tuner.choose(&set, &1, &(), &mut clock, Policy::Wait);
    let chosen = chosen.unwrap();
    assert_eq!((chosen.index, chosen.by), (1, Chosen::Tuned));
    let outcome = tuner.outcome(&1).unwrap();
    let failed = outcome.candidates.last().unwrap();
    assert!(failed.index == 2 && failed.result.is_err(), "{failed:?}");
}

/// I8: a driven device is tuned between the pumps of its owner, and no call waits.
#[test]
fn driven_device_is_tuned_while_it_is_pumped_i8() {
    let opened = Device::open_driven(Cpu::default().threads(1), DeviceOptions::default());
    let (device, mut driver) = opened.unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    let set = adders(&client, &stream, &[60, 1]);
    let tuner = Tuner::with_effort(effort());
    let mut clock = StreamClock::new(&stream);
    let Begun::Tuning(mut tuning) = tuner.begin(&set, &1, &()) else {
        panic!("no other caller tunes the key");
    };
    let chosen = loop {
        match tuning.advance(&set, &mut clock, false) {
            Progress::Going => {}
            Progress::Waiting => _ = driver.pump(Duration::from_millis(1)),
            Progress::Done(done) => break done.unwrap(),
        }
    };
    assert_eq!(chosen.index, 1);
}

/// The log has a line with the key at the start, and one with the winner and the best medians at the end.
#[test]
fn tuning_logs_the_key_and_the_winner() {
    let rig = On::Cpu.open();
    let stream = rig.client().new_stream();
    let set = adders(&rig.client(), &stream, &[40, 1]);
    let text = logged(|| {
        let mut clock = StreamClock::new(&stream);
        let tuner = Tuner::with_effort(effort());
        let chosen = tuner.choose(&set, &1024, &(), &mut clock, Policy::Wait);
        chosen.unwrap();
    });
    let line = |part: &str| {
        let mut lines = text
            .lines()
            .filter(|line| line.contains("millstream::tune"));
        let found = lines.find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("no line with \"{part}\" in:\n{text}"))
    };
    let (first, last) = (line("tuning "), line("tuned "));
    for what in ["INFO", "key=1024", "set=adders", "candidates=2"] {
        assert!(first.contains(what), "{first}");
    }
    let medians = ["`1 times` ", "`40 times` ", " µs"];
    for what in ["INFO", "key=1024", "winner=\"1 times\""]
        .into_iter()
        .chain(medians)
    {
        assert!(last.contains(what), "{last}");
    }
}

/// A store in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Option<Vec<u8>>>>);

impl Store for Memory {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn load(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn update(&self, change: &mut dyn FnMut(Option<Vec<u8>>) -> Vec<u8>) -> Result<(), StoreError> {
        let mut stored = self.0.lock().unwrap();
        *stored = Some(change(stored.take()));
        Ok(())
    }
}

#[test]
fn tuning_logs_once_that_keys_cannot_be_serialized() {
    // Keys of JSON objects must be strings.
    type Key = BTreeMap<(u32, u32), u32>;
    let opened = Tuner::<Key>::with_store(Memory::default(), identity(), effort());
    let (tuner, _) = opened.unwrap();
    let one = |name| Tunable::new(name, |x: u32| Ok::<_, String>(x));
    let set = TunableSet::new("either", |_: &Key, x: &u32| *x);
    let set = set.with(one("one")).with(one("other"));
    let text = logged(|| {
        for key in [Key::new(), Key::from([((1, 2), 3)])] {
            let mut clock = HostClock::new();
            let chosen = tuner.choose(&set, &key, &0, &mut clock, Policy::Wait);
            chosen.unwrap();
        }
    });
    let is_expected = |line: &&str| line.contains("cannot be serialized as JSON");
    let lines: Vec<_> = text.lines().filter(is_expected).collect();
    assert!(lines.len() == 1 && lines[0].contains("skipped=1"), "{text}");
}

/// I7: a kernel that panics at once is the fastest candidate. The tuner finds its failure before its time counts,
/// although no caller reads its output: it never wins, and no store receives it as a winner.
#[apply(every_device)]
fn a_kernel_that_fails_fast_never_wins_i7(#[case] on: On) {
    let (_rig, client, stream) = on.start();
    let failing = |name| failing(name, (on, &client, &stream));
    let set = adders(&client, &stream, &[60, 50]).with(failing("fails"));
    let memory = Memory::default();
    let (tuner, _) = Tuner::with_store(memory.clone(), identity(), effort()).unwrap();
    let mut clock = StreamClock::new(&stream);
    let chosen = tuner.choose(&set, &7_usize, &(), &mut clock, Policy::Wait);
    assert_ne!(chosen.unwrap().index, 2);
    let outcome = tuner.outcome(&7).unwrap();
    assert_ne!(outcome.winner, 2);
    let failed = outcome.candidates.last().unwrap();
    assert!(failed.index == 2 && failed.result.is_err(), "{failed:?}");
    if matches!(on, On::Cpu) {
        let message = failed.result.as_ref().unwrap_err().to_string();
        assert!(
            message.contains("`boom` failed: panicked with"),
            "{message}"
        );
    }
    let stored = memory.0.lock().unwrap().clone().unwrap();
    let stored = String::from_utf8(stored).unwrap();
    assert!(!stored.contains("\"winner\":2"), "{stored}");
    // If all candidates fail, there is no choice.
    let only = TunableSet::new("only", |_: &usize, (): &()| ());
    let only = only.with(failing("fails")).with(failing("fails, too"));
    let none = tuner.choose(&only, &8, &(), &mut clock, Policy::Wait);
    none.unwrap_err();
}
