//! The driver refuses one call. The request that needs the call receives the error, all others continue, and nothing
//! leaks.

use std::ops::Deref;
use std::sync::{Arc, mpsc};

use ash::vk;
use millstream::ir::Program;
use millstream::vulkan::{Vulkan, VulkanResources};
use millstream::{Access, Device, DeviceOptions, Error, Handle, Health, Kernel};

use millstream_vulkan_faults::program::{self, PATIENCE, all_in_flight};
use millstream_vulkan_faults::{Checked, Fault, Session, unavailable};
use rstest::rstest;

/// A session and the messages of the validation layer. At its end, after the later locals of a test are dropped, nothing
/// is wrong.
pub(crate) struct Tested {
    session: Option<Session>,
    pub(crate) checked: Checked,
    /// Whether objects may be left: a device that was closed while it made no progress leaks them by contract.
    pub(crate) may_leak: bool,
}

impl Deref for Tested {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it has not ended")
    }
}

impl Drop for Tested {
    fn drop(&mut self) {
        let mut wrong = self.session.take().map_or(Vec::new(), Session::end);
        wrong.retain(|report| !(self.may_leak && report.starts_with("leak: ")));
        wrong.extend(self.checked.take());
        assert!(
            std::thread::panicking() || wrong.is_empty(),
            "{}",
            wrong.join("\n")
        );
    }
}

/// Returns a session, or `None` if this machine has no Vulkan device.
pub(crate) fn session() -> Option<Tested> {
    let session = Session::begin();
    let is_there = unavailable().is_none();
    let session = session.filter(|_| is_there)?;
    Some(Tested {
        session: Some(session),
        checked: Checked::default(),
        may_leak: false,
    })
}

/// Returns a refusal of the `nth` call of a function, or of any, once.
pub(crate) fn fault(call: Option<&'static str>, nth: u64, result: vk::Result) -> Fault {
    Fault {
        call,
        nth,
        result,
        lasts: false,
    }
}

/// How a device is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Threads,
    Driven,
}

/// I5, I7, I10: refuses each driver call of a program in turn, from the first of opening to the last of closing.
#[rstest]
fn each_refused_driver_call_is_a_typed_error_and_leaks_nothing_i5_i10(
    #[values(
        vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        vk::Result::ERROR_DEVICE_LOST
    )]
    result: vk::Result,
    #[values(Mode::Threads, Mode::Driven)] mode: Mode,
) {
    // A refusal that does not last: a driver may report a loss late.
    refuse_each(result, false, mode);
}

/// I5, I7, I10: as above, for opening and closing a device that cannot compare its clock with the host's.
#[test]
fn each_refused_driver_call_of_an_opening_without_calibration_leaks_nothing_i5_i10() {
    for nth in 1.. {
        let Some(session) = session() else { return };
        session.hide(ash::ext::calibrated_timestamps::NAME);
        session.hide(ash::khr::calibrated_timestamps::NAME);
        session.refuse(fault(None, nth, vk::Result::ERROR_OUT_OF_HOST_MEMORY));
        let has_failed = Device::open(session.checked.options(2)).is_err();
        if session.refused() == 0 {
            assert!(!has_failed && nth > 15, "it makes {nth} calls");
            break;
        }
    }
}

/// I1: a device that cannot compare its clock with the host's times its tasks on an axis of each queue, in their order.
#[test]
fn spans_without_calibration_are_in_the_order_of_their_queue_i1() {
    let Some(session) = session() else { return };
    session.hide(ash::ext::calibrated_timestamps::NAME);
    session.hide(ash::khr::calibrated_timestamps::NAME);
    let options = DeviceOptions::default().trace(100);
    let device = Device::open_with(session.checked.options(1), options).unwrap();
    let stream = device.new_client().new_stream();
    let values = stream.empty::<u32>(1000).unwrap();
    for value in 0..20 {
        stream.fill(&values, value).unwrap();
        if value == 9 {
            stream.sync().wait().unwrap();
        }
    }
    stream.sync().wait().unwrap();
    let spans = device.trace().unwrap();
    assert_eq!(spans.len(), 20);
    assert!(spans.iter().all(|span| span.start_ns <= span.end_ns));
    let mut pairs = spans.windows(2);
    assert!(
        pairs.all(|pair| pair[0].end_ns <= pair[1].start_ns),
        "{spans:?}"
    );
}

/// I5: a loss that the driver reports for an allocation is a loss, not missing memory.
#[rstest]
fn loss_reported_by_an_allocation_loses_the_device_i5(
    #[values("vkAllocateMemory", "vkMapMemory", "vkBindBufferMemory")] call: &'static str,
) {
    let Some(session) = session() else { return };
    let device = Device::open(session.checked.options(1)).unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    // Once, as a driver may: another kind of memory must not hide it.
    session.refuse(fault(Some(call), 1, vk::Result::ERROR_DEVICE_LOST));
    let values = stream.empty::<u8>(8 << 20).unwrap();
    let answer = stream.fill(&values, 1).and_then(|()| stream.sync().wait());
    assert!(
        matches!(answer, Err(Error::DeviceLost { epoch: 0, .. })),
        "{answer:?}"
    );
    assert_eq!(session.refused(), 1);
    after_a_loss(1, &device);
}

/// I5, I10: a kernel whose second entry point is refused leaves no pipeline of the first.
#[test]
fn refused_entry_point_takes_the_pipelines_before_it_along_i5_i10() {
    let Some(session) = session() else { return };
    let device = Device::open(session.checked.options(1)).unwrap();
    let client = device.new_client();
    // The kinds of its launches are a thread, a row of lanes, and a cube for each sum.
    let sums = "nest outer 1 inner 1 words 2
        buffer 0 f32 read  buffer 1 f32 write
        access 0 = buffer 0 [w1 1]  access 1 = buffer 1 [1 0]
        %0 f32 = load 0  %1 f32 = reduce sum %0
        store outer 1 %1";
    let sums = Arc::new(Program::Nest(millstream_ir_text::nest(sums).unwrap()));
    let prepared = || client.kernel(Kernel::from_program("sums", sums.clone()).unwrap());
    let before = session.alive("Pipeline");
    let result = vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
    session.refuse(fault(Some("vkCreateComputePipelines"), 2, result));
    assert!(prepared().is_err());
    assert_eq!(session.refused(), 1);
    assert_eq!(session.alive("Pipeline"), before);
    let _kernel = prepared().unwrap();
    assert!(session.alive("Pipeline") >= before + 2);
}

/// I5, I7, I10: as the first test; from the refused call on, every call reports the loss.
#[rstest]
fn loss_at_each_driver_call_is_a_typed_error_and_leaks_nothing_i5_i10(
    #[values(Mode::Threads, Mode::Driven)] mode: Mode,
) {
    refuse_each(vk::Result::ERROR_DEVICE_LOST, true, mode);
}

/// Refuses each call in turn. Unless `MILLSTREAM_ALL_CASES` is set, every second one, and the others in the other mode.
fn refuse_each(result: vk::Result, lasts: bool, mode: Mode) {
    let is_driven = mode == Mode::Driven;
    let (first, step) = match std::env::var_os("MILLSTREAM_ALL_CASES") {
        Some(_) => (1, 1),
        None => (1 + usize::from(is_driven != lasts), 2),
    };
    for nth in (first as u64..).step_by(step) {
        let Some(mut session) = session() else { return };
        session.refuse(Fault {
            lasts,
            ..fault(None, nth, result)
        });
        // The layer finds the same with each result, and after a loss in each mode, and takes most of the time.
        let is_validated = match lasts {
            true => mode == Mode::Driven,
            false => result == vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        };
        if !is_validated {
            session.checked = Checked::without_layer();
        }
        let failed = match mode {
            Mode::Threads => threaded(nth, &session.checked),
            Mode::Driven => driven(nth, &session.checked),
        };
        if session.refused() == 0 {
            let replays = session.counts().get("vkCmdExecuteCommands").copied();
            assert!(
                replays > Some(0),
                "no replay executes a secondary command buffer"
            );
            assert!(
                !failed && nth > 100,
                "without a fault the program succeeds and makes more than 100 calls; it made {nth}"
            );
            break;
        }
    }
}

/// Runs the program on a device with threads. Returns `true` if a request failed.
fn threaded(nth: u64, checked: &Checked) -> bool {
    let device = match Device::open_with(checked.options(2), all_in_flight()) {
        Ok(device) => device,
        Err(why) => {
            assert!(why.to_string().contains("vulkan"), "call {nth}: {why}");
            return true;
        }
    };
    let failed = ran(nth, &device);
    after_a_loss(nth, &device);
    let report = device.close(PATIENCE);
    assert_eq!(
        (report.threads_left, report.bytes_left),
        (0, 0),
        "call {nth}: {report:?}"
    );
    failed
}

/// Runs the program on a driven device. Returns `true` if a request failed.
fn driven(nth: u64, checked: &Checked) -> bool {
    let opened = Device::open_driven(checked.options(2), all_in_flight());
    let (device, driver) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            assert!(why.to_string().contains("vulkan"), "call {nth}: {why}");
            return true;
        }
    };
    let failed = ran(nth, &device);
    after_a_loss(nth, &device);
    drop((device, driver));
    failed
}

/// Runs the program. Returns `true` if a request failed.
fn ran(nth: u64, device: &Device) -> bool {
    match program::run(device) {
        Ok(()) => false,
        Err(why) => {
            assert!(
                !matches!(why, Error::TimedOut { .. }),
                "call {nth}: a request is not answered"
            );
            true
        }
    }
}

/// A lost device can be opened again, and works.
pub(crate) fn after_a_loss(nth: u64, device: &Device) {
    if let Health::Lost { .. } = device.health() {
        device
            .reopen()
            .unwrap_or_else(|why| panic!("call {nth}: {why}"));
        program::run(device).unwrap_or_else(|why| panic!("call {nth}: {why}"));
    }
}

/// Sends the name of the thread that drops it.
struct Reports(mpsc::Sender<Option<String>>);

impl Drop for Reports {
    fn drop(&mut self) {
        let thread = std::thread::current();
        self.0.send(thread.name().map(str::to_owned)).ok();
    }
}

/// I6: what a custom task leaves on the device's turn is dropped on the GC thread: the payload of its panic, the code of a
/// task that the driver refuses, and code for a submission that it refuses.
#[test]
fn panics_and_refused_code_of_custom_tasks_are_dropped_on_the_gc_thread_i6() {
    let Some(session) = session() else { return };
    let device = Device::open(session.checked.options(1)).unwrap();
    let stream = device.new_client().new_stream();
    let (sender, dropped) = mpsc::channel::<Option<String>>();
    let is_dropped_elsewhere = || {
        let thread = dropped.recv_timeout(PATIENCE).unwrap();
        assert_eq!(thread.as_deref(), Some("millstream-gc"));
    };
    let submit = |work: Box<dyn FnOnce(&VulkanResources) + Send>| {
        let nothing: [(&Handle<u8>, Access); 0] = [];
        let submitted = stream.with_resource::<Vulkan>("custom", nothing.as_slice(), work);
        submitted.map_err(|returned| returned.error).unwrap();
    };
    let refuse = |call: &'static str| {
        let result = vk::Result::ERROR_OUT_OF_HOST_MEMORY;
        session.refuse(fault(Some(call), 1, result));
    };
    let payload = Reports(sender.clone());
    submit(Box::new(move |_| std::panic::panic_any(payload)));
    is_dropped_elsewhere();
    stream.sync().wait().unwrap();
    refuse("vkBeginCommandBuffer");
    let owned = Reports(sender.clone());
    submit(Box::new(move |_| drop(owned)));
    is_dropped_elsewhere();
    assert_eq!(session.refused(), 1);
    stream.sync().wait().unwrap();
    refuse("vkQueueSubmit2");
    let owned = Reports(sender);
    submit(Box::new(move |resources| {
        resources.when_submitted(move |_| drop(owned));
    }));
    is_dropped_elsewhere();
    assert_eq!(session.refused(), 1);
}
