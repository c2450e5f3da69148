//! A small, complete backend, and a program that uses it.
//!
//! ```text
//! cargo run --release --example backend
//! ```
//! `tiny/mod.rs` implements the traits, and `tiny/queue.rs` runs tasks. The guide walks through both
//! (`docs/guide/backends.md`), and the conformance suite runs on the backend (`conformance.rs`):
//!
//! ```text
//! cargo test --example backend
//! ```

#[cfg(test)]
mod conformance;
mod tiny;

use millstream::{CubeCount, Device, Error, Kernel, read, write};
use tiny::Tiny;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(Tiny::default().memory_limit(1 << 30))?;
    let client = device.new_client();
    let invert = client.kernel(
        Kernel::new("invert")
            .reads::<f32>("src")
            .writes::<f32>("dst")
            .native(|_cube, args| {
                let (src, start) = (args.read::<f32>(0), args.chunk_start(1));
                for (offset, value) in args.chunk::<f32>(1).iter_mut().enumerate() {
                    let from = src[start + offset];
                    assert!(from != 0.0, "element {} is zero", start + offset);
                    *value = 1.0 / from;
                }
            }),
    )?;
    let inverted = |values: &[f32]| -> Result<Vec<f32>, Error> {
        let stream = client.new_stream();
        let src = stream.create(values)?;
        let dst = stream.empty::<f32>(src.len())?;
        stream.launch(
            &invert,
            CubeCount::cover(src.len(), 64),
            (read(&src), write(&dst)),
        )?;
        stream.read(&dst).wait()
    };
    // Four threads share the device.
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4)
            .map(|thread| scope.spawn(move || inverted(&vec![thread as f32; 1_000])))
            .collect();
        for (thread, answer) in (1..).zip(threads) {
            let answer = answer.join().map_err(|_| "a thread panicked")??;
            println!("thread {thread}: 1 / {thread} = {}", answer[0]);
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    // A failure reaches only the data of its task.
    println!(
        "division by zero: {}",
        inverted(&[0.0])
            .err()
            .ok_or("expected an error for a division by zero")?
    );
    println!("the device ran {} tasks", device.stats()?.tasks);
    Ok(())
}
