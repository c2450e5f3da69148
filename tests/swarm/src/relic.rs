//! What is of an earlier epoch of a device.

use millstream::{Device, Error, Handle, Stream};
use millstream_testkit::Program;

/// A stream and a handle of an epoch.
pub(crate) struct Relic {
    stream: Stream,
    handle: Handle<u32>,
}

impl Relic {
    /// Those of a program, if it has a buffer.
    pub(crate) fn of(program: &Program) -> Option<Self> {
        let (_, stream) = program.streams().next()?;
        Some(Self {
            stream: stream.clone(),
            handle: program.any_handle()?,
        })
    }

    /// They are of the lost epoch, and say so.
    ///
    /// # Errors
    /// What they said instead.
    pub(crate) fn is_old(&self, device: &Device) -> Result<(), String> {
        let fresh = device.new_client().new_stream();
        let told = [
            self.stream.fill(&self.handle, 1),
            fresh.fill(&self.handle, 1),
            fresh.read(&self.handle).wait().map(drop),
        ];
        let lost =
            |told: &Result<(), Error>| matches!(told, Err(Error::DeviceLost { epoch: 0, .. }));
        match told.iter().all(lost) {
            true => Ok(()),
            false => Err(format!("what is old does not say so (I5): {told:?}")),
        }
    }
}
