//! A model that finds a bug: a simulation thread makes frames on the device, a render thread shows the latest.
//!
//! `Frames` has two buffers. The simulation steps into the one that is not shown, then says which one is the
//! latest. With the two lines of `step` the other way round it says so before the frame has been made, which
//! almost always works: the renderer must look in between. The model looks in between.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use millstream::{CubeCount, Device, Error, Handle, Kernel, KernelHandle, Stream, sim::Sim, write};

/// When a frame is said to be the latest.
#[derive(Clone, Copy, PartialEq)]
enum Say {
    AfterTheLaunch,
    /// The bug.
    BeforeTheLaunch,
}

struct Frames {
    draw: KernelHandle,
    buffers: [Handle<u32>; 2],
    /// The number of the latest frame, which lies in buffer `latest % 2`.
    latest: AtomicUsize,
}

impl Frames {
    fn new(device: &Device) -> Result<Self, Error> {
        let client = device.new_client();
        let draw = client.kernel(
            Kernel::new("draw")
                .writes::<u32>("image")
                .scalar::<u32>("frame")
                .native(|_, args| {
                    let frame = args.scalar::<u32>(0);
                    args.chunk::<u32>(0).fill(frame);
                }),
        )?;
        let stream = client.new_stream();
        Ok(Self {
            draw,
            buffers: [stream.create(&[0; 2])?, stream.create(&[0; 2])?],
            latest: AtomicUsize::new(0),
        })
    }

    /// Makes the next frame. For the simulation thread.
    fn step(&self, stream: &Stream, say: Say) -> Result<(), Error> {
        let next = self.latest.load(Ordering::Relaxed) + 1;
        if say == Say::BeforeTheLaunch {
            self.latest.store(next, Ordering::Release);
        }
        let image = write(&self.buffers[next % 2]);
        stream.launch(&self.draw, CubeCount::single(), (image, next as u32))?;
        if say == Say::AfterTheLaunch {
            self.latest.store(next, Ordering::Release);
        }
        Ok(())
    }

    /// The latest frame: its number, and its image. For the render thread.
    fn show(&self, stream: &Stream) -> Result<(usize, Vec<u32>), Error> {
        let latest = self.latest.load(Ordering::Acquire);
        let image = stream.read(&self.buffers[latest % 2]).wait()?;
        Ok((latest, image))
    }
}

/// One step while the renderer shows: it must see the frame that it was told of.
fn the_renderer_sees_the_frame_that_it_was_told_of(say: Say) {
    loom::model(move || {
        let device = Device::open(Sim::seed(7)).unwrap();
        let frames = Arc::new(Frames::new(&device).unwrap());
        let (simulation, client) = (frames.clone(), device.new_client());
        let stepping = thread::spawn(move || simulation.step(&client.new_stream(), say).unwrap());
        let (latest, image) = frames.show(&device.new_client().new_stream()).unwrap();
        assert_eq!(
            image, [latest as u32; 2],
            "frame {latest} shows another one"
        );
        stepping.join().unwrap();
    });
}

#[test]
fn a_frame_is_told_after_it_was_sent() {
    the_renderer_sees_the_frame_that_it_was_told_of(Say::AfterTheLaunch);
}

#[test]
#[should_panic(expected = "frame 1 shows another one")]
fn the_model_finds_a_frame_that_is_told_too_early() {
    the_renderer_sees_the_frame_that_it_was_told_of(Say::BeforeTheLaunch);
}
