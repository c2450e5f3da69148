//! The backend under handwritten calls, such as a faulty runtime would make.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{
    Access, Backend, BoundSlice, DropSink, HostContext, Open, PageId, Pattern, Point, QueueId,
    SliceId, Table, Task, TaskPoint,
};
use millstream_sim::{Checks, Findings, Sim, SimDevice, SimResources, Violation};
use millstream_sync::facade::SpinPolicy;
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Receiver, mailbox};
use millstream_sync::slots::SlotId;

const Q0: QueueId = QueueId(0);
const Q1: QueueId = QueueId(1);
const A: SliceId = SliceId(SlotId {
    index: 0,
    generation: 1,
});

struct Calls {
    device: SimDevice,
    findings: Findings,
    page: PageId,
    _mailbox: Receiver<Task>,
}

impl Calls {
    /// A driven device with one page, and slice `A` of 16 bytes on it.
    fn new(sim: Sim) -> Self {
        let (sender, receiver) = mailbox(2, Arc::new(Gate::new()));
        let table = Table::new(1000, DropSink::new(sender.probe(), Arc::default()));
        let findings = sim.findings();
        let context = HostContext {
            gone: Default::default(),
            driven: true,
            table,
            trace_capacity: 0,
            spin: SpinPolicy::default(),
            spawner: Default::default(),
        };
        let mut device = sim.open(context).unwrap();
        let page = device.allocate(1024).unwrap();
        device.slice_reserved(A, Some(page), 0, 16);
        Self {
            device,
            findings,
            page,
            _mailbox: receiver,
        }
    }

    /// Binds all bytes of a slice at the start of the page.
    fn bound(&self, slice: SliceId, access: Access) -> BoundSlice {
        BoundSlice {
            page: Some(self.page),
            offset: 0,
            len: 16,
            access,
            slice,
            slice_offset: 0,
        }
    }

    fn fill(&mut self, queue: QueueId, cursor: u64, flushed: bool) {
        let name: Arc<str> = format!("fill {cursor}").into();
        let target = self.bound(A, Access::Write);
        let place = TaskPoint {
            queue,
            cursor,
            name: &name,
        };
        self.device.fill(place, &target, Pattern::of(1_u8)).unwrap();
        if flushed {
            self.device.flush(queue, cursor);
        }
    }

    fn drain(&mut self) {
        while self.device.pump(Duration::ZERO) {}
    }
}

/// The race is reported whichever of the two tasks happens to run first.
#[test]
fn missing_wait_is_a_race_under_every_seed() {
    for seed in 0..20 {
        for waits in [true, false] {
            let mut calls = Calls::new(Sim::seed(seed));
            calls.fill(Q0, 1, true);
            if waits {
                calls.device.queue_wait(Q1, Point::new(Q0, 1)).unwrap();
            }
            calls.fill(Q1, 1, true);
            calls.drain();
            let found = calls.findings.violations();
            match waits {
                true => assert_eq!(found, []),
                false => assert!(matches!(&found[..], [Violation::Race { .. }]), "{found:?}"),
            }
        }
    }
}

#[test]
fn published_cursor_never_exceeds_the_flushed_cursor() {
    for seed in 0..20 {
        let mut calls = Calls::new(Sim::seed(seed));
        calls.fill(Q0, 1, true);
        calls.fill(Q0, 2, false);
        calls.drain();
        assert_eq!(calls.findings.figures().tasks, 2, "it may run ahead");
        assert_eq!(calls.device.timeline(Q0).completed(), 1);
        calls.device.flush(Q0, 2);
        calls.drain();
        assert_eq!(calls.device.timeline(Q0).completed(), 2);
    }
}

/// A task may complete long before the host can see it.
#[test]
fn published_cursor_lags_behind_completed_tasks() {
    let lags = |seed| {
        let mut calls = Calls::new(Sim::seed(seed));
        (1..=6).for_each(|cursor| calls.fill(Q0, cursor, true));
        let mut lag = 0;
        loop {
            let more = calls.device.pump(Duration::ZERO);
            let ran = calls.findings.figures().tasks;
            lag = lag.max(ran - calls.device.timeline(Q0).completed());
            if !more {
                return lag;
            }
        }
    };
    assert!((0..20).map(lags).max().unwrap() > 1);
}

#[test]
fn page_freed_under_a_queued_task_is_reported_without_undefined_behaviour() {
    let mut calls = Calls::new(Sim::seed(1));
    calls.fill(Q0, 1, true);
    calls.device.slice_released(A);
    calls.device.free(calls.page);
    calls.drain();
    let found = calls.findings.violations();
    assert!(
        matches!(&found[..], [Violation::PageInUse { .. }]),
        "{found:?}"
    );
}

/// I4: a guard writes to a slice that was reserved over bytes of queued tasks. The pattern of undefined bytes does not
/// replace what it has written.
#[test]
fn bytes_that_a_guard_has_written_are_not_filled_i4() {
    let mut calls = Calls::new(Sim::seed(1));
    calls.fill(Q0, 1, true);
    calls.device.slice_released(A);
    let next = SliceId(SlotId {
        index: 0,
        generation: 2,
    });
    calls.device.slice_reserved(next, Some(calls.page), 0, 16);
    calls.drain();
    let bound = calls.bound(next, Access::ReadWrite);
    let guard = calls.device.resources(&[bound]).unwrap();
    guard.write::<u8>(0).fill(9);
    drop(guard);
    let (sender, found) = std::sync::mpsc::channel();
    let work = Box::new(move |resources: &dyn Any| {
        let resources = resources.downcast_ref::<SimResources>().unwrap();
        sender.send(resources.read::<u8>(0).to_vec()).unwrap();
        Ok(())
    });
    let (queue, cursor, name) = (Q0, 2, &"custom".into());
    let place = TaskPoint {
        queue,
        cursor,
        name,
    };
    calls.device.custom(place, &[bound], work).unwrap();
    calls.drain();
    assert_eq!(found.try_recv(), Ok(vec![9; 16]));
}

#[test]
fn slice_left_when_the_device_closes_is_a_leak() {
    let calls = Calls::new(Sim::seed(1));
    let findings = calls.findings.clone();
    drop(calls);
    let found = findings.violations();
    assert!(
        matches!(&found[..], [Violation::SliceLeaked { .. }]),
        "{found:?}"
    );
}

#[test]
#[should_panic(expected = "slice 0 is released, but is not live")]
fn violation_panics_with_checks_panic() {
    let mut calls = Calls::new(Sim::seed(1).checks(Checks::Panic));
    calls.device.slice_released(A);
    calls.device.slice_released(A);
}

#[test]
fn no_violation_is_reported_with_checks_off() {
    let mut calls = Calls::new(Sim::seed(1).checks(Checks::Off));
    calls.fill(Q0, 1, true);
    calls.fill(Q1, 1, true);
    calls.drain();
    assert_eq!(calls.findings.violations_seen(), 0);
    assert_eq!(calls.findings.figures().tasks, 2);
}
