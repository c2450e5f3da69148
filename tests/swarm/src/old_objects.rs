//! Objects of an earlier epoch of a device.

use millstream::{Device, Error, Handle, Stream};
use millstream_testkit::Program;

/// A stream and a handle of one epoch.
pub(crate) struct OldObjects {
    stream: Stream,
    handle: Handle<u32>,
}

impl OldObjects {
    /// Takes a stream and a handle of a program, if it has a buffer.
    pub(crate) fn of(program: &Program) -> Option<Self> {
        let (_, stream) = program.streams().next()?;
        Some(Self {
            stream: stream.clone(),
            handle: program.any_handle()?,
        })
    }

    /// Checks that calls with these objects return `DeviceLost`.
    ///
    /// # Errors
    /// A message with the results of the calls.
    pub(crate) fn check_lost(&self, device: &Device) -> Result<(), String> {
        let fresh = device.new_client().new_stream();
        let results = [
            self.stream.fill(&self.handle, 1),
            fresh.fill(&self.handle, 1),
            fresh.read(&self.handle).wait().map(drop),
        ];
        let lost =
            |result: &Result<(), Error>| matches!(result, Err(Error::DeviceLost { epoch: 0, .. }));
        match results.iter().all(lost) {
            true => Ok(()),
            false => Err(format!(
                "objects of a lost epoch do not return its loss (I5): {results:?}"
            )),
        }
    }
}
