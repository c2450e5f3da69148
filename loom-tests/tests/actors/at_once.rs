//! Tasks of two devices that end each other, as the parts of a collective do: they begin at once on the thread that turns
//! a device, and whichever thread ends them steps in at both devices (I5, I6, I8).

use std::sync::Arc;
use std::time::Duration;

use millstream::{Device, Error, ExternalTask, Stream, update};
use millstream_sync::channel::{Receiver, Sender, unbounded};
use millstream_sync::facade::thread::{JoinHandle, spawn};
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::helped::{Helped, Next};
use millstream_sync::thread_flag;

use crate::rig::{assert_drained, choose, close, cpu, options, walk};

thread_flag! {
    /// Whether the thread is in the beginning of a task, which never nests.
    Begins
}

/// Begins a task at once: calls `begin` with it.
fn submit(
    stream: &Stream,
    data: &millstream::Handle<u32>,
    begin: impl FnOnce(ExternalTask) + Send + 'static,
) {
    let begin = move |task: Result<ExternalTask, Error>| {
        assert!(!Begins::replace(true), "a beginning inside another one");
        begin(task.unwrap());
        Begins::set(false);
        None
    };
    let sent = stream.external_at_once("part", update(data), begin);
    sent.map_err(|returned| returned.error).unwrap();
}

/// A caller: its stream and its data on each device. The device expects it to wait.
struct Caller {
    members: [(Stream, millstream::Handle<u32>); 2],
}

impl Caller {
    fn new(devices: &[Device; 2]) -> Self {
        let members = devices.each_ref().map(|device| {
            let stream = device.new_client().new_stream();
            let data = stream.create(&[0_u32]).unwrap();
            for _ in 0..2 {
                stream.fill(&data, 1).unwrap();
                stream.sync().wait().unwrap();
            }
            (stream, data)
        });
        Self { members }
    }

    /// Waits for the parts, on the devices in either order.
    fn wait(&self) {
        let first = choose(2) as usize;
        for (stream, data) in [&self.members[first], &self.members[1 - first]] {
            assert_eq!(stream.read(data).wait().unwrap(), [1]);
        }
    }
}

fn open() -> [Device; 2] {
    [(); 2].map(|()| Device::open_with(cpu().queues(1).threads(1), options()).unwrap())
}

/// Starts two callers. Both submit their calls in the same order on both devices.
fn call(
    devices: &[Device; 2],
    submit_call: impl Fn(&Caller) + Clone + Send + 'static,
) -> Vec<JoinHandle<()>> {
    let order = Arc::new(Mutex::new(()));
    let callers = [(); 2].map(|()| {
        let (caller, order) = (Caller::new(devices), order.clone());
        let submit_call = submit_call.clone();
        spawn(move || {
            for _ in 0..2 {
                let admitted = lock(&order);
                submit_call(&caller);
                drop(admitted);
                caller.wait();
            }
        })
    });
    callers.into()
}

fn end(devices: [Device; 2], callers: Vec<JoinHandle<()>>) {
    callers
        .into_iter()
        .for_each(|caller| caller.join().unwrap());
    devices
        .iter()
        .for_each(|device| assert_drained(&close(device)));
}

/// The last part to begin ends both.
#[test]
fn parts_of_two_devices_end_each_other() {
    walk("parts that end each other", 150, || {
        let devices = open();
        let callers = call(&devices, |caller| {
            let arrived: Arc<Mutex<Vec<ExternalTask>>> = Arc::default();
            for (stream, data) in &caller.members {
                let arrived = arrived.clone();
                submit(stream, data, move |task| {
                    let mut parts = lock(&arrived);
                    parts.push(task);
                    if parts.len() == 2 {
                        let both = std::mem::take(&mut *parts);
                        drop(parts);
                        both.into_iter().for_each(ExternalTask::complete);
                    }
                });
            }
        });
        end(devices, callers);
    });
}

/// An engine that ends parts: its thread, or a thread that waits for a device.
struct Ends(Receiver<Option<ExternalTask>>);

impl Ends {
    /// Ends the parts that have come. Returns `false` if there were none, and `None` once it is over.
    fn turn(&mut self) -> Option<bool> {
        let mut ended = false;
        while let Ok(task) = self.0.try_recv() {
            task?.complete();
            ended = true;
        }
        Some(ended)
    }
}

/// Helps until the function that it receives returns `true`.
type Helper = dyn Fn(&mut dyn FnMut() -> bool) + Send + Sync;

type Link = Helped<Option<ExternalTask>, Ends>;

/// Starts the engine's thread.
fn start_engine() -> (Arc<Link>, JoinHandle<()>) {
    let (made, link): (Sender<Arc<Link>>, _) = unbounded();
    let thread = spawn(move || {
        let (commands, inbox) = unbounded();
        let link = Arc::new(Helped::new(commands, Ends(inbox)));
        made.send(link.clone()).unwrap();
        let turn = |ends: &mut Ends| match ends.turn() {
            Some(true) => Next::Again,
            Some(false) if choose(2) == 0 => Next::Nap(Duration::ZERO),
            Some(false) => Next::Sleep,
            None => Next::End,
        };
        drop(link.run(turn, Duration::ZERO));
    });
    (link.recv().unwrap(), thread)
}

/// The parts go to an engine, quietly or not; threads that wait help it.
#[test]
fn waiting_threads_help_the_engine_that_ends_their_parts() {
    walk("threads that wait help", 150, || {
        let devices = open();
        let (link, engine) = start_engine();
        let helped = link.clone();
        let helper: Arc<Helper> = Arc::new(move |done: &mut dyn FnMut() -> bool| {
            helped.help(|ends| {
                ends.turn();
                done();
                false
            });
        });
        for device in &devices {
            let stream = device.new_client().new_stream();
            assert!(stream.set_helper(Arc::downgrade(&helper)));
        }
        let sends = link.clone();
        let callers = call(&devices, move |caller| {
            for (stream, data) in &caller.members {
                let link = sends.clone();
                submit(stream, data, move |task| match choose(2) {
                    0 => link.send(Some(task)),
                    _ => link.send_quietly(Some(task)),
                });
            }
        });
        end(devices, callers);
        link.send(None);
        engine.join().unwrap();
    });
}
