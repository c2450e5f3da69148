//! Tests that need only one kind of device: options, limits, and user code that misbehaves on host threads.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use millstream::{
    CancelToken, Cpu, CpuResources, CubeCount, Device, DeviceOptions, Error, Kernel, OpenError,
    error::Full, read, update, write,
};
use rstest::rstest;

use crate::support::*;

#[test]
fn invalid_options_are_refused() {
    let zero = Device::open_with(Cpu::default(), DeviceOptions::default().max_tasks(0));
    let message = zero.unwrap_err().to_string();
    assert_eq!(message, "option `max_tasks` must be at least 1, got 0");
    let cpu = Cpu::default;
    for invalid in [cpu().queues(0), cpu().queues(10_000), cpu().threads(0)] {
        assert!(matches!(
            Device::open(invalid),
            Err(OpenError::Option { .. })
        ));
    }
}

/// I5: user code that does not end cannot delay a close beyond its time limit.
#[test]
fn a_callback_that_does_not_end_is_left_behind_by_a_close() {
    let rig = On::Cpu.open();
    let stream = rig.client().new_stream();
    let values = stream.put(&[0_u32]);
    let valve = Valve::new();
    let held = valve.clone();
    stream.read(&values).on_ready(move |_| held.pass()).unwrap();
    valve.wait_for_arrivals(1);
    let report = rig.device.close(Duration::from_millis(500));
    assert!(report.threads_left == 1, "{report:?}");
    valve.open();
}

/// A waker is user code on a thread of the runtime; its panic is caught.
#[test]
fn panicking_waker_affects_no_other_call() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("waker panics"));
        }
    }
    let rig = On::Cpu.open();
    let client = rig.client();
    let valve = rig.valve();
    let (held, stream) = (held(&client, &valve), client.new_stream());
    let values = stream.put(&[0_u32]);
    held.launch(&stream, &values).unwrap();
    valve.wait_for_arrivals(1);
    let mut answer = stream.read(&values);
    let waker = std::task::Waker::from(Arc::new(Panics));
    let mut context = std::task::Context::from_waker(&waker);
    while answer.try_take().is_none()
        && std::future::Future::poll(std::pin::Pin::new(&mut answer), &mut context).is_pending()
    {
        valve.open();
    }
    assert_eq!(stream.get(&values), [1]);
}

/// I4, I10: a million live slices work and are all freed.
#[test]
fn a_million_live_slices_resolve() {
    let rig = On::Cpu.open();
    let client = rig.client();
    let (set, stream) = (set(&client), client.new_stream());
    let slices: Vec<_> = (0..1_000_000)
        .map(|_| stream.empty::<u32>(1).unwrap())
        .collect();
    let some = || (0_u32..).zip(&slices).step_by(9_973);
    for (index, slice) in some() {
        stream.launch(&set, one(), to(slice, index)).unwrap();
    }
    for (index, slice) in some() {
        assert_eq!(stream.get(slice), [index]);
    }
    assert_eq!(rig.stats().memory.live_slices, 1_000_000);
    drop(slices);
    stream.drain();
    assert_eq!(rig.stats().memory.live_slices, 0);
}

/// I12: `create` is two messages; if the mailbox has room for one, a call that does not wait sends neither.
#[test]
fn create_without_room_for_both_of_its_messages_submits_neither_i12() {
    let options = DeviceOptions::default().mailbox_capacity(4);
    let (device, driver) = Device::open_driven(Cpu::default(), options).unwrap();
    let client = device.client_builder().hard_limit(1 << 20).build();
    let stream = client.new_stream();
    let values = stream.put(&[0_u32; 4]);
    let large = vec![1_u32; 40_000];
    let mut refused = 0;
    for sent in 0..=4 {
        for call in 0..4 {
            stream.drain();
            for _ in 0..sent {
                stream.nowait().fill(&values, 1).unwrap();
            }
            let token = CancelToken::new();
            let nowait = stream.with_cancel(&token).nowait();
            let created = match call {
                0 => nowait.create(&[1_u32]).map(drop),
                1 => nowait.create(&large).map(drop),
                2 => nowait
                    .create_owned(large.clone())
                    .map(drop)
                    .map_err(|returned| {
                        assert_eq!(returned.value.len(), large.len());
                        returned.error
                    }),
                _ => nowait.point().map(drop),
            };
            let accepted = token.tally().accepted;
            match created {
                Ok(()) => assert!(accepted > 0, "{sent} sent, call {call}"),
                Err(Error::Busy { what }) => {
                    assert!(matches!(what, Full::Mailbox { .. }), "{what}");
                    assert_eq!(accepted, 0, "{sent} sent, call {call}: it submitted a task");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(refused, 8, "with room for no and for one message");
    // Nothing is charged for what was refused.
    stream.drain();
    let all = stream.create_owned(vec![2_u8; (1 << 20) - 16]).unwrap();
    assert_eq!(stream.get(&all).len(), (1 << 20) - 16);
    drop((values, all, stream, client, device, driver));
}

/// I5: on a driven device a kernel that submits into a full mailbox gets an error and does not hang.
#[test]
fn kernel_that_submits_into_its_own_full_mailbox_gets_an_error() {
    let rig = On::CpuDriven.open_with(DeviceOptions::default().mailbox_capacity(4));
    let client = rig.client();
    let stream = client.new_stream();
    let (inner, values) = (client.new_stream(), stream.put(&[0_u32]));
    let (sender, receiver) = mpsc::channel();
    let mine = values.clone();
    let submits = Kernel::new("submits")
        .updates::<u32>("v")
        .native(move |_, _| {
            let refused = (0..100).find_map(|value| inner.fill(&mine, value).err());
            sender.send(refused).unwrap();
        });
    let submits = client.kernel(submits).unwrap();
    stream.launch(&submits, one(), (update(&values),)).unwrap();
    stream.drain();
    let error = receiver.recv().unwrap().unwrap();
    assert!(matches!(error, Error::NoRoomHere { .. }), "{error}");
    assert_eq!(error.retry_after(), None);
    let advice = "cannot wait for room; submit from a thread of your own";
    assert!(error.to_string().ends_with(advice), "{error}");
}

/// A soft limit above the hard limit is lowered to it, since it could never be reached.
#[test]
fn a_soft_limit_is_at_most_the_hard_one() {
    let rig = On::Cpu.open();
    let builder = rig.device.client_builder().hard_limit(1_000);
    let client = builder.soft_limit(5_000).build();
    client.new_stream().drain();
    let report = client.memory_usage().wait().unwrap();
    assert_eq!(report.clients[0].soft_limit, Some(1_000));
}

/// Each crossing of a soft limit logs one warning, however many slices are above it.
#[test]
fn each_crossing_of_a_soft_limit_logs_one_warning() {
    // A driven device runs on this thread, so it logs to this thread's subscriber.
    let text = logged(|| {
        let rig = On::SimDriven.open();
        let builder = rig.device.client_builder().name("limited");
        let stream = builder.soft_limit(1_024).build().new_stream();
        for _ in 0..2 {
            let slices = [(); 4].map(|()| stream.empty::<u8>(1_024).unwrap());
            stream.drain();
            drop(slices);
            stream.drain();
        }
    });
    let warnings: Vec<_> = text.lines().filter(|line| line.contains("WARN")).collect();
    let is_expected = |line: &&str| line.contains("the client is above its soft limit");
    assert_eq!(warnings.iter().filter(|line| is_expected(line)).count(), 2);
    assert_eq!(warnings.len(), 2, "{text}");
}

/// A single argument needs no tuple, and cube counts may be numbers, tuples, arrays or borrowed.
#[rstest]
#[case::cpu(On::Cpu)]
#[case::sim(On::Sim)]
fn arguments_and_counts_have_short_forms(#[case] on: On) {
    let (_rig, client, stream) = on.start();
    let kernel = Kernel::new("add_one")
        .updates::<u32>("values")
        .native(|_, args| {
            args.chunk::<u32>(0)
                .iter_mut()
                .for_each(|value| *value += 1);
        });
    let add_one = client.kernel(kernel).unwrap();
    let values = stream.put(&[0_u32; 64]);
    let count = CubeCount::cover(values.len(), 16);
    stream.launch(&add_one, &count, update(&values)).unwrap();
    #[allow(unused_parens, reason = "parentheses that look like a tuple must work")]
    stream.launch(&add_one, &count, (update(&values))).unwrap();
    stream.launch(&add_one, count, &values).unwrap();
    stream.launch(&add_one, 4, [update(&values)]).unwrap();
    stream.launch(&add_one, [2, 2], (update(&values),)).unwrap();
    let cubes = [4, 1, 1];
    stream.launch(&add_one, cubes, (update(&values),)).unwrap();
    stream.launch(&add_one, (1, 2, 2), update(&values)).unwrap();
    stream.host("reads", read(&values), || ()).unwrap();
    assert_eq!(stream.get(&values), [7; 64]);
}

#[test]
fn usize_and_isize_scalars_are_64_bits_wide() {
    let rig = On::Cpu.open();
    let client = rig.client();
    let kernel = Kernel::new("takes")
        .writes::<u64>("out")
        .scalar::<u64>("len")
        .scalar::<i64>("shift")
        .scalar::<u8>("flag")
        .native(|_, args| {
            let sum = args.scalar::<u64>(0) + args.scalar::<i64>(1) as u64;
            args.chunk::<u64>(0)[0] = sum + u64::from(args.scalar::<u8>(2));
        });
    let (kernel, stream) = (client.kernel(kernel).unwrap(), client.new_stream());
    let out = stream.empty::<u64>(1).unwrap();
    let (len, shift) = (500_usize, 30_isize);
    let arguments = (write(&out), len, shift, true);
    stream.launch(&kernel, 1, arguments).unwrap();
    assert_eq!(stream.get(&out), [531]);
    let refused = stream.launch(&kernel, 1, (write(&out), 5, shift, true));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "`takes` was not accepted: scalar `len` is declared as u64, got i32: write a literal as `5_u64`, and a value as `value as u64`"
    );
}

/// `?` in the closure of `try_profiled` needs no type annotation, and an error of the closure is returned.
#[test]
fn fallible_closure_is_profiled_and_its_error_is_returned() {
    let rig = On::Cpu.open();
    let stream = rig.client().new_stream();
    let values = stream.put(&[0_u32; 8]);
    let profiled = stream.try_profiled(|stream| {
        stream.fill(&values, 1)?;
        Ok(3)
    });
    let (made, profile) = profiled.unwrap();
    assert_eq!((made, profile.wait().unwrap().tasks), (3, 1));
    let failed = stream.try_profiled(|stream| {
        stream.fill(&values, 1)?;
        stream.copy(&values, &values)
    });
    assert!(matches!(failed.map(drop), Err(Error::Argument(_))));
}

/// I6: a closed device returns refused code to the caller, which can submit it again.
#[test]
fn closed_device_returns_refused_code_to_the_caller() {
    let rig = On::Cpu.open_with(DeviceOptions::default().max_jobs(1));
    let stream = rig.client().new_stream();
    let values = stream.put(&[5_u32]);
    stream.drain();
    let answer = stream.read(&values);
    let (sender, received) = mpsc::channel();
    assert!(rig.device.close(PATIENCE).drained);
    let sends = sender.clone();
    let work = move |_: &CpuResources| sends.send("work").unwrap();
    let refused = stream.with_resource::<Cpu>("work", (update(&values),), work);
    let refused = refused.unwrap_err();
    assert!(matches!(refused.error, Error::Closed));
    // The returned value is code for the same resources, so it can be submitted again.
    assert_closed(stream.with_resource::<Cpu>("work", (), refused.value));
    assert_eq!(answer.wait().unwrap(), [5]);
    drop(sender);
    assert!(received.recv().is_err(), "refused code ran");
}
