//! Soft limits: who is above its own gets what there is, and waits behind others when there is little (I5, I6).

use std::sync::{Arc, Mutex};

use crate::support::*;
use millstream::{AllocationMode, ComputeClient, Handle, Reason, Stream, update};
use rstest::rstest;
use rstest_reuse::apply;
use tracing::field::{Field, Visit};

const MIB: usize = 1 << 20;

fn large(stream: &Stream) -> Handle<u8> {
    let handle = stream.empty_with(3 * MIB, AllocationMode::Dedicated);
    handle.unwrap()
}

fn limited(rig: &Rig, soft_limit: usize) -> ComputeClient {
    let builder = rig.device.client_builder().name("limited");
    builder.soft_limit(soft_limit as u64).build()
}

/// A device whose memory comes back when the guard goes.
fn short_of_memory(on: On) -> (Rig, Guard) {
    let rig = on.open_small(4 * MIB as u64);
    let owner = rig.client().stream();
    let guard = on.guard(&owner, (update(&large(&owner)),)).unwrap();
    (rig, guard)
}

/// The end of a guard goes past the mailbox, a question does not: once that is answered, both clients have asked for memory. Else the
/// first could have all of it before the second asks.
fn both_wait(rig: &Rig) {
    assert!(rig.stats().tasks_parked >= 2);
}

/// I6: the one that asked later goes first, and has all there is.
#[apply(every_device)]
fn who_would_go_above_its_soft_limit_waits_behind_who_would_not(#[case] on: On) {
    let (rig, guard) = short_of_memory(on);
    let (first, second) = (limited(&rig, MIB).stream(), rig.client().stream());
    let above = large(&first);
    let mut above_read = first.read(&above.slice(..4).unwrap());
    let within = large(&second);
    second.fill(&within, 7).unwrap();
    let within_read = second.read(&within.slice(..4).unwrap());
    assert!(above_read.try_take().is_none());
    both_wait(&rig);
    drop(guard);
    assert_eq!(within_read.wait().unwrap(), [7; 4]);
    let told = above_read.wait().unwrap_err();
    let reason = &told.failure().unwrap().root().reason;
    assert!(matches!(reason, Reason::OutOfMemory { .. }), "{told}");
}

/// I5, I6: it waits, and has its turn.
#[apply(every_device)]
fn who_waits_behind_others_gets_what_they_leave(#[case] on: On) {
    let (rig, guard) = short_of_memory(on);
    let (first, second) = (limited(&rig, MIB).stream(), rig.client().stream());
    let above = large(&first);
    first.fill(&above, 9).unwrap();
    let above_read = first.read(&above.slice(..4).unwrap());
    let within = large(&second);
    second.fill(&within, 7).unwrap();
    let within_read = second.read(&within.slice(..4).unwrap());
    both_wait(&rig);
    drop((within, guard));
    assert_eq!(within_read.wait().unwrap(), [7; 4]);
    assert_eq!(above_read.wait().unwrap(), [9; 4]);
}

/// I12: the usage says who is above, statistics how often that came to be.
#[apply(every_device)]
fn what_is_above_a_soft_limit_is_reported(#[case] on: On) {
    let rig = on.open();
    let client = limited(&rig, MIB);
    let stream = client.stream();
    let of_client = || {
        let report = client.memory_usage().wait().unwrap();
        let mut clients = report.clients.into_iter();
        clients.find(|of| of.client == client.id()).unwrap()
    };
    assert_eq!(
        (of_client().soft_limit, of_client().in_use),
        (Some(MIB as u64), 0)
    );
    for round in 1..=3 {
        let slices = [(); 2].map(|()| stream.empty::<u8>(MIB).unwrap());
        stream.fill(&slices[1], 1).unwrap();
        assert_eq!(stream.read(&slices[1]).wait().unwrap(), [1; MIB]);
        assert_eq!(of_client().above_soft_limit(), MIB as u64);
        assert_eq!(rig.stats().soft_limit_crossings, round);
        drop(slices);
        stream.sync().wait().unwrap();
        assert_eq!(of_client().above_soft_limit(), 0);
    }
}

/// A soft limit above the hard one would never be met.
#[test]
fn a_soft_limit_is_at_most_the_hard_one() {
    let rig = On::Cpu.open();
    let builder = rig.device.client_builder().hard_limit(1_000);
    let client = builder.soft_limit(5_000).build();
    client.stream().sync().wait().unwrap();
    let report = client.memory_usage().wait().unwrap();
    assert_eq!(report.clients[0].soft_limit, Some(1_000));
}

/// Warnings, each with its fields.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for &Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut &*self);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// One warning a crossing, however much there is above.
#[test]
fn each_crossing_of_a_soft_limit_is_warned_of_once() {
    let warnings = Warnings::default();
    // A driven device runs on this thread, and so logs here.
    tracing::subscriber::with_default(warnings.clone(), || {
        let rig = On::SimDriven.open();
        let stream = limited(&rig, 1_024).stream();
        for _ in 0..2 {
            let slices = [(); 4].map(|()| stream.empty::<u8>(1_024).unwrap());
            stream.sync().wait().unwrap();
            drop(slices);
            stream.sync().wait().unwrap();
        }
    });
    let warned = warnings.0.lock().unwrap().clone();
    assert_eq!(warned, ["the client is above its soft limit"; 2]);
}
