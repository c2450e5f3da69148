//! Checks that a launch stored every element of the bindings that its kernel declares as written.
//!
//! A completed `Write` heals (I7): poisoned or undefined bytes count as data afterwards. So a kernel that declares
//! `Write` and leaves elements out turns garbage into data, and no check of accesses can see that.
//!
//! Programs are deterministic, so this check runs them up to twice. The outputs hold a pattern before the first run.
//! If an element of one still holds it afterwards, the output is suspect: it is filled with the inverse of the pattern, and
//! the program runs again. An element that kept both was not stored. Native kernels are user code that may have effects
//! and must run once, so they are not checked.

use millstream_protocol::{Access, BoundSlice, NativeView};

use crate::checker::Unwritten;
use crate::entry::{Entry, LaunchOp};

/// The bytes of outputs before the first run. Suspect outputs hold the inverse before the second.
const PATTERN: u8 = 0xA5;

/// The check of one launch.
pub(crate) struct Coverage {
    outputs: Vec<Output>,
    /// The bindings that the launch updates, with their bytes before the first run.
    updated: Vec<(NativeView, Vec<u8>)>,
}

/// A binding that is declared as written.
struct Output {
    binding: usize,
    view: NativeView,
    element_bytes: usize,
}

impl Coverage {
    /// Fills the bindings that the launch declares as written with the pattern. Returns `None` if there is nothing to
    /// check.
    ///
    /// # Safety
    /// Until the check ends, the views of the entry point to live, initialized memory that nothing but this launch
    /// touches.
    pub(crate) unsafe fn begin(entry: &Entry, launch: &LaunchOp) -> Option<Self> {
        if !launch.kernel.body.is_program() {
            return None;
        }
        let specs = launch.kernel.kernel.signature().bindings();
        let is_alone = |binding: usize| {
            let others = entry.bindings.iter().enumerate();
            let mut others = others.filter(|(other, _)| *other != binding);
            others.all(|(_, other)| !overlap(other, &entry.bindings[binding]))
        };
        let (mut outputs, mut updated) = (Vec::new(), Vec::new());
        let all = specs.iter().zip(&entry.bindings).zip(&entry.views);
        for (binding, ((spec, bound), view)) in all.enumerate() {
            match (spec.access, bound.access) {
                // Overlapping bindings are skipped: their bytes may be read or stored through the other binding.
                (Access::Write, Access::Write) if bound.len > 0 && is_alone(binding) => {
                    let output = Output {
                        binding,
                        view: *view,
                        element_bytes: spec.dtype.size(),
                    };
                    // SAFETY: the caller's promise; the launch has not begun.
                    unsafe { bytes(view) }.fill(PATTERN);
                    outputs.push(output);
                }
                (Access::ReadWrite, _) if bound.len > 0 => {
                    // SAFETY: the caller's promise.
                    updated.push((*view, unsafe { bytes(view) }.to_vec()));
                }
                _ => {}
            }
        }
        (!outputs.is_empty()).then_some(Self { outputs, updated })
    }

    /// Returns the elements that the completed launch did not store. `again` runs the launch once more if there are
    /// suspects, and returns whether it could.
    ///
    /// # Safety
    /// As for [`Coverage::begin`].
    pub(crate) unsafe fn end(self, again: impl FnOnce() -> bool) -> Vec<Unwritten> {
        let mut suspects = Vec::new();
        for output in self.outputs {
            // SAFETY: the caller's promise; the launch has ended.
            let bytes = unsafe { bytes(&output.view) };
            let mut elements = bytes.chunks_exact(output.element_bytes);
            if elements.any(|element| holds(element, PATTERN)) {
                suspects.push((output, bytes.to_vec()));
                bytes.fill(!PATTERN);
            }
        }
        if suspects.is_empty() {
            return Vec::new();
        }
        for (view, before) in &self.updated {
            // SAFETY: the caller's promise.
            unsafe { bytes(view) }.copy_from_slice(before);
        }
        let has_run = again();
        let unwritten = suspects.into_iter().filter_map(|(output, first)| {
            // SAFETY: the caller's promise; the launch has ended.
            let second = unsafe { bytes(&output.view) };
            if !has_run {
                second.copy_from_slice(&first);
                return None;
            }
            output.unwritten(&first, second)
        });
        unwritten.collect()
    }
}

impl Output {
    /// Returns the first elements that held the pattern after the first run, and its inverse after the second.
    fn unwritten(&self, first: &[u8], second: &[u8]) -> Option<Unwritten> {
        let size = self.element_bytes;
        let runs = first.chunks_exact(size).zip(second.chunks_exact(size));
        let mut missed =
            runs.map(|(first, second)| holds(first, PATTERN) && holds(second, !PATTERN));
        let start = missed.position(|is_missed| is_missed)?;
        let end = start + 1 + missed.take_while(|is_missed| *is_missed).count();
        Some(Unwritten {
            binding: self.binding,
            bytes: (start * size) as u64..(end * size) as u64,
        })
    }
}

fn holds(element: &[u8], pattern: u8) -> bool {
    element.iter().all(|byte| *byte == pattern)
}

/// Returns the bytes of a view.
///
/// # Safety
/// The memory is live and initialized, and nothing else touches it while the slice is in use.
unsafe fn bytes<'a>(view: &NativeView) -> &'a mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(view.pointer, view.bytes as usize) }
}

fn overlap(one: &BoundSlice, other: &BoundSlice) -> bool {
    one.page == other.page
        && one.offset < other.offset + other.len
        && other.offset < one.offset + one.len
}
