//! A subject without its type: facts are compiled once, for all backends.

use millstream::backend::Open;
use millstream::{Access, Device, DeviceOptions, Error, Handle, Kernel, ResourceGuard, Stream};

use super::Rig;
use crate::subject::{Abilities, ResourcesOf, Setting, Subject, Way};

/// One binding of a guard or of a custom task.
pub(super) type OneBinding<'a> = (&'a Handle<u8>, Access);

/// What a custom task does.
pub(super) type Work = Box<dyn FnOnce(Resources<'_>) + Send>;

/// As [`Subject`].
pub(super) trait Erased: Sync {
    fn name(&self) -> &'static str;
    fn abilities(&self, way: Way) -> Abilities;
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

    fn abilities(&self, way: Way) -> Abilities {
        Subject::abilities(self, way)
    }

    fn twin(&self, kernel: Kernel) -> Kernel {
        Subject::twin(self, kernel)
    }

    fn lacks_twin(&self, kernel: &str) -> bool {
        Subject::lacks_twin(self, kernel)
    }

    fn open(&self, setting: &Setting, options: DeviceOptions) -> Rig {
        let opening = Subject::open(self, setting);
        let opened = match setting.way {
            Way::Driven => Device::open_driven(opening.kind, options)
                .map(|(device, driver)| (device, Some(driver))),
            Way::Threads | Way::OneQueue => {
                Device::open_with(opening.kind, options).map(|device| (device, None))
            }
        };
        let (device, driver) = opened.unwrap_or_else(|error| panic!("{error}"));
        Rig {
            device,
            driver,
            checked: opening.checks,
        }
    }

    fn guard(&'static self, stream: &Stream, binding: OneBinding<'_>) -> Result<Guard, Error> {
        let guard = stream
            .get_resource::<S::Kind>([binding].as_slice())
            .wait()?;
        Ok(Guard(Box::new(Held {
            subject: self,
            guard,
        })))
    }

    fn custom(
        &'static self,
        stream: &Stream,
        name: &str,
        binding: OneBinding<'_>,
        work: Work,
    ) -> Result<(), Error> {
        stream.with_resource::<S::Kind>(name, [binding].as_slice(), |resources| {
            work(Resources(&mut Lent {
                subject: self,
                resources,
            }));
        })?;
        Ok(())
    }
}

/// Memory that a guard has, on whatever device.
pub struct Guard(Box<dyn Fetch + Send>);

impl Guard {
    /// The words of its only binding.
    pub fn words(&self) -> Vec<u32> {
        self.0.fetch()
    }
}

trait Fetch {
    fn fetch(&self) -> Vec<u32>;
}

struct Held<S: Subject> {
    subject: &'static S,
    guard: ResourceGuard<S::Kind>,
}

impl<S: Subject> Fetch for Held<S> {
    fn fetch(&self) -> Vec<u32> {
        self.subject.read(&self.guard, 0)
    }
}

/// Memory that a custom task has, on whatever device.
pub struct Resources<'a>(&'a mut dyn Change);

impl Resources<'_> {
    /// Calls `change` with the words of a binding. What it leaves in them is there when the task ends.
    pub fn change(&mut self, index: usize, mut change: impl FnMut(&mut [u32])) {
        self.0.change(index, &mut change);
    }
}

trait Change {
    fn change(&mut self, index: usize, change: &mut dyn FnMut(&mut [u32]));
}

struct Lent<'a, S: Subject> {
    subject: &'static S,
    resources: &'a mut ResourcesOf<S>,
}

impl<S: Subject> Change for Lent<'_, S> {
    fn change(&mut self, index: usize, change: &mut dyn FnMut(&mut [u32])) {
        self.subject.change(self.resources, index, change);
    }
}
