//! Submits operations to streams.

use std::sync::Arc;

use crate::access::Step;
use crate::clock::Point;
use crate::code::Code;
use crate::operation::{GraphRun, Operation, Queued};
use crate::state::{self, State};
use crate::stream::Stream;

/// The operations that may be pending on a stream before the driver blocks a thread that submits another one.
const PENDING_MAX: usize = 1_000;

impl State {
    /// Appends an operation to a stream.
    pub(crate) fn queue(
        &mut self,
        call: &str,
        stream: u64,
        operation: Operation,
    ) -> Result<Point, Code> {
        let host = self.host.clone();
        let Some(of) = self.streams.live.get_mut(&stream) else {
            return Err(Code::INVALID_HANDLE);
        };
        of.clock.join(&host);
        match &operation {
            Operation::Wait(point) => of.clock.join(&point.clock),
            Operation::Graph(GraphRun {
                after: Some(point), ..
            }) => of.clock.join(&point.clock),
            _ => {}
        }
        let tick = of.clock.step(stream);
        let clock = Arc::new(of.clock.clone());
        let what = match &operation {
            Operation::Launch(launch) => format!("kernel `{}`", launch.kernel.name),
            Operation::Graph(run) => run.name(),
            Operation::Native(native) => format!("`{}`", native.name),
            _ => format!("`{call}`"),
        };
        let name = format!("{what} (step {tick} of stream {})", of.number).into();
        let step = Step {
            actor: stream,
            tick,
            clock: clock.clone(),
            name,
        };
        of.queue.push_back(Queued { step, operation });
        if of.queue.len() > PENDING_MAX {
            let (number, thread) = (of.number, state::thread_name());
            self.report(format!(
                "blocks: {call} on thread `{thread}` finds {PENDING_MAX} operations pending on stream {number}"
            ));
        }
        Ok(Point {
            stream,
            tick,
            clock,
        })
    }

    /// Returns a stream that is not destroyed, or reports an invalid handle.
    pub(crate) fn known_stream(&mut self, call: &str, stream: u64) -> Result<&mut Stream, Code> {
        let lives = matches!(self.streams.live.get(&stream), Some(of) if !of.destroyed);
        if !lives {
            self.report(match stream {
                0..=2 => format!("not modelled: {call} on a default stream"),
                _ => format!(
                    "invalid handle: {call} receives {stream:#x}, which is not a stream, or was destroyed"
                ),
            });
        }
        let of = self.streams.live.get_mut(&stream);
        of.filter(|of| !of.destroyed).ok_or(Code::INVALID_HANDLE)
    }
}
