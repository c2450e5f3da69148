//! User code of a program: host functions, guards, custom tasks. Each does to its bindings what the launch of its
//! number does.

use std::sync::{Arc, Mutex};

use millstream_protocol::{
    Binding, Custom, Error, HostDone, HostFn, HostNeeds, HostOutcome, HostPlace, HostWork, Op,
    OwnedBytes, Refused, Terms, Ticket, VecLanding,
};
use millstream_sync::reply::reply;

use super::build::{Answer, Stream};
use super::bytes::Effect;
use super::rig::Rig;
use super::script::HeldBytes;

/// A guard as its user has it: the bytes, until it is dropped.
pub(super) struct Guard {
    held: Box<HeldBytes>,
    done: HostDone,
    number: u64,
    outcome: Result<(), &'static str>,
    /// The number of tasks that were issued when it began.
    pub(super) since: usize,
}

/// Live guards, shared with the host functions that create them.
pub(super) type Guards = Arc<Mutex<Vec<Guard>>>;

impl Guard {
    pub(super) fn end(self) {
        end(*self.held, self.done, self.number, self.outcome);
    }
}

/// Ends user code: it has done its work, or panicked with this message.
fn end(held: HeldBytes, done: HostDone, number: u64, outcome: Result<(), &'static str>) {
    held.end(match outcome {
        Ok(()) => Effect::Compute(number),
        Err(_) => Effect::None,
    });
    if let Err(message) = outcome {
        done.end(HostOutcome::Panicked(message.into()));
    }
}

fn bytes_of(resources: Option<Box<dyn std::any::Any + Send>>) -> Box<HeldBytes> {
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
    pub(super) fn host(
        &mut self,
        stream: &Stream,
        number: u64,
        bindings: &[Binding],
        outcome: Result<(), &'static str>,
    ) {
        let run = move |done: HostDone, resources| {
            end(*bytes_of(resources), done, number, outcome);
            None
        };
        self.submit_host(stream, bindings, Box::new(run), None);
    }

    /// Sends a guard. Its user receives it, or the error because of which it never will, and drops it later.
    pub(super) fn guard(
        &mut self,
        stream: &Stream,
        number: u64,
        bindings: &[Binding],
        outcome: Result<(), &'static str>,
    ) -> Answer {
        let (sender, receiver) = reply();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let (failing, ledger) = (sender.clone(), self.ledger.clone());
        let on_failure = move |error| {
            ledger.get().coverage.note("guard over failed data");
            let sender = failing
                .lock()
                .unwrap()
                .take()
                .expect("the caller is answered once (I5)");
            sender.send(Err(error));
        };
        let guards = self.guards.clone();
        let run = move |done, resources| {
            let held = bytes_of(resources);
            let sender = sender
                .lock()
                .unwrap()
                .take()
                .expect("the caller is answered once (I5)");
            sender.send(Ok(Ticket::default()));
            let since = held.tasks_so_far();
            guards.lock().unwrap().push(Guard {
                held,
                done,
                number,
                outcome,
                since,
            });
            None
        };
        self.submit_host(stream, bindings, Box::new(run), Some(Box::new(on_failure)));
        Answer::of(receiver)
    }

    /// Sends a custom task, which may refuse to run.
    pub(super) fn custom(
        &mut self,
        stream: &Stream,
        number: u64,
        bindings: &[Binding],
        refuses: bool,
    ) {
        let work = move |resources: &dyn std::any::Any| {
            if refuses {
                return Err(Refused::Task("scripted".into()));
            }
            let held: &HeldBytes = resources.downcast_ref().expect("its backend's resources");
            held.number.set(number);
            Ok(())
        };
        let custom = Custom {
            name: "custom".into(),
            work: Box::new(work),
        };
        self.submit(stream, Op::Custom(Box::new(custom)), bindings);
    }
}
