//! A child that was forked has its parent's devices, but none of their threads: each call returns an error instead of
//! waiting for ever (I5).

use std::time::Duration;

use millstream::backend::Open;
use millstream::sim::Sim;
use millstream::{
    Cpu, Device, DeviceOptions, Driver, Error, Health, Kernel, Stream, TensorSpec,
    error::ReopenError, stream::readbacks, update, write,
};

/// After this number of seconds a child that waits is ended by a signal.
const PATIENCE_S: u32 = 60;

/// Runs `child` in a forked child, and requires that it returns.
fn in_child(name: &str, child: impl FnOnce()) {
    // SAFETY: the child calls functions of this process, whose only other threads, those of devices and of the test
    // harness, hold no lock that it needs: they sleep.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: no handler is set, so the signal ends the child.
            unsafe { libc::alarm(PATIENCE_S) };
            let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            // SAFETY: ends the child without the exit handlers, which are the parent's.
            unsafe { libc::_exit(i32::from(passed.is_err())) };
        }
        process => {
            let mut status = 0;
            // SAFETY: the status is a local.
            let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
            assert_eq!(waited, process);
            assert!(
                !libc::WIFSIGNALED(status),
                "{name}: a call of the child hangs"
            );
            assert_eq!(libc::WEXITSTATUS(status), 0, "{name}: the child failed");
        }
    }
}

fn forked<T>(what: &str, outcome: Result<T, Error>) {
    match outcome {
        Err(error @ Error::Forked) => {
            let message = error.to_string();
            assert!(message.contains("spawn"), "{message}");
        }
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what} succeeded"),
    }
}

/// Makes each kind of call.
fn call_everything(device: &Device, full: &Stream, stream: &Stream) {
    let client = device.new_client();
    forked("sync", device.sync().wait());
    forked("stats", device.stats());
    forked("metrics", device.metrics());
    forked("memory", device.memory_usage());
    forked("log", device.take_log());
    forked("profile", device.start_profile());
    forked("kernel", client.kernel(Kernel::new("k").native(|_, _| {})));
    forked("stream", client.new_stream().sync().wait());
    let built = device.client_builder().max_tasks(2).build();
    forked("built", built.new_stream().sync().wait());
    forked("create", stream.create(&[1_u32]));
    forked("large create", stream.create(&[1_u32; 100_000]));
    forked("nowait", stream.nowait().create(&[1_u32]));
    forked("empty", stream.empty::<u32>(4));
    let tensors = [TensorSpec::dense(&[4]), TensorSpec::dense(&[4])];
    forked("tensors", stream.empty_tensors::<u32>(&tensors));
    forked(
        "tensors nowait",
        stream.nowait().empty_tensors::<u32>(&tensors),
    );
    forked("point", stream.point());
    forked("flush", stream.flush());
    forked("host", stream.host("h", (), || ()).map_err(|e| e.error));
    forked("drop_after", stream.drop_after(1).map_err(|e| e.error));
    let awaited = stream.when_ready(|stream| stream.empty::<u32>(4));
    forked("when_ready", pollster::block_on(awaited));
    forked("full stream", full.point());
}

fn survives_fork<O: Open>(name: &str, (device, driver): (Device, Option<Driver>)) {
    let client = device.client_builder().max_tasks(2).build();
    let (stream, other, full) = (
        device.new_client().new_stream(),
        device.new_client().new_stream(),
        client.new_stream(),
    );
    let values = stream.create(&[1_u32; 64]).unwrap();
    let guarded = stream.create(&[2_u32; 64]).unwrap();
    stream.sync().wait().unwrap();
    let guard = other.get_resource::<O>((update(&guarded),)).wait().unwrap();
    let late = other.write_later("late", &values).unwrap();
    // These wait for the guard: the stream is full, and the answers are outstanding.
    full.nowait().fill(&guarded, 1).unwrap();
    full.nowait().fill(&guarded, 1).unwrap();
    let mut outstanding = stream.read(&guarded);
    let (polled, called) = (stream.read(&guarded), stream.read(&guarded));
    let (sender, sequence) = readbacks::<u32, u32>(2);
    sender.read(&stream, &guarded, 7).unwrap();
    assert!(outstanding.try_take().is_none());
    let mut watch = device.watch_health();
    // The guard is dropped before its device, also if the child fails.
    let mut parts = Some((
        guard,
        late,
        outstanding,
        polled,
        called,
        sender,
        sequence,
        device,
        driver,
    ));
    in_child(name, || {
        let (guard, late, outstanding, polled, called, sender, mut sequence, device, driver) =
            parts.take().unwrap();
        call_everything(&device, &full, &stream);
        forked("fill", stream.fill(&values, 1));
        let custom = stream.with_resource::<O>("custom", (write(&values),), |_| ());
        forked("custom", custom.map_err(|returned| returned.error));
        forked("outstanding", outstanding.wait());
        forked("polled", pollster::block_on(polled));
        let refused = called.on_ready(|_| ()).map_err(|returned| returned.error);
        forked("on_ready", refused);
        forked(
            "readback",
            sender.read(&stream, &values, 8).map_err(|e| e.error),
        );
        assert!(sequence.wait_next().is_none());
        assert!(pollster::block_on(sequence.next()).is_none());
        assert!(matches!(
            watch.wait_timeout(Duration::MAX),
            Err(Error::Forked)
        ));
        assert_eq!(device.health(), Health::Closed);
        assert!(matches!(
            device.reopen(),
            Err(ReopenError::NotLost {
                health: Health::Closed
            })
        ));
        assert!(pollster::block_on(device.watch_health().changed()).is_none());
        assert!(late.is_over());
        let _ = late.send(vec![1_u32; 64]);
        drop((guard, sequence));
        drop((values, guarded, stream, other, full, client));
        let report = device.close(Duration::MAX);
        assert_eq!(report.tasks_left, 0);
        drop(device);
        if let Some(mut driver) = driver {
            assert!(!driver.pump(Duration::from_millis(1)));
        }
        // The child may open devices of its own.
        let own = Device::open(Cpu::default()).unwrap();
        let own_stream = own.new_client().new_stream();
        let own_values = own_stream.create(&[1_u32; 64]).unwrap();
        forked(
            "readback of the child's device by the parent's sequence",
            sender
                .read(&own_stream, &own_values, 9)
                .map_err(|e| e.error),
        );
        drop((sender, own_values, own_stream));
        let stream = own.new_client().new_stream();
        let values = stream.create(&[5_u32; 4]).unwrap();
        assert_eq!(stream.read(&values).wait().unwrap(), [5; 4]);
        drop((values, stream));
        own.close(Duration::MAX);
    });
    // The parent's device goes on.
    let (guard, late, outstanding, polled, called, _, _, device, driver) = parts.take().unwrap();
    drop((polled, called));
    late.send(vec![3_u32; 64]).unwrap();
    drop(guard);
    assert_eq!(outstanding.wait().unwrap(), [1; 64]);
    device.close(Duration::MAX);
    drop((device, driver));
}

#[test]
fn calls_of_a_forked_child_return_an_error_i5() {
    super::alone(module_path!(), || {
        fn driven<O: Open>(kind: O) -> (Device, Option<Driver>) {
            let (device, driver) = Device::open_driven(kind, DeviceOptions::default()).unwrap();
            (device, Some(driver))
        }
        survives_fork::<Cpu>("cpu", (Device::open(Cpu::default()).unwrap(), None));
        survives_fork::<Cpu>("driven cpu", driven(Cpu::default()));
        survives_fork::<Sim>("sim", (Device::open(Sim::seed(1)).unwrap(), None));
        survives_fork::<Sim>("driven sim", driven(Sim::seed(1)));
    });
}
