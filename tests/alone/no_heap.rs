//! I9: in the steady state a launch allocates nothing, on any thread.

use std::time::{Duration, Instant};

use millstream::{
    CancelToken, ComputeClient, Cpu, CubeCount, Device, DeviceOptions, Handle, Kernel,
    KernelHandle, LaunchArgs, Read, Recording, ReplayArgs, ScalarParameter, Stream, TypedKernel,
    Write, read, stream::RecordedWord, update, write,
};
use millstream_heap_count::steady_allocations;

/// The arguments of `Rig::three`.
type Three = (Read<u32>, Read<u32>, Write<u32>, [u64; 8]);

/// A stream, and the kernels and buffers that its launches use.
struct Rig {
    client: ComputeClient,
    stream: Stream,
    none: KernelHandle,
    three: KernelHandle,
    typed: TypedKernel<Three>,
    eight: KernelHandle,
    buffers: Vec<Handle<u32>>,
}

impl Rig {
    fn new(client: ComputeClient) -> Self {
        let stream = client.new_stream();
        let none = client
            .kernel(Kernel::new("none").native(|_, _| {}))
            .unwrap();
        let three = Kernel::new("three")
            .reads::<u32>("a")
            .reads::<u32>("b")
            .writes::<u32>("c");
        let three = (0..8)
            .fold(three, |kernel, index| {
                kernel.scalar::<u64>(format!("s{index}"))
            })
            .native(|_, args| {
                args.chunk::<u32>(2)[0] = args.read::<u32>(0)[0] + args.read::<u32>(1)[0];
            });
        let eight = (0..8).fold(Kernel::new("eight"), |kernel, index| {
            kernel.updates::<u32>(format!("b{index}"))
        });
        let eight = (0..16)
            .fold(eight, |kernel, index| {
                kernel.scalar::<u64>(format!("s{index}"))
            })
            .native(|_, _| {});
        let (three, eight) = (client.kernel(three).unwrap(), client.kernel(eight).unwrap());
        let typed = three.typed().unwrap();
        let buffers = (0..8_u32)
            .map(|value| stream.create(&[value; 16]).unwrap())
            .collect();
        Self {
            client,
            stream,
            none,
            three,
            typed,
            eight,
            buffers,
        }
    }

    fn launches(&self, stream: &Stream, rounds: usize) {
        let b = &self.buffers;
        for _ in 0..rounds {
            stream.launch(&self.none, CubeCount::single(), ()).unwrap();
            let (x, y, z) = (read(&b[0]), read(&b[1]), write(&b[2]));
            let three = (
                x, y, z, 1_u64, 2_u64, 3_u64, 4_u64, 5_u64, 6_u64, 7_u64, 8_u64,
            );
            stream
                .launch(&self.three, CubeCount::single(), three)
                .unwrap();
            let typed = (&b[0], &b[1], &b[2], [1, 2, 3, 4, 5, 6, 7, 8]);
            self.typed.launch(stream, 1, typed).unwrap();
            // Eight bindings and 128 bytes of scalars fit into a message.
            let eight: [_; 8] = std::array::from_fn(|index| update(&b[index]));
            stream
                .launch(&self.eight, CubeCount::single(), (eight, [7_u64; 16]))
                .unwrap();
        }
    }

    fn buffers_come_and_go(&self, rounds: usize) {
        for _ in 0..rounds {
            let fresh = self.stream.empty::<u32>(256).unwrap();
            let [a, b] = [&self.buffers[0], &self.buffers[1]];
            let args = (read(a), read(b), write(&fresh), [1_u64; 8]);
            self.stream
                .launch(&self.three, CubeCount::single(), args)
                .unwrap();
        }
    }

    /// One stream repeatedly writes a buffer that several others read.
    fn shared_buffers_are_passed_around(&self, readers: &[Stream], rounds: usize) {
        let b = &self.buffers;
        let scalars = [1_u64; 8];
        for _ in 0..rounds {
            self.stream
                .launch(
                    &self.three,
                    CubeCount::single(),
                    (read(&b[0]), read(&b[1]), write(&b[2]), scalars),
                )
                .unwrap();
            for (index, reader) in readers.iter().enumerate() {
                reader
                    .launch(
                        &self.three,
                        CubeCount::single(),
                        (read(&b[2]), read(&b[0]), write(&b[3 + index]), scalars),
                    )
                    .unwrap();
            }
        }
    }

    /// Records two kernels with four parameters and `slots` words. The second kernel has more bindings and words than
    /// the entry of a queue holds.
    fn recorded(&self, slots: u32) -> (Recording, [Handle<u32>; 4]) {
        let sum = (0..12).fold(Kernel::new("sum"), |kernel, index| {
            kernel.reads::<u32>(format!("b{index}"))
        });
        let sum = (0..40).fold(sum.writes::<u32>("out"), |kernel, index| {
            kernel.scalar::<u64>(format!("s{index}"))
        });
        let sum = self.client.kernel(sum.native(|_, args| {
            args.chunk::<u32>(12)[0] = args.scalar::<u64>(39) as u32 + args.read::<u32>(11)[0];
        }));
        let sum = sum.unwrap();
        let mut recorder = self.stream.recorder();
        let parameters = [(); 4].map(|()| recorder.parameter::<u32>(16).unwrap());
        let [a, b, c, d] = parameters.each_ref().map(Handle::as_bytes);
        let words: Vec<_> = (0..8).map(RecordedWord::Slot).collect();
        let bindings = [read(a), read(b), write(c)];
        recorder
            .launch_words(&self.three, CubeCount::single(), &bindings, &words)
            .unwrap();
        let words: Vec<_> = (0..40)
            .map(|word| RecordedWord::Slot(word % slots))
            .collect();
        let mut bindings = vec![read(a); 12];
        bindings[11] = read(c);
        bindings.push(write(d));
        recorder
            .launch_words(&sum, CubeCount::single(), &bindings, &words)
            .unwrap();
        (recorder.finish().unwrap(), parameters)
    }

    /// Replays with parameters by handle and by index.
    fn replays(&self, stream: &Stream, recorded: &(Recording, [Handle<u32>; 4]), rounds: u64) {
        let (b, (recording, named)) = (&self.buffers, recorded);
        let bound: [_; 4] = std::array::from_fn(|index| (index, b[index].as_bytes()));
        for round in 0..rounds {
            let words = [round; 16];
            recording.replay_args(stream, &bound, &words).unwrap();
            let args = ReplayArgs::new(recording).words(&words);
            let pairs = named.iter().zip(b);
            let args = pairs.fold(args, |args, (parameter, handle)| {
                args.bind(parameter, handle)
            });
            args.replay(stream).unwrap();
        }
        let expected = 1 + rounds as u32 - 1;
        let last = stream.read(&b[3]).wait().unwrap()[0];
        assert_eq!(last, expected);
    }

    /// Records a kernel with eight scalar parameters.
    fn recorded_scalars(&self) -> (Recording, [ScalarParameter<u64>; 8]) {
        let (mut recorder, b) = (self.stream.recorder(), &self.buffers);
        let scalars = [(); 8].map(|()| recorder.scalar::<u64>());
        let args = LaunchArgs::new().arg(read(&b[0])).arg(read(&b[1]));
        let args = scalars.iter().fold(args.arg(write(&b[2])), LaunchArgs::arg);
        recorder
            .launch(&self.three, CubeCount::single(), args)
            .unwrap();
        (recorder.finish().unwrap(), scalars)
    }

    fn replays_with_scalars(&self, recorded: &(Recording, [ScalarParameter<u64>; 8]), rounds: u64) {
        let (recording, scalars) = recorded;
        for round in 0..rounds {
            let scalars = scalars.iter();
            let args = scalars.fold(ReplayArgs::new(recording), |args, scalar| {
                args.set(scalar, round)
            });
            args.replay(&self.stream).unwrap();
        }
    }

    /// Returns the allocations of `work` after warm-up, once the device has drained.
    fn steady(&self, work: impl Fn()) -> u64 {
        steady_allocations(|| self.client.sync().wait().unwrap(), work)
    }
}

#[test]
fn launches_and_recycled_buffers_allocate_nothing_i9() {
    super::alone(module_path!(), || {
        let devices = [
            Device::open(Cpu::default().queues(1).threads(1)).unwrap(),
            Device::open_with(
                Cpu::default().queues(2).threads(2),
                DeviceOptions::default().max_tasks(1),
            )
            .unwrap(),
            // Every task that can be sampled is sampled.
            Device::open_with(
                Cpu::default().queues(1).threads(1),
                DeviceOptions::default().sample_latencies(1),
            )
            .unwrap(),
        ];
        for device in &devices {
            let rig = Rig::new(device.new_client());
            let launches = |stream: &Stream| rig.steady(|| rig.launches(stream, 100));
            assert_eq!(launches(&rig.stream), 0, "launches allocate");
            let later = Instant::now() + Duration::from_secs(3_600);
            let terms = [
                rig.stream.with_cancel(&CancelToken::new()),
                rig.stream.with_deadline(later),
                rig.stream
                    .with_cancel(&CancelToken::new())
                    .with_deadline(later),
            ];
            for stream in &terms {
                assert_eq!(launches(stream), 0, "launches under terms allocate");
            }
            let readers: Vec<Stream> = (0..3).map(|_| rig.client.new_stream()).collect();
            assert_eq!(
                rig.steady(|| rig.shared_buffers_are_passed_around(&readers, 50)),
                0,
                "buffers that several streams use allocate"
            );
            assert_eq!(
                rig.steady(|| rig.buffers_come_and_go(100)),
                0,
                "buffers that come and go allocate"
            );
            let recording = rig.recorded(16);
            let replays = |stream: &Stream, rounds| {
                rig.steady(|| {
                    rig.replays(stream, &recording, rounds);
                })
            };
            // Each round ends with a readback, which allocates its answer.
            assert_eq!(
                replays(&rig.stream, 100),
                replays(&rig.stream, 1),
                "replays with parameters and words allocate"
            );
            let recording = rig.recorded_scalars();
            assert_eq!(
                rig.steady(|| rig.replays_with_scalars(&recording, 100)),
                0,
                "replays with scalar parameters allocate"
            );
        }
    });
}
