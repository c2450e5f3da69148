//! The device without a server: the effects of refusals and of a loss.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::backend::{Backend, BoundSlice, Compiler, HostData, Launch, TaskPoint};
use millstream_protocol::error::{Error, Refused};
use millstream_protocol::failure::{Failure, FailureRef, Reason};
use millstream_protocol::id::{Cursor, Point, QueueId, SliceId};
use millstream_protocol::landing::{Landing, VecLanding};
use millstream_protocol::launch::Pattern;
use millstream_protocol::layout::Strided;
use millstream_protocol::memory::{PageError, PageId};
use millstream_protocol::message::{CopyOut, Custom, CustomWork, Op, Task};
use millstream_protocol::properties::DeviceProperties;
use millstream_protocol::table::{DropSink, Table};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::mailbox;
use millstream_sync::reply::reply;
use millstream_sync::slots::{SlotId, Slots};
use millstream_sync::timeline::Timeline;

use super::Device;
use millstream_state::memory::PageSource;
use millstream_state::objects::Objects;
use millstream_state::observers::log_writer::LogWriter;

/// A backend whose calls return the scripted results of a test, in order, and `Ok` once there are none left.
struct Scripted {
    results: VecDeque<Result<(), Refused>>,
    calls: Vec<(&'static str, u64)>,
    properties: DeviceProperties,
    timeline: Arc<Timeline>,
}

impl Scripted {
    fn answer(&mut self, call: &'static str, cursor: Cursor) -> Result<(), Refused> {
        self.calls.push((call, cursor));
        self.results.pop_front().unwrap_or(Ok(()))
    }
}

impl Backend for Scripted {
    type Resources = ();

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn timeline(&self, _: QueueId) -> &Arc<Timeline> {
        &self.timeline
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        unreachable!("the server compiles nothing")
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        let allocated = self.answer("allocate", bytes);
        allocated.map_err(|_| PageError::Lost).map(|()| PageId(0))
    }

    fn free(&mut self, _: PageId) {
        self.calls.push(("free", 0));
    }

    fn launch(&mut self, _: QueueId, cursor: Cursor, _: &Launch<'_>) -> Result<(), Refused> {
        self.answer("launch", cursor)
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        _: &BoundSlice,
        _: Option<&Strided>,
        _: HostData,
    ) -> Result<(), Refused> {
        self.answer("copy in", place.cursor)
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        _: &BoundSlice,
        _: Option<&Strided>,
        _: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        self.answer("copy out", place.cursor)
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        _: &BoundSlice,
        _: &BoundSlice,
    ) -> Result<(), Refused> {
        self.answer("copy", place.cursor)
    }

    fn fill(&mut self, place: TaskPoint<'_>, _: &BoundSlice, _: Pattern) -> Result<(), Refused> {
        self.answer("fill", place.cursor)
    }

    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        _: &[BoundSlice],
        _: CustomWork,
    ) -> Result<(), Refused> {
        self.answer("custom", place.cursor)
    }

    fn resources(&mut self, _: &[BoundSlice]) -> Result<Box<()>, Refused> {
        self.answer("resources", 0).map(Box::new)
    }

    fn mark(&mut self, _: QueueId, cursor: Cursor) {
        self.calls.push(("mark", cursor));
    }

    fn queue_wait(&mut self, _: QueueId, point: Point) -> Result<(), Refused> {
        self.answer("wait", point.cursor)
    }

    fn flush(&mut self, _: QueueId, cursor: Cursor) {
        self.calls.push(("flush", cursor));
    }
}

fn device(results: impl IntoIterator<Item = Result<(), Refused>>) -> Device<Scripted> {
    let backend = Scripted {
        results: results.into_iter().collect(),
        calls: Vec::new(),
        properties: DeviceProperties {
            backend: "scripted",
            name: "scripted".into(),
            queues: 1,
            queue_priorities: Vec::new(),
            compute_units: 1,
            alignment: 16,
            pitch_alignment: 16,
            memory_bytes: None,
            max_allocation_bytes: 1 << 20,
            max_cube_count: [u32::MAX; 3],
            max_bindings: 8,
            max_queue_depth: 8,
            features: Default::default(),
        },
        timeline: Arc::default(),
    };
    Device::new(backend, Some(Box::new(LogWriter::new("scripted", 1 << 10))))
}

fn calls(device: &Device<Scripted>) -> &[(&'static str, u64)] {
    &device.backend.calls
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

fn refused() -> Result<(), Refused> {
    Err(Refused::Task("too large".into()))
}

fn lost() -> Result<(), Refused> {
    Err(Refused::Lost("unplugged".into()))
}

#[test]
fn refused_task_fails_alone_i7() {
    let mut device = device([refused()]);
    let objects = Objects::default();
    let mut task = Task::new(None, Op::Copy);
    let bindings = [bound(), bound()];
    let failure = device.call(&mut task, &objects.names, &table(), &bindings, at(1));
    let failure = failure.expect_err("the backend refuses the copy");
    assert_eq!(failure.reason, Reason::Refused("too large".into()));
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
    let mut device = device([refused()]);
    let mut task = Task::new(None, Op::Custom(Box::new(custom)));
    let objects = Objects::default();
    let failure = device.call(&mut task, &objects.names, &table(), &[], at(1));
    let failure = failure.expect_err("the backend refuses the task");
    assert_eq!(failure.reason, Reason::Refused("too large".into()));
}

/// I5: a caller that is answered after the loss finds the device lost, and the log of its messages.
#[test]
fn loss_is_visible_with_its_log_and_no_page_is_touched_after_it_i5() {
    let mut device = device([lost()]);
    assert!(!device.wait(QueueId(0), at(3)), "going on would break I2");
    assert!(device.is_lost() && device.has_ended());
    assert!(device.gone.lost().is_some());
    assert!(device.gone.take_log().is_some() && !device.is_logged());
    assert_eq!(device.allocate_page(64), Err(PageError::Lost));
    device.free_page(PageId(0));
    assert_eq!(calls(&device), [("wait", 3)], "no call for a page");
}

#[test]
fn page_allocation_that_reports_the_loss_ends_the_epoch_i5() {
    let mut device = device([lost()]);
    assert_eq!(device.allocate_page(64), Err(PageError::Lost));
    assert!(device.is_lost());
}

#[test]
fn caller_receives_the_root_failure_or_the_end_of_the_device_i7() {
    let mut device = device([]);
    let root = Failure::panicked(&"blur".into(), "index 9".into());
    let later = Failure::input(&"copy out".into(), root.clone());
    let error = device.error_of(later.clone());
    assert!(matches!(error, Error::Failed(failure) if failure == root));
    device.close();
    assert!(!matches!(device.error_of(later), Error::Failed(_)));
}

/// A read of two slices takes two cursors. If the backend refuses the first copy, the task fails as a whole.
#[test]
fn read_fails_if_its_first_copy_is_refused_i6() {
    let mut device = device([refused()]);
    read_two(&mut device).expect_err("the first copy is refused");
    assert_eq!(calls(&device), [("copy out", 1)]);
}

/// If the backend refuses the second copy, its cursor is marked, and its part of the answer fails.
#[test]
fn read_keeps_the_cursor_of_its_second_copy_if_that_is_refused_i6() {
    let mut device = device([Ok(()), refused()]);
    read_two(&mut device).expect("the first copy runs");
    let expected = [("copy out", 1), ("copy out", 2), ("mark", 2)];
    assert_eq!(calls(&device), expected);
}

fn read_two(device: &mut Device<Scripted>) -> Result<(), FailureRef> {
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
