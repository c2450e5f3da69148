//! [`ScalarParameter`]: a scalar of a recording whose value each replay sets.

use std::marker::PhantomData;
use std::sync::Arc;

use millstream_protocol::{Element, SlotRef, recording::ScalarSlot};

/// A scalar of a recording whose value each replay sets. [`Recorder::scalar`](crate::Recorder::scalar) makes one, a
/// launch takes `&parameter` in place of a number, and [`ReplayArgs::set`](crate::ReplayArgs::set) sets its value.
///
/// It belongs to the recorder that made it: only this recorder's launches take it, and only replays of this recording
/// set it.
pub struct ScalarParameter<T: Element> {
    index: u32,
    recorder: Arc<RecorderKey>,
    element: PhantomData<fn() -> T>,
}

/// Identifies a recorder, and later its recording: by address, while a reference to it exists.
#[derive(Debug)]
pub(crate) struct RecorderKey(());

impl RecorderKey {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(RecorderKey(()))
    }
}

impl<T: Element> ScalarParameter<T> {
    pub(crate) fn new(index: u32, recorder: Arc<RecorderKey>) -> Self {
        Self {
            index,
            recorder,
            element: PhantomData,
        }
    }

    /// Returns the position among the scalar parameters of the recorder.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Returns `true` if the recorder with this key made the parameter.
    pub(crate) fn is_of(&self, recorder: &Arc<RecorderKey>) -> bool {
        Arc::ptr_eq(&self.recorder, recorder)
    }
}

impl<T: Element> Clone for ScalarParameter<T> {
    fn clone(&self) -> Self {
        Self::new(self.index, self.recorder.clone())
    }
}

impl<T: Element> std::fmt::Debug for ScalarParameter<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ScalarParameter<{}>({})", T::DTYPE, self.index)
    }
}

/// What a recorder takes from arguments in addition to their packed form.
pub(crate) struct RecordedArguments {
    /// References that keep the recorded slices and kernels alive.
    pub(crate) holds: Vec<SlotRef>,
    /// The key of the recorder.
    pub(crate) key: Arc<RecorderKey>,
    /// The scalar parameters of the launch that is being recorded, by their indices.
    pub(crate) parameters: Vec<ScalarSlot>,
}
