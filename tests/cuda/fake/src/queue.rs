//! Putting operations at the end of streams.

use std::sync::Arc;

use crate::access::Step;
use crate::clock::Moment;
use crate::code::Code;
use crate::operation::{GraphRun, Operation, Queued};
use crate::state::State;
use crate::stream::Stream;

impl State {
    /// Puts an operation at the end of a stream.
    pub(crate) fn queue(
        &mut self,
        call: &str,
        stream: u64,
        operation: Operation,
    ) -> Result<Moment, Code> {
        let why = "is not modelled in a stream that is captured";
        self.must_not_be_captured(call, stream, why)?;
        let host = self.host.clone();
        let Some(of) = self.streams.live.get_mut(&stream) else {
            return Err(Code::INVALID_HANDLE);
        };
        of.clock.join(&host);
        match &operation {
            Operation::Wait(moment) => of.clock.join(&moment.clock),
            Operation::Graph(GraphRun {
                after: Some(moment),
                ..
            }) => of.clock.join(&moment.clock),
            _ => {}
        }
        let tick = of.clock.step(stream);
        let clock = Arc::new(of.clock.clone());
        let what = match &operation {
            Operation::Launch(launch) => format!("kernel `{}`", launch.kernel.name),
            Operation::Graph(run) => run.name(),
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
        Ok(Moment {
            stream,
            tick,
            clock,
        })
    }

    /// Is this a stream that is not destroyed?
    pub(crate) fn known_stream(&mut self, call: &str, stream: u64) -> Result<&mut Stream, Code> {
        let lives = matches!(self.streams.live.get(&stream), Some(of) if !of.destroyed);
        if !lives {
            self.report(match stream {
                0..=2 => format!("not modelled: {call} on a default stream"),
                _ => format!(
                    "wrong handle: {call} is given {stream:#x}, which is no stream, or was destroyed"
                ),
            });
        }
        let of = self.streams.live.get_mut(&stream);
        of.filter(|of| !of.destroyed).ok_or(Code::INVALID_HANDLE)
    }
}
