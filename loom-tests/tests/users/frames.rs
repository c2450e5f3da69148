//! A model that finds a bug: a simulation thread makes frames on the device, a render thread shows
//! the latest.
//!
//! `Frames` has two buffers. The simulation writes the one that is not shown, then publishes its
//! number. With the two lines of `step` in the opposite order it publishes the number before it has
//! launched the frame. That almost always works: the renderer must read in between. The model reads
//! in between.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use millstream::{CubeCount, Device, Error, Handle, Kernel, KernelHandle, Stream, sim::Sim, write};

/// When the number of a frame is published.
#[derive(Clone, Copy, PartialEq)]
enum Publish {
    AfterTheLaunch,
    /// The bug.
    BeforeTheLaunch,
}

struct Frames {
    draw: KernelHandle,
    buffers: [Handle<u32>; 2],
    /// The number of the latest frame, which is in buffer `latest % 2`.
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
    fn step(&self, stream: &Stream, publish: Publish) -> Result<(), Error> {
        let next = self.latest.load(Ordering::Relaxed) + 1;
        if publish == Publish::BeforeTheLaunch {
            self.latest.store(next, Ordering::Release);
        }
        let image = write(&self.buffers[next % 2]);
        stream.launch(&self.draw, CubeCount::single(), (image, next as u32))?;
        if publish == Publish::AfterTheLaunch {
            self.latest.store(next, Ordering::Release);
        }
        Ok(())
    }

    /// Returns the number and the image of the latest frame. For the render thread.
    fn show(&self, stream: &Stream) -> Result<(usize, Vec<u32>), Error> {
        let latest = self.latest.load(Ordering::Acquire);
        let image = stream.read(&self.buffers[latest % 2]).wait()?;
        Ok((latest, image))
    }
}

/// Makes one frame while the renderer shows: it must see the published frame.
fn the_renderer_sees_the_published_frame(publish: Publish) {
    loom::model(move || {
        let device = Device::open(Sim::seed(7)).unwrap();
        let frames = Arc::new(Frames::new(&device).unwrap());
        let (simulation, client) = (frames.clone(), device.new_client());
        let stepping =
            thread::spawn(move || simulation.step(&client.new_stream(), publish).unwrap());
        let (latest, image) = frames.show(&device.new_client().new_stream()).unwrap();
        assert_eq!(
            image, [latest as u32; 2],
            "frame {latest} shows another one"
        );
        stepping.join().unwrap();
    });
}

#[test]
fn a_frame_published_after_its_launch_is_shown() {
    the_renderer_sees_the_published_frame(Publish::AfterTheLaunch);
}

#[test]
#[should_panic(expected = "frame 1 shows another one")]
fn the_model_finds_a_frame_published_before_its_launch() {
    the_renderer_sees_the_published_frame(Publish::BeforeTheLaunch);
}
