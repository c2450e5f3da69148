//! I10, I12: large numbers of clients and streams leave nothing behind after they are dropped: in the device, in its
//! memory, and on the heap of the process.

use millstream::{
    ComputeClient, Cpu, CubeCount, Device, DeviceOptions, Handle, Kernel, KernelHandle, Stream,
    update,
};
use millstream_heap_count::live_bytes;

/// The number of clients that are alive at the same time.
const CLIENTS: usize = 1_000;
const STREAMS_EACH: usize = 10;
/// Waves after which the device memory must not grow.
const WARM_UP: usize = 2;
/// The number of waves in a row over which the heap must not grow, and the most waves until then: tables and lists
/// reach their largest size in different waves, depending on timing.
const WAVES: usize = 4;
const WAVES_MAX: usize = 16;
/// The most that the heap may grow over [`WAVES`] waves. One leaked word for each stream would be 320,000 bytes; queues
/// that double once more on a busy machine have been 137,952.
const GROWTH_MAX_BYTES: i64 = 256 << 10;

fn add_one() -> Kernel {
    Kernel::new("add_one")
        .updates::<u32>("values")
        .native(|_, args| args.chunk::<u32>(0)[0] += 1)
}

/// Opens clients and streams, launches on each stream, checks the results, and drops everything.
fn wave(device: &Device, add_one: &KernelHandle) {
    let clients: Vec<(ComputeClient, Vec<Stream>)> = (0..CLIENTS)
        .map(|_| {
            let client = device.new_client();
            let streams = (0..STREAMS_EACH).map(|_| client.new_stream()).collect();
            (client, streams)
        })
        .collect();
    let buffers: Vec<Handle<u32>> = clients
        .iter()
        .map(|(_, streams)| {
            let buffer = streams[0].create(&[7_u32]).unwrap();
            for stream in streams {
                stream
                    .launch(add_one, CubeCount::single(), (update(&buffer),))
                    .unwrap();
            }
            buffer
        })
        .collect();
    let live = (CLIENTS * STREAMS_EACH) as u64;
    assert_eq!(device.stats().unwrap().streams, live);
    for ((_, streams), buffer) in clients.iter().zip(&buffers) {
        let got = streams[0].read(buffer).wait().unwrap();
        assert_eq!(got, [7 + STREAMS_EACH as u32]);
    }
}

fn leftovers(device: &Device) -> (u64, u64, u64, u64, usize) {
    device.sync().wait().unwrap();
    let (stats, memory) = (device.stats().unwrap(), device.memory_usage().unwrap());
    (
        stats.streams,
        stats.tasks_held,
        memory.device.live_slices,
        memory.device.waiting,
        memory.clients.len(),
    )
}

fn waves_leave_nothing(device: &Device) {
    let add_one = device.new_client().kernel(add_one()).unwrap();
    let (mut reserved, mut live) = (0, Vec::new());
    for number in 0..WAVES_MAX {
        wave(device, &add_one);
        assert_eq!(leftovers(device), (0, 0, 0, 0, 0), "wave {number}");
        let now = device.memory_usage().unwrap().device.reserved;
        let before = std::mem::replace(&mut reserved, now);
        assert!(
            number < WARM_UP || reserved == before,
            "device memory grew, wave {number}"
        );
        // Relaxed: a statistic. The sync above comes after all drops.
        live.push(live_bytes());
        if number >= WAVES && live[number] - live[number - WAVES] <= GROWTH_MAX_BYTES {
            return;
        }
    }
    panic!("the heap grows with every wave: {live:?} bytes");
}

#[test]
fn clients_and_streams_that_come_and_go_leave_nothing_behind_i10() {
    super::alone(module_path!(), || {
        waves_leave_nothing(&Device::open(Cpu::default().queues(2).threads(2)).unwrap());
        let cpu = Cpu::default().queues(2);
        let (device, _driver) = Device::open_driven(cpu, DeviceOptions::default()).unwrap();
        waves_leave_nothing(&device);
    });
}
