//! A game loop: the device runs on the frame's own thread, and results come some frames later.
//!
//! `cargo run --release --example frames`

use std::time::Duration;

use millstream::{Cpu, CubeCount, Device, DeviceOptions, Kernel, readbacks, update};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // No thread is started: everything runs inside `pump`.
    let (device, mut driver) = Device::open_driven(Cpu::default(), DeviceOptions::default())?;
    let client = device.client();
    let stream = client.stream();
    let step = client.kernel(
        Kernel::new("step")
            .updates::<f32>("heights")
            .scalar::<f32>("dt")
            .native(|_cube, args| {
                let dt: f32 = args.scalar(0);
                for height in args.chunk::<f32>(0) {
                    *height -= 9.81 * dt;
                }
            }),
    )?;
    let heights = stream.create(&vec![100.0_f32; 4_096])?;
    // The step is checked and resolved once; each frame replays it as one message.
    let frame = stream.record(|recorder| {
        recorder.launch(
            &step,
            CubeCount::cover(4_096, 1_024),
            (update(&heights), 0.016_f32),
        )
    })?;
    let (sender, results) = readbacks::<f32, u32>(4);
    for number in 0..10_u32 {
        frame.replay(&stream)?;
        if sender.read(&stream, &heights, number).is_err() {
            println!("frame {number}: the reader is behind, no readback this time");
        }
        driver.pump(Duration::from_micros(500));
        while let Some(done) = results.try_next() {
            println!(
                "frame {number}: frame {} ended at height {:.3}",
                done.tag, done.elements?[0]
            );
        }
    }
    println!("{:?}", driver.close());
    Ok(())
}
