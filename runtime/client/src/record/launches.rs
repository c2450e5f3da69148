//! Records launches: their arguments, and which of their scalars each replay sets.

use millstream_protocol::{
    Access, ArgumentError, ArgumentErrorKind, BindingSpec, Error, Op, Task,
    recording::{RecordedOp, RecordedWord, SLOTS_MAX, ScalarSlot},
};

use super::Recorder;
use crate::KernelHandle;
use crate::arguments::{
    ArgumentCount, ArgumentWriter, Arguments, Bound, CubeCount, Packed, Untyped, refused,
};

impl Recorder<'_> {
    /// Records a launch. A scalar may be a [`ScalarParameter`](crate::arguments::ScalarParameter), whose value each
    /// replay sets.
    ///
    /// # Errors
    /// Same as [`Stream::launch`](crate::Stream::launch); [`Error::Argument`] for a scalar parameter of
    /// another recorder.
    pub fn launch(
        &mut self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        let given = arguments.count();
        self.record_launch(kernel, count.into(), given, Vec::new(), |writer| {
            arguments.write(writer)
        })
    }

    /// Records a launch whose arguments `write` writes, as [`Stream::launch_with`](crate::Stream::launch_with). For
    /// programs that know their arguments only at run time.
    ///
    /// # Errors
    /// Same as [`Stream::launch_with`](crate::Stream::launch_with).
    pub fn launch_with<'h>(
        &mut self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        write: impl FnOnce(&mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>,
    ) -> Result<(), Error> {
        let declared = ArgumentCount::of(kernel.kernel.signature());
        self.record_launch(kernel, count.into(), declared, Vec::new(), |writer| {
            write(writer)?;
            writer.finish()
        })
    }

    /// Records a launch as [`Stream::launch_words`](crate::Stream::launch_words) makes it. A word may be a slot, whose
    /// value each replay provides ([`ReplayArgs::words`](crate::ReplayArgs::words)). For programs that generate kernels
    /// and so have scalars as words; other programs use [`Recorder::scalar`].
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Recording, Stream};
    /// # use millstream_protocol::Error;
    /// # use millstream_client::handle::Handle;
    /// use millstream_client::arguments::{CubeCount, read, write};
    /// use millstream_protocol::recording::RecordedWord;
    /// # fn f(stream: &Stream, scale: &KernelHandle, x: &Handle<f32>, y: &Handle<f32>) -> Result<(), Error> {
    /// let mut recorder = stream.recorder();
    /// let (a, b) = (recorder.parameter::<f32>(64)?, recorder.parameter::<f32>(64)?);
    /// let words = [RecordedWord::Value(64), RecordedWord::Slot(0)];
    /// let bindings = [read(a.as_bytes()), write(b.as_bytes())];
    /// recorder.launch_words(scale, CubeCount::single(), &bindings, &words)?;
    /// let step = recorder.finish()?;
    /// let factor = u64::from(0.5_f32.to_bits());
    /// step.bind(&a, x).bind(&b, y).words(&[factor]).replay(stream)
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Stream::launch_words`](crate::Stream::launch_words); [`Error::Argument`] for a slot beyond
    /// [`SLOTS_MAX`].
    pub fn launch_words(
        &mut self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        bindings: &[Bound<'_, u8>],
        words: &[RecordedWord],
    ) -> Result<(), Error> {
        let beyond = words.iter().find_map(|word| match word {
            RecordedWord::Slot(slot) if *slot >= SLOTS_MAX => Some(*slot),
            _ => None,
        });
        if let Some(slot) = beyond {
            let message = format!(
                "word slot {slot} is beyond the last of {SLOTS_MAX}, counted from 0; number slots from 0 without gaps"
            );
            let why = ArgumentError::new(ArgumentErrorKind::TooLarge, message);
            return Err(*refused(kernel, why));
        }
        let values = words.iter().map(|word| match word {
            RecordedWord::Value(value) => *value,
            RecordedWord::Slot(_) => 0,
        });
        let values: Vec<u64> = values.collect();
        let slot = |(index, word): (usize, &RecordedWord)| match word {
            RecordedWord::Value(_) => None,
            RecordedWord::Slot(slot) => Some(ScalarSlot::of_word(index as u32, *slot)),
        };
        let slots = words.iter().enumerate().filter_map(slot).collect();
        let arguments = Untyped {
            signature: kernel.kernel.signature(),
            bindings,
            words: &values,
            metadata: &[],
            tensor_maps: &[],
        };
        let given = arguments.count();
        self.record_launch(kernel, count.into(), given, slots, |writer| {
            arguments.write(writer)
        })
    }

    fn record_launch<'h>(
        &mut self,
        kernel: &KernelHandle,
        count: CubeCount,
        given: ArgumentCount,
        slots: Vec<ScalarSlot>,
        write: impl FnOnce(&mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>,
    ) -> Result<(), Error> {
        let (stream, recorded) = (&*self.stream, &mut self.recorded);
        let mut packed = Packed::new();
        recorded.parameters.clear();
        stream.pack(kernel, given, &mut packed, |writer| {
            write(&mut writer.recorded_by(recorded))
        })?;
        self.record_packed(kernel, count, packed, slots)
    }

    fn record_packed(
        &mut self,
        kernel: &KernelHandle,
        count: CubeCount,
        mut packed: Packed,
        slots: Vec<ScalarSlot>,
    ) -> Result<(), Error> {
        let check = self
            .stream
            .check_count(kernel, &count, || packed.bindings());
        check?;
        let mut task = Task::new(None, Op::Taken);
        packed.move_to(&mut task);
        if matches!(count, CubeCount::Static(x, y, z) if [x, y, z].contains(&0)) {
            // No cube runs, so a replay must not treat the declared outputs as written.
            task.all_bindings_mut()
                .for_each(|binding| binding.access = Access::Read);
        }
        if let CubeCount::Dynamic(handle) = &count {
            task.push_binding(handle.binding(Access::Read));
            self.recorded.holds.push(handle.hold().clone());
        }
        self.recorded.holds.push(kernel.hold.clone());
        let signature = kernel.kernel.signature();
        let shape = |spec: &BindingSpec| {
            let aliases = signature.aliases() && spec.share.is_shared_by_pointer();
            (spec.dtype.size() as u64, aliases)
        };
        let shapes: Vec<_> = signature.bindings().iter().map(shape).collect();
        let op = RecordedOp::Launch {
            kernel: kernel.id(),
            count: count.as_launched(),
        };
        let parameters = std::mem::take(&mut self.recorded.parameters);
        if !parameters.is_empty() {
            self.scalar_slots.push((self.tasks.len(), parameters));
        }
        self.add_task(op, &task, &shapes, slots.into());
        Ok(())
    }
}
