//! A driven device with its findings, and a small program with conflicts across streams.

use millstream_actors::{Device, Driver};
use millstream_client::arguments::{CubeCount, read, update, write};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Stream};
use millstream_protocol::{DeviceOptions, Error, Kernel};
use millstream_sim::{Findings, Sim};

pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) driver: Driver,
    pub(crate) findings: Findings,
}

impl Rig {
    pub(crate) fn new(sim: Sim) -> Self {
        Self::with(sim, DeviceOptions::default())
    }

    pub(crate) fn with(sim: Sim, options: DeviceOptions) -> Self {
        let findings = sim.findings();
        let (device, driver) = Device::open_driven(sim, options).unwrap();
        Self {
            device,
            driver,
            findings,
        }
    }

    /// Closes the device and returns its findings.
    pub(crate) fn close(self) -> Findings {
        let Self {
            device,
            driver,
            findings,
        } = self;
        drop((driver, device));
        findings
    }
}

pub(crate) fn add_one(client: &ComputeClient) -> Result<KernelHandle, Error> {
    let kernel = Kernel::new("add_one")
        .updates::<u32>("values")
        .native(|_cube, args| {
            args.chunk::<u32>(0)
                .iter_mut()
                .for_each(|value| *value += 1);
        });
    client.kernel(kernel)
}

/// Prepares a kernel that writes the sum of two buffers.
fn sum(client: &ComputeClient) -> Result<KernelHandle, Error> {
    let kernel = Kernel::new("sum")
        .reads::<u32>("a")
        .reads::<u32>("b")
        .writes::<u32>("out")
        .native(|_cube, args| {
            let (a, b, start) = (
                args.read::<u32>(0),
                args.read::<u32>(1),
                args.chunk_start(2),
            );
            for (index, out) in args.chunk::<u32>(2).iter_mut().enumerate() {
                *out = a[start + index] + b[start + index];
            }
        });
    client.kernel(kernel)
}

/// Elements of each buffer of the program.
const ELEMENTS: usize = 40;

/// Streams update their own buffers and read each other's, with at least one wait per round. Returns the result or
/// the first failure.
pub(crate) fn program(device: &Device) -> Result<Vec<u32>, Error> {
    const ROUNDS: usize = 12;
    let client = device.new_client();
    let (add_one, sum) = (add_one(&client)?, sum(&client)?);
    let streams: [Stream; 3] = std::array::from_fn(|_| client.new_stream());
    let create = |stream: &Stream| stream.create(&[1_u32; ELEMENTS]);
    let mut buffers: Vec<Handle<u32>> = streams.iter().map(create).collect::<Result<_, _>>()?;
    for round in 0..ROUNDS {
        let stream = &streams[round % 3];
        stream.launch(
            &add_one,
            CubeCount::Static(5, 1, 1),
            (update(&buffers[round % 3]),),
        )?;
        let out = stream.empty::<u32>(ELEMENTS)?;
        let (a, b) = (&buffers[round % 3], &buffers[(round + 1) % 3]);
        stream.launch(
            &sum,
            CubeCount::Static(3, 1, 1),
            (read(a), read(b), write(&out)),
        )?;
        if round % 4 == 3 {
            stream.copy(&buffers[(round + 2) % 3], &out)?;
            let half = out.slice(..ELEMENTS / 2).unwrap();
            stream.fill(&half, round as u32)?;
        }
        buffers[(round + 1) % 3] = out;
    }
    let mut all = Vec::new();
    for (stream, buffer) in streams.iter().zip(&buffers) {
        all.extend(stream.read(buffer).wait()?);
    }
    Ok(all)
}
