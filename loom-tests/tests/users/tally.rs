//! A model that holds: a tally on the device, to which any thread adds.
//!
//! The model checks `Tally`, as a service would have it. It has no lock, because the runtime orders
//! tasks that use the same memory. The model explores every order of its threads' calls.

use loom::thread;
use millstream::{
    ComputeClient, CubeCount, Device, Error, Handle, Kernel, KernelHandle, sim::Sim, update,
};

/// A number on the device.
#[derive(Clone)]
struct Tally {
    client: ComputeClient,
    add: KernelHandle,
    sum: Handle<u32>,
}

impl Tally {
    fn new(client: ComputeClient) -> Result<Self, Error> {
        let add = client.kernel(
            Kernel::new("add")
                .updates::<u32>("sum")
                .scalar::<u32>("amount")
                .native(|_, args| {
                    let amount = args.scalar::<u32>(0);
                    args.chunk::<u32>(0)[0] += amount;
                }),
        )?;
        let sum = client.new_stream().create(&[0_u32])?;
        Ok(Self { client, add, sum })
    }

    /// Adds an amount, and returns the sum.
    fn add(&self, amount: u32) -> Result<u32, Error> {
        let stream = self.client.new_stream();
        stream.launch(&self.add, CubeCount::single(), (update(&self.sum), amount))?;
        Ok(stream.read(&self.sum).wait()?[0])
    }
}

#[test]
fn no_addition_is_lost() {
    for seed in 0..2 {
        loom::model(move || {
            let device = Device::open(Sim::seed(seed)).unwrap();
            let tally = Tally::new(device.new_client()).unwrap();
            let other = tally.clone();
            let adding = thread::spawn(move || other.add(2).unwrap());
            let mine = tally.add(40).unwrap();
            let theirs = adding.join().unwrap();
            // Each thread sees its own addition, and one of them both.
            assert!(matches!((mine, theirs), (40, 42) | (42, 2) | (42, 42)));
        });
    }
}
