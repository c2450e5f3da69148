//! Checks that a launch stored every element of the bindings that its kernel declares as written.
//!
//! A completed `Write` heals (I7): poisoned or undefined bytes count as data afterwards. So a kernel that declares
//! `Write` and leaves elements out turns garbage into data, and no check of accesses can see that.
//!
//! Programs are deterministic, so this check runs them up to twice. The outputs hold a pattern before the first run.
//! Elements that still hold it afterwards are suspects: they are filled with the inverse of the pattern, and the
//! program runs again. An element that kept both was not stored. Native kernels are user code that may have effects
//! and must run once, so they are not checked.

use millstream_protocol::{Access, BoundSlice, NativeView};

use crate::checker::Unwritten;
use crate::entry::{Entry, LaunchOp};

/// The bytes of outputs before the first run. Suspects hold the inverse before the second.
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
                    unsafe { output.bytes() }.fill(PATTERN);
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
        let mut suspects = Vec::with_capacity(self.outputs.len());
        for output in &self.outputs {
            // SAFETY: the caller's promise; the launch has ended.
            suspects.push(output.inverted(unsafe { output.bytes() }));
        }
        if suspects.iter().all(Vec::is_empty) {
            return Vec::new();
        }
        for (view, before) in &self.updated {
            // SAFETY: the caller's promise.
            unsafe { bytes(view) }.copy_from_slice(before);
        }
        if !again() {
            return Vec::new();
        }
        let outputs = self.outputs.iter().zip(suspects);
        let unwritten = outputs.filter_map(|(output, suspects)| {
            // SAFETY: the caller's promise; the launch has ended.
            let bytes = unsafe { output.bytes() };
            output.unwritten(bytes, &suspects)
        });
        unwritten.collect()
    }
}

impl Output {
    /// # Safety
    /// As for [`bytes`].
    unsafe fn bytes<'a>(&self) -> &'a mut [u8] {
        // SAFETY: the caller's promise.
        unsafe { bytes(&self.view) }
    }

    /// Returns the elements that hold the pattern, and fills them with its inverse.
    fn inverted(&self, bytes: &mut [u8]) -> Vec<usize> {
        let elements = bytes.chunks_exact_mut(self.element_bytes).enumerate();
        let held = elements.filter(|(_, element)| element.iter().all(|byte| *byte == PATTERN));
        held.map(|(at, element)| {
            element.fill(!PATTERN);
            at
        })
        .collect()
    }

    /// Returns the first run of suspects that still hold the inverse of the pattern.
    fn unwritten(&self, bytes: &[u8], suspects: &[usize]) -> Option<Unwritten> {
        let size = self.element_bytes;
        let element = |at: usize| &bytes[at * size..][..size];
        let is_held = |at: &usize| element(*at).iter().all(|byte| *byte == !PATTERN);
        let mut held = suspects.iter().copied().filter(is_held);
        let first = held.next()?;
        let more = held.zip(first + 1..).take_while(|(at, next)| at == next);
        let end = first + 1 + more.count();
        Some(Unwritten {
            binding: self.binding,
            bytes: (first * size) as u64..(end * size) as u64,
        })
    }
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
