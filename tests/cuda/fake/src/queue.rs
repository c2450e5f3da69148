//! Submits operations to streams, and checks at the call that what they need exists.

use std::sync::Arc;

use crate::access::Step;
use crate::clock::Point;
use crate::code::Code;
use crate::operation::{GraphRun, Operation, Queued, Rows};
use crate::state::{self, State};

/// The operations that may be pending on a stream before the driver blocks a thread that submits another one.
const PENDING_MAX: usize = 1_000;

impl State {
    /// Appends an operation to a stream.
    pub(crate) fn queue(&mut self, stream: u64, operation: Operation) -> Result<Point, Code> {
        let (host, call) = (self.host.clone(), self.call);
        let of = self.streams.live.get_mut(&stream);
        let of = of.ok_or(Code::INVALID_HANDLE)?;
        if of.capture.is_some() {
            let report = format!("not modelled: {call} on a stream in a capture");
            return Err(self.refuse(Code::NOT_SUPPORTED, report));
        }
        of.clock.join(&host);
        if let Operation::Wait(point)
        | Operation::Graph(GraphRun {
            after: Some(point), ..
        }) = &operation
        {
            of.clock.join(&point.clock);
        }
        let tick = of.clock.step(stream);
        let clock = Arc::new(of.clock.clone());
        let what = match &operation {
            Operation::Launch(launch) => format!("kernel `{}`", launch.kernel.name),
            Operation::Graph(run) => format!("graph {}", run.number),
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

    /// Checks that the memory exists.
    pub(crate) fn check_memory(&mut self, rows: Rows) -> Result<(), Code> {
        if rows.bytes() == 0 {
            return Ok(());
        }
        let call = self.this_call();
        let found = self.memory.at(&call, rows.bounds());
        let report = found.map(|_| ()).map_err(|violation| violation.report);
        report.map_err(|report| self.refuse(Code::INVALID_VALUE, report))
    }

    /// Checks that the memory or the module of a graph node exists, as far as is known before it runs.
    pub(crate) fn check_node(&mut self, work: &Operation) -> Result<(), Code> {
        match work {
            Operation::Launch(launch) if !self.functions.contains_key(&launch.function) => {
                let (call, kernel) = (self.this_call(), &launch.kernel.name);
                let report = format!(
                    "use after unload: {call} launches kernel `{kernel}`, whose module was unloaded"
                );
                Err(self.refuse(Code::INVALID_HANDLE, report))
            }
            Operation::Copy { target, source } => {
                self.check_memory(*target)?;
                self.check_memory(*source)
            }
            Operation::Fill { target, .. } => self.check_memory(*target),
            _ => Ok(()),
        }
    }
}
