//! User code: host functions, guards, staged tasks.

use std::sync::{Arc, Mutex};

use millstream_protocol::{
    Binding, Error, HostDone, HostFn, HostNeeds, HostOutcome, HostPlace, HostWork, Op, OwnedBytes,
    Terms, Ticket, VecLanding,
};
use millstream_sim::SimResources;
use millstream_sync::reply::reply;

use super::build::{Answer, Stream};
use super::rig::Rig;

/// A guard as its user has it: the bytes, until it is dropped.
pub(super) struct Guard {
    _held: Box<SimResources>,
    _done: HostDone,
}

/// Live guards, shared with the host functions that create them.
pub(super) type Guards = Arc<Mutex<Vec<Guard>>>;

fn bytes_of(resources: Option<Box<dyn std::any::Any + Send>>) -> Box<SimResources> {
    let held = resources.and_then(|resources| resources.downcast().ok());
    held.expect("a host function gets the resources that it requested")
}

impl Rig {
    fn submit_host(
        &mut self,
        stream: &Stream,
        bindings: &[Binding],
        run: HostFn,
        on_failure: Option<Box<dyn FnOnce(Error) + Send>>,
    ) {
        let work = HostWork {
            name: "host".into(),
            needs: HostNeeds::Resources,
            run,
            place: HostPlace::UserCode,
            on_failure,
        };
        self.submit(stream, Op::Host(Box::new(work)), bindings);
    }

    /// Sends a staged task: the bytes of its first binding are copied to a landing before it begins, and it ends with
    /// `output`, which is copied to the binding that it writes.
    pub(super) fn staged(
        &mut self,
        stream: &Stream,
        bindings: &[Binding],
        output: Vec<u8>,
        terms: Option<Terms>,
    ) {
        let landing = VecLanding::<u8>::new(bindings[0].len as usize);
        let work = HostWork {
            name: "staged".into(),
            needs: HostNeeds::Download(landing.expect("there is memory for a few bytes")),
            run: Box::new(move |done, _| {
                done.end(HostOutcome::Arrived(OwnedBytes::new(output)));
                None
            }),
            place: HostPlace::UserCode,
            on_failure: Some(Box::new(|_| ())),
        };
        self.submit_under(stream, Op::Host(Box::new(work)), bindings, terms);
    }

    /// Sends a host function that ends when it returns.
    pub(super) fn host(&mut self, stream: &Stream, bindings: &[Binding]) {
        let run = |_done, resources| {
            drop(bytes_of(resources));
            None
        };
        self.submit_host(stream, bindings, Box::new(run), None);
    }

    /// Sends a guard. Its user receives it, or the error because of which it never will, and drops it later.
    pub(super) fn guard(&mut self, stream: &Stream, bindings: &[Binding]) -> Answer {
        let (sender, receiver) = reply();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let answer = move |answer| {
            let sender = sender.lock().unwrap().take();
            let sender = sender.expect("the caller is answered once (I5)");
            sender.send(answer);
        };
        let fails = answer.clone();
        let on_failure = move |error| fails(Err(error));
        let guards = self.guards.clone();
        let run = move |done, resources| {
            answer(Ok(Ticket::default()));
            guards.lock().unwrap().push(Guard {
                _held: bytes_of(resources),
                _done: done,
            });
            None
        };
        self.submit_host(stream, bindings, Box::new(run), Some(Box::new(on_failure)));
        Answer::of(receiver)
    }
}
