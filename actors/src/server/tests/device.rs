//! The device without a server: the effects of refusals and of a loss.

use std::sync::Arc;

use millstream_protocol::{
    Access, Backend, BoundSlice, CopyOut, Cursor, Custom, DropSink, Error, Failure, FailureRef,
    Landing, Op, PageError, PageId, Point, QueueId, Reason, SliceId, Table, Task, VecLanding,
};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::mailbox;
use millstream_sync::reply::reply;
use millstream_sync::slots::{SlotId, Slots};

use super::script::{Call, Ledger, Script};
use crate::server::device::Device;
use millstream_state::memory::PageSource;
use millstream_state::objects::Objects;
use millstream_state::observers::log_writer::LogWriter;

/// Creates a device whose log is on, and changes what its backend does.
fn device(script: impl FnOnce(&mut Ledger)) -> Device<Script> {
    let mut ledger = Ledger::default();
    script(&mut ledger);
    let backend = Script::new(ledger, 1, 1 << 10, &table());
    Device::new(backend, Some(Box::new(LogWriter::new("script", 1 << 10))))
}

fn table() -> Arc<Table> {
    let (sender, _) = mailbox(2, Arc::new(Gate::new()));
    Slots::new(2, DropSink::new(sender.probe(), Arc::default()))
}

fn at(cursor: Cursor) -> Point {
    Point::new(QueueId(0), cursor)
}

fn bound() -> BoundSlice {
    BoundSlice {
        page: Some(PageId(0)),
        offset: 0,
        len: 4,
        access: Access::Read,
        slice: SliceId(SlotId {
            index: 0,
            generation: 0,
        }),
        slice_offset: 0,
    }
}

#[test]
fn refused_task_fails_alone_i7() {
    let mut device = device(|ledger| ledger.refuse_copy = Some(0));
    let objects = Objects::default();
    let mut task = Task::new(None, Op::Copy);
    let bindings = [bound(), bound()];
    let failure = device.call(&mut task, &objects.names, &table(), &bindings, at(1));
    let failure = failure.expect_err("the backend refuses the copy");
    assert_eq!(failure.reason, Reason::Refused("scripted".into()));
    assert_eq!(&*failure.task, "copy");
    assert!(!device.is_lost() && !device.has_ended());
    assert!(device.is_logged(), "the log goes on");
}

/// I7: the code of a refused custom task is dropped on the device's turn, which a panic of its destructors does not end.
#[test]
fn panic_in_the_drop_of_refused_code_is_contained_i7() {
    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("a destructor that panics");
        }
    }

    let owned = PanicsOnDrop;
    let custom = Custom {
        name: "boom".into(),
        work: Box::new(move |_| {
            std::mem::forget(owned);
            Ok(())
        }),
    };
    let mut device = device(|_| ());
    let mut task = Task::new(None, Op::Custom(Box::new(custom)));
    let objects = Objects::default();
    let failure = device.call(&mut task, &objects.names, &table(), &[], at(1));
    let failure = failure.expect_err("the backend refuses the task");
    assert_eq!(failure.reason, Reason::Refused("scripted".into()));
}

/// I5: a caller that is answered after the loss finds the device lost, and the log of its messages.
#[test]
fn loss_is_visible_with_its_log_and_no_page_is_touched_after_it_i5() {
    let mut device = device(|ledger| ledger.lost = true);
    assert!(!device.wait(QueueId(0), at(3)), "going on would break I2");
    assert!(device.is_lost() && device.has_ended());
    assert!(device.gone.lost().is_some());
    assert!(device.gone.take_log().is_some() && !device.is_logged());
    assert_eq!(device.allocate_page(64), Err(PageError::Lost));
    // The backend's memory fails if a page of a lost device is freed.
    device.free_page(PageId(0));
    assert_eq!(device.backend.ledger.page_requests, 0);
}

#[test]
fn page_allocation_that_reports_the_loss_ends_the_epoch_i5() {
    let mut device = device(|ledger| ledger.lost = true);
    assert_eq!(device.allocate_page(64), Err(PageError::Lost));
    assert!(device.is_lost());
}

#[test]
fn caller_receives_the_root_failure_or_the_end_of_the_device_i7() {
    let mut device = device(|_| ());
    let root = Failure::panicked(&"blur".into(), "index 9".into());
    let later = Failure::input(&"copy out".into(), root.clone());
    let error = device.error_of(later.clone());
    assert!(matches!(error, Error::Failed(failure) if failure == root));
    device.close();
    assert!(!matches!(device.error_of(later), Error::Failed(_)));
}

/// A read of two slices takes two cursors. If the backend refuses the first copy, the task fails as a whole; if it refuses the
/// second, its cursor is marked, and its part of the answer fails.
#[test]
fn read_keeps_its_cursors_if_one_of_its_copies_is_refused_i6() {
    let read = |refused| {
        let mut device = device(|ledger| ledger.refuse_copy = Some(refused));
        let failed = read_two(&mut device).is_err();
        (failed, device.backend.ledger.calls.clone())
    };
    assert_eq!(read(0), (true, vec![]));
    let calls = vec![Call::Other(0, "copy out"), Call::Other(0, "mark")];
    assert_eq!(read(1), (false, calls));
}

fn read_two(device: &mut Device<Script>) -> Result<(), FailureRef> {
    let page = device.backend.allocate(64).expect("there is memory");
    let slice = bound().slice;
    device.backend.slice_reserved(slice, Some(page), 0, 64);
    let landing = || VecLanding::<u8>::new(4).expect("4 bytes") as Arc<dyn Landing>;
    let (reply, _answer) = reply();
    let copy = CopyOut {
        landings: [landing(), landing()].into_iter().collect(),
        reply,
        tag: None,
    };
    let bindings = [bound(), bound()];
    device.copy_out(&copy, &"copy out".into(), (&bindings, &[]), (at(1), 0..2))
}
