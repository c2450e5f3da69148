//! I9: the allocations of a frame on a driven device: none of launches, also with a submission log, and a fixed number
//! of each readback. `docs/guide/engines.md` states the numbers.

use std::cell::RefCell;
use std::time::Duration;

use millstream::{
    Cpu, CubeCount, Device, DeviceOptions, Driver, Handle, Kernel, KernelHandle, Stream,
    stream::{ReadbackSender, Readbacks, readbacks},
    update,
};
use millstream_heap_count::steady_allocations;

/// The allocations of four launches, of a readback of a sequence until it was dropped, and of a `Stream::read` until its
/// elements were dropped.
const EXPECTED: [u64; 3] = [0, 3, 4];

struct Frames {
    driver: RefCell<Driver>,
    stream: Stream,
    step: KernelHandle,
    values: Handle<u32>,
    sequence: (ReadbackSender<u32, u32>, RefCell<Readbacks<u32, u32>>),
}

impl Frames {
    fn new(options: DeviceOptions) -> Self {
        let (device, driver) = Device::open_driven(Cpu::default(), options).unwrap();
        let client = device.new_client();
        let stream = client.new_stream().nowait();
        let step = Kernel::new("step")
            .updates::<u32>("values")
            .scalar::<u32>("by")
            .native(|_, args| {
                let by = args.scalar::<u32>(0);
                args.chunk::<u32>(0)
                    .iter_mut()
                    .for_each(|value| *value += by);
            });
        let (sender, frames) = readbacks(3);
        Self {
            driver: RefCell::new(driver),
            step: client.kernel(step).unwrap(),
            values: stream.create(&[0; 256]).unwrap(),
            sequence: (sender, RefCell::new(frames)),
            stream,
        }
    }

    /// Returns the allocations of a frame in the steady state.
    fn allocations(&self, frame: impl Fn()) -> u64 {
        steady_allocations(|| {}, frame)
    }

    fn pump(&self) {
        let budget = Duration::from_secs(60);
        while self.driver.borrow_mut().pump(budget) {}
    }

    fn launches(&self) {
        for by in 0..4_u32 {
            let args = (update(&self.values), by);
            self.stream
                .launch(&self.step, CubeCount::d1(4), args)
                .unwrap();
        }
        self.pump();
    }

    fn readback(&self) {
        let (sender, frames) = &self.sequence;
        sender.read(&self.stream, &self.values, 7).unwrap();
        self.pump();
        let next = frames.borrow_mut().try_next();
        assert_eq!(next.unwrap().elements.unwrap().len(), 256);
    }

    fn read(&self) {
        let mut answer = self.stream.read(&self.values);
        self.pump();
        assert_eq!(answer.try_take().unwrap().unwrap().len(), 256);
    }
}

#[test]
fn launches_of_a_frame_allocate_nothing_and_readbacks_a_fixed_number_i9() {
    super::alone(module_path!(), || {
        let plain = Frames::new(DeviceOptions::default());
        let logged = Frames::new(DeviceOptions::default().log_submissions(1 << 30));
        for frames in [&plain, &logged] {
            // The log's buffer grows rarely, and the least of several frames is counted.
            let counts = [
                frames.allocations(|| frames.launches()),
                frames.allocations(|| frames.readback()),
                frames.allocations(|| frames.read()),
            ];
            assert_eq!(counts, EXPECTED);
        }
    });
}
