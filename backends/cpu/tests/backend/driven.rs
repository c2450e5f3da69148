//! A driven device has no thread: `pump` runs the work, on the caller's thread.

use std::sync::mpsc;
use std::thread::current;
use std::time::Duration;

use millstream_protocol::{Backend, Kernel, marks::is_runtime_thread};

use crate::rig::{Q0, Q1, Rig};

#[test]
fn driven_tasks_run_on_the_thread_that_pumps() {
    let mut rig = Rig::driven();
    let (sender, received) = mpsc::channel();
    let kernel = {
        let sender = sender.clone();
        rig.prepare(
            Kernel::new("where")
                .native(move |_, _| sender.send((current().id(), is_runtime_thread())).unwrap()),
        )
    };
    let point = rig.launch(Q0, &kernel, 5, &[], &[]);
    rig.custom(Q1, &[], move |_| {
        sender.send((current().id(), is_runtime_thread())).unwrap();
    });
    assert_eq!(rig.completed(Q0), 0, "nothing runs before the pump");
    assert!(rig.device.pump(Duration::from_secs(3600)));
    assert_eq!(rig.completed(Q0), point.cursor);
    assert!(
        !rig.device.pump(Duration::from_secs(3600)),
        "no task is left"
    );
    let own = (current().id(), true);
    assert_eq!(received.try_iter().collect::<Vec<_>>(), [own; 6]);
    assert!(!is_runtime_thread());
}

#[test]
fn wait_blocks_only_its_own_queue() {
    let mut rig = Rig::driven();
    let later = {
        let cursor = rig.completed(Q0) + 1;
        millstream_protocol::Point::new(Q0, cursor)
    };
    rig.device.queue_wait(Q1, later).unwrap();
    let waits = rig.custom(Q1, &[], |_| ());
    assert!(!rig.device.pump(Duration::ZERO), "a wait is not a task");
    assert_eq!(rig.completed(Q1), 0);
    let first = rig.custom(Q0, &[], |_| ());
    assert_eq!(first, later);
    while rig.device.pump(Duration::ZERO) {}
    assert_eq!(
        (rig.completed(Q0), rig.completed(Q1)),
        (first.cursor, waits.cursor)
    );
}

#[test]
fn pump_without_budget_runs_one_task() {
    let mut rig = Rig::driven();
    for _ in 0..3 {
        rig.custom(Q0, &[], |_| ());
    }
    for cursor in 1..=3 {
        assert!(rig.device.pump(Duration::ZERO));
        assert_eq!(rig.completed(Q0), cursor);
    }
    assert!(!rig.device.pump(Duration::ZERO));
}

#[test]
fn task_that_was_never_pumped_fails_at_close() {
    let mut rig = Rig::driven();
    let slice = rig.slice(4);
    let (_, landing) = rig.copy_out(Q0, &slice.read());
    drop(rig);
    assert!(landing.take().is_err());
}
