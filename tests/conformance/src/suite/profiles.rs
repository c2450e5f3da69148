//! Profiles: a profile covers the tasks that are submitted while it is open, and is answered once (I1, I5, I12).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use millstream::{
    CancelToken, DeviceOptions, Error, KernelHandle, Pending, Stream,
    report::{ClockSource, Profile},
    update,
};

use crate::subject::{Clock, Mode};
use crate::support::*;

fn answer_of(mut profile: Pending<Profile>) -> Profile {
    profile.wait_timeout(PATIENCE).unwrap()
}

fn assert_unknown(mut profile: Pending<Profile>) {
    let answer = profile.wait_timeout(PATIENCE);
    assert!(matches!(answer, Err(Error::NoProfile { .. })), "{answer:?}");
}

fn count(profile: &Profile, name: &str) -> u64 {
    profile.kernel(name).map_or(0, |kernel| kernel.tasks)
}

/// A stream with a buffer, to which it adds one.
struct Adder {
    stream: Stream,
    add_one: KernelHandle,
    values: millstream::Handle<u32>,
}

impl Adder {
    fn new(client: &millstream::ComputeClient) -> Self {
        let stream = client.new_stream();
        Self {
            add_one: add_one(client),
            values: stream.put(&[0_u32; 64]),
            stream,
        }
    }

    fn add(&self, times: usize) {
        for _ in 0..times {
            launch_update(&self.stream, &self.add_one, &self.values).unwrap();
        }
    }
}

pub(crate) fn profile_covers_exactly_the_tasks_between_its_start_and_its_end(on: On) {
    let rig = on.open();
    let client = rig.client();
    let adder = Adder::new(&client);
    let other = adder.stream.put(&[0_u32; 64]);
    adder.add(5);
    let token = adder.stream.start_profile().unwrap();
    adder.add(3);
    adder.stream.fill(&other, 1).unwrap();
    adder.stream.copy(&other, &adder.values).unwrap();
    drop(adder.stream.read(&other));
    let point = adder.stream.sync();
    let profile = adder.stream.end_profile(token);
    adder.add(7);
    let profile = answer_of(profile);
    point.wait().unwrap();
    let counts = ["add_one", "fill", "copy", "copy out"].map(|name| count(&profile, name));
    assert_eq!(counts, [3, 1, 1, 1], "{profile}");
    let tasks = (profile.tasks, profile.untimed, profile.is_cut);
    assert_eq!(tasks, (6, 0, false));
    assert!(
        profile.busy.duration <= profile.elapsed.duration,
        "{profile:?}"
    );
    let adds = profile.kernel("add_one").unwrap();
    assert_eq!(adds.timed, 3);
    assert!(adds.min <= adds.mean() && adds.mean() <= adds.max);
    let clock = profile.elapsed.clock;
    let right = match on.abilities().clock {
        Clock::Virtual => clock == ClockSource::Virtual,
        Clock::Device => matches!(clock, ClockSource::Device { .. }),
        Clock::Host => clock == ClockSource::HOST,
    };
    assert!(right, "{clock}");
    assert_eq!(profile.calls.clock, ClockSource::HOST);
}

pub(crate) fn tokens_nest_and_overlap_across_streams_and_threads(on: On) {
    let rig = on.open();
    let (client, others) = (rig.client(), rig.client());
    let a = Adder::new(&client);
    let b = Adder::new(&client);
    let c = Adder::new(&others);
    let all = rig.device.start_profile().unwrap();
    let mine = client.start_profile().unwrap();
    a.add(1);
    let two = others.start_profile_of([&a.stream, &c.stream, &a.stream]);
    let two = two.unwrap();
    std::thread::scope(|scope| {
        for adder in [&a, &b, &c] {
            scope.spawn(move || adder.add(10));
        }
    });
    let inner = b.stream.start_profile().unwrap();
    b.add(2);
    // A stream that is created while the profile of its client is open.
    let late = Adder::new(&client);
    late.add(4);
    // Any thread may end any of them, in any order.
    let ended = std::thread::scope(|scope| scope.spawn(|| client.end_profile(two)).join().unwrap());
    a.add(100);
    let (two, mine) = (answer_of(ended), answer_of(c.stream.end_profile(mine)));
    let all = answer_of(rig.device.end_profile(all));
    let inner = answer_of(a.stream.end_profile(inner));
    let adds = [&all, &mine, &two, &inner].map(|profile| count(profile, "add_one"));
    assert_eq!(adds, [137, 127, 20, 2]);
    // The copy in of that stream is covered as well.
    let copies = [&all, &mine].map(|profile| count(profile, "copy in"));
    assert_eq!(copies, [1, 1]);
    assert_eq!(all.untimed + mine.untimed + two.untimed + inner.untimed, 0);
}

pub(crate) fn closure_is_profiled_and_its_panic_does_not_affect_the_next_profile(on: On) {
    let rig = on.open();
    let adder = Adder::new(&rig.client());
    let (made, profile) = adder.stream.profiled(|_| adder.add(4)).unwrap();
    assert_eq!((made, count(&answer_of(profile), "add_one")), ((), 4));
    let panics = || panic!("in the closure");
    let run = || adder.stream.profiled(|_| panics()).map(drop);
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    // The next profile works.
    let (_, profile) = adder.stream.profiled(|_| adder.add(2)).unwrap();
    assert_eq!(answer_of(profile).tasks, 2);
}

/// Each task of a replay has its name and times, even if the driver could run the recording as a whole.
pub(crate) fn a_recording_is_profiled_task_by_task(on: On) {
    let rig = on.open();
    let client = rig.client();
    let adder = Adder::new(&client);
    let transfer = transfer(&client);
    let to = adder.stream.put(&[0_u32; 64]);
    let record = |recorder: &mut millstream::Recorder<'_>| {
        for _ in 0..3 {
            recorder.launch(&adder.add_one, one(), in_place(&adder.values))?;
        }
        recorder.launch(&transfer, one(), across(&adder.values, &to))?;
        recorder.fill(&adder.values, 9)
    };
    let step = adder.stream.record(record).unwrap();
    for round in 0..4 {
        let profile = answer_of(step.replay_profiled(&adder.stream).unwrap());
        let counts = ["add_one", "transfer", "fill"].map(|name| count(&profile, name));
        let expected = ([3, 1, 1], 0);
        assert_eq!((counts, profile.untimed), expected, "{round}: {profile}");
        // Replays without a profile still work.
        step.replay(&adder.stream).unwrap();
    }
    assert_eq!(adder.stream.get(&to), [12; 64]);
}

pub(crate) fn foreign_tokens_and_ended_tokens_are_errors(on: On) {
    let (rig, other) = (on.open(), on.open());
    let adder = Adder::new(&rig.client());
    let token = adder.stream.start_profile().unwrap();
    let foreign = other.client().start_profile().unwrap();
    for ended in [
        adder.stream.end_profile(foreign),
        other.device.end_profile(token),
    ] {
        assert_unknown(ended);
    }
    assert_eq!(other.client().end_profile(foreign).wait().unwrap().tasks, 0);
    adder.add(1);
    assert_eq!(answer_of(adder.stream.end_profile(token)).tasks, 1);
    assert_unknown(adder.stream.end_profile(token));
    let foreign = other.client().new_stream();
    let of_foreign = rig.client().start_profile_of([&foreign]);
    assert!(matches!(
        of_foreign,
        Err(Error::Foreign { what: "stream", .. })
    ));
}

/// I5: a profile that ends before its tasks are issued is answered after all of them have completed or were withdrawn.
pub(crate) fn profile_waits_for_held_tasks(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (owner, adder) = (client.new_stream(), Adder::new(&client));
    let token = CancelToken::new();
    let withdrawn = adder.stream.with_cancel(&token);
    adder.stream.drain();
    // While the guard lives, the server holds tasks on the values.
    let guard = on.guard(&owner, (update(&adder.values),)).unwrap();
    let profile = adder.stream.start_profile().unwrap();
    adder.add(3);
    launch_update(&withdrawn, &adder.add_one, &adder.values).unwrap();
    token.cancel();
    let mut answer = adder.stream.end_profile(profile);
    adder.add(5);
    client.stats().wait().unwrap();
    assert!(answer.try_take().is_none());
    drop(guard);
    let profile = answer.wait_timeout(PATIENCE).unwrap();
    let adds = profile.kernel("add_one").unwrap();
    assert_eq!((profile.tasks, profile.untimed), (4, 1));
    assert_eq!((adds.tasks, adds.timed), (4, 3), "one task was withdrawn");
}

/// I5: a close answers the pending profiles of the device.
pub(crate) fn closing_answers_open_profiles(on: On) {
    let rig = on.open();
    let client = rig.client();
    let adder = Adder::new(&client);
    let ended = client.start_profile().unwrap();
    let forgotten = rig.device.start_profile().unwrap();
    adder.add(20);
    let answer = client.end_profile(ended);
    assert!(rig.device.close(PATIENCE).drained || rig.driver.is_some());
    match answer.wait() {
        Ok(profile) => assert_eq!(count(&profile, "add_one"), 20),
        Err(Error::Closed) => {}
        Err(other) => panic!("{other}"),
    }
    assert_closed(client.end_profile(forgotten).wait());
    assert_closed(client.start_profile());
}

/// I12: the number of open profiles is bounded; later profiles work.
pub(crate) fn open_profiles_are_bounded_and_the_oldest_is_evicted(on: On) {
    let rig = on.open();
    let adder = Adder::new(&rig.client());
    let start = || adder.stream.start_profile().unwrap();
    let open: Vec<_> = (0..10_000).map(|_| start()).collect();
    adder.add(2);
    let end = |token| adder.stream.end_profile(token);
    let ended: Vec<_> = open.into_iter().map(end).collect();
    assert!(ended.into_iter().all(|answer| answer_of(answer).tasks == 2));
    let first = start();
    for _ in 0..20_000 {
        start();
    }
    let last = start();
    adder.add(1);
    assert_unknown(end(first));
    assert_eq!(answer_of(end(last)).tasks, 1);
}

/// I12: tasks whose spans find no room are counted as untimed.
pub(crate) fn tasks_without_room_for_their_spans_are_counted_as_untimed(on: On) {
    let rig = on.open_with(DeviceOptions::default().profile_spans(1));
    let adder = Adder::new(&rig.client());
    let many = adder.stream.record(|recorder| {
        (0..50).try_for_each(|_| recorder.launch(&adder.add_one, one(), in_place(&adder.values)))
    });
    let profile = answer_of(many.unwrap().replay_profiled(&adder.stream).unwrap());
    let adds = profile.kernel("add_one").unwrap();
    assert_eq!((profile.tasks, adds.tasks), (50, 50));
    assert_eq!(adds.timed + profile.untimed, 50);
    if on.mode() == Mode::Driven && on.abilities().clock == Clock::Host {
        // The spans are not taken while the device is pumped.
        assert!(profile.untimed > 0);
    }
}

/// I12: the number of tasks of a profile is bounded.
pub(crate) fn profile_ends_automatically_when_it_is_full(on: On) {
    let rig = on.open_with(DeviceOptions::default().profile_tasks(4));
    let adder = Adder::new(&rig.client());
    let [token, later] = [(); 2].map(|()| adder.stream.start_profile().unwrap());
    adder.add(10);
    let profile = answer_of(adder.stream.end_profile(token));
    assert_eq!((profile.tasks, profile.is_cut), (4, true));
    assert!(profile.to_string().contains("the profile was full"));
    let (_, profile) = adder.stream.profiled(|_| adder.add(2)).unwrap();
    assert_eq!(answer_of(profile).tasks, 2);
    let later = answer_of(adder.stream.end_profile(later));
    assert_eq!(later.tasks, 4);
}

/// Taking a timeline takes no spans from a profile, and the other way round.
pub(crate) fn a_timeline_and_profiles_have_the_same_spans(on: On) {
    let rig = on.open_with(DeviceOptions::default().trace(1_000));
    let adder = Adder::new(&rig.client());
    adder.add(3);
    let token = adder.stream.start_profile().unwrap();
    adder.add(5);
    let early = rig.device.trace().unwrap();
    adder.add(6);
    let profile = answer_of(adder.stream.end_profile(token));
    adder.add(7);
    adder.stream.drain();
    let spans = early.into_iter().chain(rig.device.trace().unwrap());
    let adds: Vec<_> = spans.filter(|span| &*span.name == "add_one").collect();
    assert_eq!((adds.len(), count(&profile, "add_one")), (21, 11));
    assert_eq!(profile.untimed, 0);
    let total: u64 = adds.iter().map(|span| span.end_ns - span.start_ns).sum();
    assert!(profile.busy.duration <= Duration::from_nanos(total));
}
