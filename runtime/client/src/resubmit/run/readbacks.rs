//! The readbacks of a log that is resubmitted: a bounded number in flight, handed out in order.

use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::error::Error;
use millstream_protocol::landing::{Landed, Landing, VecLanding};
use millstream_protocol::layout::Strided;
use millstream_protocol::message::{CopyOut, Op};
use millstream_protocol::recording::RecordedBinding;
use millstream_sync::reply::reply;

use super::{EntryError, Replay};
use crate::resubmit::LoggedReadback;
use crate::{Finish, Pending, Stream};

/// Readbacks in flight. Enough that the device always has work, and a bound on the
/// host memory that readbacks use.
const READBACKS_AHEAD: usize = 16;

/// A readback in flight.
pub(super) struct InFlight {
    tag: Option<u64>,
    answer: Pending<Vec<Vec<u8>>>,
}

impl<F: FnMut(LoggedReadback)> Replay<'_, F> {
    /// Requests a readback. If too many are in flight, first blocks until the oldest has completed.
    pub(super) fn request_readback(
        &mut self,
        stream: &Stream,
        tag: Option<u64>,
        layouts: Vec<Option<Box<Strided>>>,
        parts: &[RecordedBinding],
    ) -> Result<(), EntryError> {
        if self.in_flight.len() >= READBACKS_AHEAD {
            self.complete_oldest();
        }
        let mut layouts: Vec<_> = layouts
            .into_iter()
            .map(|layout| layout.map(|layout| *layout))
            .take(parts.len())
            .collect();
        layouts.resize(parts.len(), None);
        let mut typed = Vec::with_capacity(parts.len());
        let mut bindings = Vec::with_capacity(parts.len());
        for (part, layout) in parts.iter().zip(&layouts) {
            let binding = self.binding(part)?.with_access(Access::Read);
            let bytes = dense_bytes(&binding, layout.as_ref())?;
            typed.push(VecLanding::<u8>::new(bytes as usize).map_err(Error::Memory)?);
            bindings.push(binding);
        }
        let landings = typed
            .iter()
            .map(|landing| landing.clone() as Arc<dyn Landing>)
            .collect();
        let (sender, receiver) = reply();
        let copy = CopyOut {
            landings,
            reply: sender,
            tag,
        };
        let is_strided = layouts.iter().any(Option::is_some);
        stream.submit(Op::CopyOut(Box::new(copy)), |task| {
            bindings
                .into_iter()
                .for_each(|binding| task.push_binding(binding));
            if is_strided {
                task.extra.get_or_insert().layouts = layouts;
            }
        })?;
        let take = |landing: &Arc<VecLanding<u8>>| {
            // SAFETY: the answer calls this once, after the point of the copies has passed.
            unsafe { landing.take() }
        };
        let finish = Finish::Made(Box::new(move || typed.iter().map(take).collect()));
        let answer = Pending::ticket(stream.requester(), receiver, finish);
        self.in_flight.push_back(InFlight { tag, answer });
        Ok(())
    }

    /// Blocks until the oldest readback has arrived, and hands it out. Returns `false` if none is in flight.
    pub(super) fn complete_oldest(&mut self) -> bool {
        let Some(InFlight { tag, answer }) = self.in_flight.pop_front() else {
            return false;
        };
        let bytes = answer.wait().map(|parts| parts.concat());
        self.digest = match &bytes {
            Ok(bytes) => self
                .digest
                .with(&(bytes.len() as u64).to_le_bytes())
                .with(bytes),
            Err(_) => self.digest.with(&u64::MAX.to_le_bytes()),
        };
        (self.on_readback)(LoggedReadback { tag, bytes });
        true
    }
}

/// Returns the number of bytes that a copy between the host and a binding transfers with this layout.
pub(super) fn dense_bytes(binding: &Binding, layout: Option<&Strided>) -> Result<u64, EntryError> {
    let Some(layout) = layout else {
        return Ok(binding.len);
    };
    // Axes with stride 0 could request any amount of host memory.
    match layout.extent_bytes() <= binding.len && layout.dense_bytes() <= binding.len {
        true => Ok(layout.dense_bytes()),
        false => Err(EntryError::Broken("the layout is larger than its binding")),
    }
}
