//! I8: a frame of a game never blocks. On a driven device it submits, pumps and takes finished readbacks, and the
//! system never puts its thread to sleep.

use std::time::Duration;

use millstream::{Cpu, CubeCount, Device, DeviceOptions, Kernel, stream::readbacks, update};

/// Returns the number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Returns how often the calling thread has gone to sleep.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("voluntary"))
        .unwrap();
    line.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn a_frame_of_a_driven_device_never_sleeps_and_starts_no_thread_i8_i11() {
    super::alone(module_path!(), || {
        if !std::path::Path::new("/proc/thread-self/status").exists() {
            return;
        }
        let before = threads();
        let (device, mut driver) =
            Device::open_driven(Cpu::default(), DeviceOptions::default()).unwrap();
        let (client, (sender, mut frames)) = (device.new_client(), readbacks::<u32, u32>(3));
        let stream = client.new_stream();
        let values = stream.create(&vec![0_u32; 256]).unwrap();
        let step = Kernel::new("step")
            .updates::<u32>("values")
            .native(|_, args| {
                args.chunk::<u32>(0)
                    .iter_mut()
                    .for_each(|value| *value += 1);
            });
        let step = client.kernel(step).unwrap();
        let mut taken = 0;
        let mut frame = |number: u32| {
            for _ in 0..4 {
                stream
                    .nowait()
                    .launch(&step, CubeCount::d1(4), (update(&values),))
                    .unwrap();
            }
            // While two frames are behind, this one is not read.
            let _ = sender.read(&stream, &values, number);
            driver.pump(Duration::from_millis(5));
            while let Some(done) = frames.try_next() {
                let value = 4 * (done.tag + 1);
                assert_eq!(done.elements.unwrap(), vec![value; 256]);
                taken += 1;
            }
        };
        // The thread rarely sleeps for other reasons, such as a page fault.
        let mut number = 0;
        let quiet = (0..20).any(|_| {
            let slept = sleeps();
            for _ in 0..50 {
                frame(number);
                number += 1;
            }
            sleeps() == slept
        });
        assert!(quiet, "the frame's thread went to sleep");
        assert_eq!(threads(), before, "a thread was started");
        assert!(taken > 0, "no frame of {number} came back");
        driver.close();
    });
}
