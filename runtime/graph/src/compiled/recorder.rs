//! Records the launches of a schedule: their parameters, bindings and words.

use std::collections::{HashMap, HashSet};

use millstream_client::arguments::{CubeCount, bind};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Recording};
use millstream_protocol::access::Access;
use millstream_protocol::recording::RecordedWord;
use smallvec::SmallVec;

use crate::compiled::form::Form;
use crate::error::ScheduleError;
use crate::memory::{Memory, ParameterRole};
use crate::schedule::Steps;
use crate::schedule::item::Work;
use crate::schedule::walk::Local;

/// Records the launches of a schedule.
pub(super) struct Recorder<'a> {
    pub(super) steps: &'a Steps,
    pub(super) memory: &'a Memory,
    pub(super) form: &'a Form,
    /// The handle that stands for each place while recording.
    pub(super) handles: HashMap<ParameterRole, Handle<u8>>,
}

impl Recorder<'_> {
    pub(super) fn record(
        &mut self,
        client: &ComputeClient,
        kernels: &[KernelHandle],
    ) -> Result<Recording, ScheduleError> {
        let stream = client.new_stream();
        let recording = stream.record(|recorder| {
            for parameter in self.memory.parameters() {
                let bytes = parameter.bytes as usize;
                let handle = match parameter.place {
                    ParameterRole::Input(_) => recorder.parameter::<u8>(bytes)?,
                    ParameterRole::Output(_) | ParameterRole::Arena => {
                        recorder.scratch::<u8>(bytes)?
                    }
                };
                if parameter.may_be_shorter {
                    // SAFETY: a run checks that the handle has all bytes for its lengths, and its words pass these
                    // lengths to the programs. No kernel of a user uses it (`Memory::new`).
                    unsafe { recorder.allow_shorter(&handle) };
                }
                self.handles.insert(parameter.place, handle);
            }
            let mut touched = HashSet::new();
            for (index, (item, kernel)) in self.steps.items.iter().zip(kernels).enumerate() {
                let handles = self.bound(index, kernel)?;
                let undefined = self.undefined_bindings(index, &mut touched);
                let accesses = kernel.kernel().signature().bindings().iter().enumerate();
                let bindings: Vec<_> = handles
                    .iter()
                    .zip(accesses)
                    .map(
                        |(handle, (binding, spec))| match undefined.contains(&binding) {
                            true => bind(handle, Access::Write),
                            false => bind(handle, spec.access),
                        },
                    )
                    .collect();
                let words = self.form.words(index);
                match &item.work {
                    Work::Program(_) => {
                        recorder.launch_words(kernel, CubeCount::single(), &bindings, words)?;
                    }
                    Work::Custom(custom) => {
                        let [x, y, z] = custom.cubes;
                        let (count, words) = (CubeCount::Static(x, y, z), packed(words, kernel));
                        recorder.launch_words(kernel, count, &bindings, &words)?;
                    }
                }
            }
            Ok(())
        })?;
        Ok(recording)
    }

    /// Returns the bindings of an item's program that do not depend on the present content of their buffers, so that
    /// failures of that content are not failures of the item (I7): the first use of a buffer in a run, when it holds
    /// data of an earlier run or of another temporary, and a use that overwrites it. Inputs belong to the caller: bytes
    /// that a run does not write keep their failures. A use that overwrites an input writes all bytes that the run binds
    /// ([`Run::issue`](super::run::Run::issue)).
    fn undefined_bindings(
        &self,
        index: usize,
        touched: &mut HashSet<Local>,
    ) -> SmallVec<[usize; 1]> {
        let item = &self.steps.items[index];
        let merged = self.memory.in_place(index).map(|merged| merged.output);
        let mut undefined_bindings = SmallVec::new();
        for written in &item.writes {
            let output = self.steps.storage(written.node);
            let is_first = touched.insert(output);
            let is_input = matches!(self.memory.place(output).0, ParameterRole::Input(_));
            let is_fresh = is_first && !is_input || written.overwrites;
            if is_fresh && merged != Some(written.binding) {
                // The program has no binding for the output that takes the place of an input.
                let before = merged.is_some_and(|merged| merged < written.binding);
                undefined_bindings.push(written.binding - usize::from(before));
            }
        }
        touched.extend(item.bindings.iter().map(|node| self.steps.storage(*node)));
        undefined_bindings
    }

    /// Returns the handles that an item's program is bound to.
    fn bound(
        &self,
        index: usize,
        kernel: &KernelHandle,
    ) -> Result<Vec<Handle<u8>>, millstream_protocol::error::Error> {
        let mut handles = Vec::new();
        for (place, start, bytes) in self.memory.bound(self.steps, index) {
            let Some(whole) = self.handles.get(&place) else {
                continue;
            };
            let end = start + bytes;
            let view = whole.slice(start as usize..end as usize);
            let view = view.map_err(|why| why.of(kernel.name().clone()))?;
            handles.push(view);
        }
        Ok(handles)
    }
}

/// Packs the scalars of a user's kernel as its signature lays them out: several constant ones may share a word.
fn packed(scalars: &[RecordedWord], kernel: &KernelHandle) -> Vec<RecordedWord> {
    let signature = kernel.kernel().signature();
    let mut words = vec![RecordedWord::Value(0); signature.scalar_words()];
    for (spec, scalar) in signature.scalars().iter().zip(scalars) {
        let place = &mut words[spec.offset / 8];
        // Scalars do not straddle words.
        *place = match (*place, *scalar) {
            (RecordedWord::Value(others), RecordedWord::Value(bits)) => {
                RecordedWord::Value(others | bits << (spec.offset % 8 * 8))
            }
            (_, scalar) => scalar,
        };
    }
    words
}
