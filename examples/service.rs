//! A service: many request threads share one device, each with a stream and a limit of its own.
//!
//! `cargo run --release --example service`

use millstream::{Cpu, CubeCount, Device, Error, Kernel, KernelHandle, MemoryError, read, write};

/// Answers one request: the sum of squares of its numbers, in parts per cube.
fn serve(
    client: &millstream::ComputeClient,
    squares: &KernelHandle,
    numbers: &[f32],
) -> Result<f32, Error> {
    let stream = client.stream();
    let input = stream.create(numbers)?;
    let cubes = CubeCount::cover(numbers.len(), 4_096);
    let parts = stream.empty::<f32>(numbers.len().div_ceil(4_096))?;
    stream.launch(squares, cubes, (read(&input), write(&parts)))?;
    Ok(stream.read(&parts).wait()?.iter().sum())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(Cpu::default())?;
    let squares = device.client().kernel(
        Kernel::new("squares")
            .reads::<f32>("numbers")
            .writes::<f32>("parts")
            .native(|cube, args| {
                let numbers = args.read::<f32>(0);
                let start = cube.index() as usize * 4_096;
                let mine = &numbers[start.min(numbers.len())..(start + 4_096).min(numbers.len())];
                args.chunk::<f32>(1)[0] = mine.iter().map(|number| number * number).sum();
            }),
    )?;
    std::thread::scope(|scope| {
        for tenant in 0..8 {
            let client = device
                .client_builder()
                .name(format!("tenant {tenant}"))
                .hard_limit(1 << 20)
                .build();
            let squares = &squares;
            scope.spawn(move || {
                // The last tenant asks for more than its limit, and is told so; nobody else notices.
                let len = if tenant == 7 { 1 << 20 } else { 10_000 };
                match serve(&client, squares, &vec![2.0; len]) {
                    Ok(sum) => println!("tenant {tenant}: {sum}"),
                    Err(Error::Memory(error @ MemoryError::Limit { .. })) => {
                        println!("tenant {tenant}: refused, {error}");
                    }
                    Err(error) => println!("tenant {tenant}: {error}"),
                }
            });
        }
    });
    println!("{:?}", device.close(std::time::Duration::from_secs(5)));
    Ok(())
}
