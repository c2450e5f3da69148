//! A subject with its type erased, so that the tests are compiled once for all backends.

use millstream::backend::Open;
use millstream::{Access, Device, DeviceOptions, Error, Handle, Kernel, Stream};

use super::Rig;
use crate::subject::{Abilities, Mode, Setting, Subject};

/// One binding of a guard or of a custom task.
pub(super) type OneBinding<'a> = (&'a Handle<u8>, Access);

/// The code of a custom task.
pub(super) type Work = Box<dyn FnOnce(Resources<'_>) + Send>;

/// The object-safe form of [`Subject`].
pub(super) trait Erased: Sync {
    fn name(&self) -> &'static str;
    fn abilities(&self, mode: Mode) -> Abilities;
    fn unavailable(&self) -> Option<&'static str>;
    fn twin(&self, kernel: Kernel) -> Kernel;
    fn lacks_twin(&self, kernel: &str) -> bool;
    fn open(&self, setting: &Setting, options: DeviceOptions) -> Rig;
    fn guard(&'static self, stream: &Stream, binding: OneBinding<'_>) -> Result<Guard, Error>;
    fn custom(
        &'static self,
        stream: &Stream,
        name: &str,
        binding: OneBinding<'_>,
        work: Work,
    ) -> Result<(), Error>;
}

impl<S: Subject> Erased for S {
    fn name(&self) -> &'static str {
        S::Kind::NAME
    }

    fn abilities(&self, mode: Mode) -> Abilities {
        Subject::abilities(self, mode)
    }

    fn unavailable(&self) -> Option<&'static str> {
        Subject::unavailable(self)
    }

    fn twin(&self, kernel: Kernel) -> Kernel {
        Subject::twin(self, kernel)
    }

    fn lacks_twin(&self, kernel: &str) -> bool {
        Subject::lacks_twin(self, kernel)
    }

    fn open(&self, setting: &Setting, options: DeviceOptions) -> Rig {
        let opening = Subject::open(self, setting);
        let opened = match setting.mode {
            Mode::Driven => Device::open_driven(opening.kind, options)
                .map(|(device, driver)| (device, Some(driver))),
            Mode::Threads | Mode::OneQueue => {
                Device::open_with(opening.kind, options).map(|device| (device, None))
            }
        };
        let (device, driver) = opened.unwrap_or_else(|error| panic!("{error}"));
        Rig {
            device,
            driver,
            checks: opening.checks,
        }
    }

    fn guard(&'static self, stream: &Stream, binding: OneBinding<'_>) -> Result<Guard, Error> {
        let guard = stream.get_resource::<S::Kind>([binding].as_slice());
        let guard = guard.wait()?;
        Ok(Guard(Box::new(move || self.read(&guard, 0))))
    }

    fn custom(
        &'static self,
        stream: &Stream,
        name: &str,
        binding: OneBinding<'_>,
        work: Work,
    ) -> Result<(), Error> {
        stream.with_resource::<S::Kind>(name, [binding].as_slice(), |resources| {
            work(Resources(&|index, change| {
                Subject::change(self, resources, index, change);
            }));
        })?;
        Ok(())
    }
}

/// A resource guard of any device.
pub struct Guard(Box<dyn Fn() -> Vec<u32> + Send>);

impl Guard {
    /// Returns the words of its only binding.
    pub fn words(&self) -> Vec<u32> {
        (self.0)()
    }
}

/// Calls a change with the words of a binding.
type ChangeWords<'a> = dyn Fn(usize, &mut dyn FnMut(&mut [u32])) + 'a;

/// The resources of a custom task on any device.
pub struct Resources<'a>(&'a ChangeWords<'a>);

impl Resources<'_> {
    /// Calls `change` with the words of a binding. The words that it leaves are in the binding when the task ends.
    pub fn change(&self, index: usize, mut change: impl FnMut(&mut [u32])) {
        (self.0)(index, &mut change);
    }
}
