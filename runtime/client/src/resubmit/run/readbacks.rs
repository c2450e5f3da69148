//! The readbacks of a log that is resubmitted: a bounded number in flight, handed out in order.

use millstream_protocol::{Access, Binding, Strided, recording::RecordedBinding};

use super::{EntryError, Replay};
use crate::resubmit::LoggedReadback;
use crate::{Pending, Stream};

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
        let mut layouts = layouts.into_iter();
        let mut wanted = Vec::with_capacity(parts.len());
        for part in parts {
            let layout = layouts.next().flatten().map(|layout| *layout);
            let view = self.view(part)?;
            dense_bytes(&view.binding(Access::Read), layout.as_ref())?;
            wanted.push((view, layout));
        }
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(view, layout)| (view, layout.clone()))
            .collect();
        let answer = stream.read_each(&wanted, tag).submitted()?;
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
        false => Err("the layout is larger than its binding".into()),
    }
}
