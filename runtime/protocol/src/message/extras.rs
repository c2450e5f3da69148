//! The rare parts of a task: terms, or more than the inline room of a message holds.
//!
//! One pointer stands for both. A task with neither pays one comparison, and a task under terms allocates nothing: it
//! counts a reference to terms that all tasks of its stream share (I9).

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::binding::Binding;
use crate::cancel::Terms;
use crate::launch::TensorMap;
use crate::layout::Strided;

/// The parts of a task beyond the inline room.
#[derive(Default)]
pub struct Extra {
    /// Bindings beyond the first [`INLINE_BINDINGS`](crate::launch::INLINE_BINDINGS).
    pub bindings: Vec<Binding>,
    /// All packed scalars, if there are more than [`INLINE_WORDS`](crate::launch::INLINE_WORDS).
    pub words: Vec<u64>,
    /// The metadata words.
    pub metadata: Vec<u32>,
    /// The tensor maps.
    pub tensor_maps: Vec<TensorMap>,
    /// The layouts of a copy in or out, one per binding.
    pub layouts: Vec<Option<Strided>>,
    /// The terms that may withdraw the task.
    pub terms: Option<Arc<Terms>>,
    /// The index of the task in the submission log, if the log is enabled and the task may be withdrawn.
    pub entry: Option<u64>,
}

/// The tag of a pointer to terms.
const TERMS: usize = 1;

// The bit of the tag is zero in both kinds of pointers.
const _: () = assert!(align_of::<Extra>() > TERMS && align_of::<Terms>() > TERMS);

/// Nothing, shared terms, or a box with more, which may contain terms as well.
///
/// The pointer is null, or from `Box::into_raw`, or, with the tag, from `Arc::into_raw`. It owns the value that it
/// was made from.
#[derive(Default)]
pub struct TaskExtras(Option<NonNull<()>>, PhantomData<(Box<Extra>, Arc<Terms>)>);

// SAFETY: the value is a `Box<Extra>` or an `Arc<Terms>`. The bound states for the compiler that both are `Send`.
unsafe impl Send for TaskExtras where (Box<Extra>, Arc<Terms>): Send {}

impl TaskExtras {
    /// Creates a value from a box.
    pub fn of(more: Box<Extra>) -> Self {
        // SAFETY: a box is not null.
        let pointer = unsafe { NonNull::new_unchecked(Box::into_raw(more).cast()) };
        Self(Some(pointer), PhantomData)
    }

    fn of_terms(terms: Arc<Terms>) -> Self {
        let pointer = Arc::into_raw(terms).cast_mut().cast::<()>();
        // SAFETY: a pointer from an `Arc` is not null, and setting a bit does not change that.
        let pointer = unsafe { NonNull::new_unchecked(pointer.map_addr(|addr| addr | TERMS)) };
        Self(Some(pointer), PhantomData)
    }

    /// Returns `true` if there are neither terms nor a box.
    #[inline(always)]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the box, if the pointer is one.
    #[inline]
    fn as_box(&self) -> Option<NonNull<Extra>> {
        self.0
            .filter(|pointer| pointer.addr().get() & TERMS == 0)
            .map(NonNull::cast)
    }

    /// Returns the terms, if the pointer is to terms.
    fn as_terms(&self) -> Option<*const Terms> {
        let pointer = self.0?.as_ptr();
        let tagged = pointer.addr() & TERMS != 0;
        tagged.then(|| pointer.map_addr(|addr| addr & !TERMS).cast_const().cast())
    }

    /// Returns the parts beyond the inline room.
    #[inline]
    pub fn more(&self) -> Option<&Extra> {
        // SAFETY: the pointer is of our box, and borrowed as long as `self` is.
        self.as_box().map(|more| unsafe { more.as_ref() })
    }

    /// Returns the parts beyond the inline room mutably.
    #[inline]
    pub fn more_mut(&mut self) -> Option<&mut Extra> {
        // SAFETY: as in `more`; `self` is borrowed exclusively.
        self.as_box().map(|mut more| unsafe { more.as_mut() })
    }

    /// Returns the parts beyond the inline room, which are allocated if there are none.
    pub fn get_or_insert(&mut self) -> &mut Extra {
        if self.as_box().is_none() {
            let terms = std::mem::take(self).into_terms();
            *self = Self::of(Box::new(Extra {
                terms,
                ..Extra::default()
            }));
        }
        match self.more_mut() {
            Some(more) => more,
            None => unreachable!("the pointer was just set to a box"),
        }
    }

    /// Puts the task under these terms.
    pub fn put_under(&mut self, terms: Arc<Terms>) {
        match self.more_mut() {
            Some(more) => more.terms = Some(terms),
            None => *self = Self::of_terms(terms),
        }
    }

    /// Returns the terms.
    #[inline]
    pub fn terms(&self) -> Option<&Terms> {
        match self.as_terms() {
            // SAFETY: the pointer is of our `Arc`, and borrowed as long as `self` is.
            Some(terms) => Some(unsafe { &*terms }),
            None => self.more()?.terms.as_deref(),
        }
    }

    /// Returns the terms, shared.
    pub fn shared_terms(&self) -> Option<Arc<Terms>> {
        let Some(terms) = self.as_terms() else {
            return self.more()?.terms.clone();
        };
        // SAFETY: the pointer is that of an `Arc`, to which this value owns a reference; the second one is made first.
        Some(unsafe {
            Arc::increment_strong_count(terms);
            Arc::from_raw(terms)
        })
    }

    fn into_terms(self) -> Option<Arc<Terms>> {
        let terms = self.as_terms()?;
        std::mem::forget(self);
        // SAFETY: the pointer is from `Arc::into_raw`, and `self`, its owner, was forgotten.
        Some(unsafe { Arc::from_raw(terms) })
    }

    #[cold]
    fn free(&mut self) {
        if let Some(more) = self.as_box() {
            // SAFETY: the pointer is from `Box::into_raw`, and is not used again.
            drop(unsafe { Box::from_raw(more.as_ptr()) });
        } else if let Some(terms) = self.as_terms() {
            // SAFETY: the pointer is from `Arc::into_raw`, and is not used again.
            drop(unsafe { Arc::from_raw(terms) });
        }
    }
}

impl Drop for TaskExtras {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.is_some() {
            self.free();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelToken;

    #[test]
    fn terms_and_a_box_are_set_in_any_order_and_dropped_together() {
        let terms = Arc::new(Terms::of(&CancelToken::new()));
        let shared = || Arc::strong_count(&terms) - 1;
        let mut rare = TaskExtras::default();
        assert!(rare.is_none() && rare.terms().is_none() && rare.more().is_none());
        rare.put_under(terms.clone());
        assert!(!rare.is_none() && rare.terms().is_some() && rare.more().is_none());
        let taken = rare.shared_terms();
        assert!(taken.is_some_and(|taken| Arc::ptr_eq(&taken, &terms)) && shared() == 1);
        rare.get_or_insert().words.push(7);
        assert!(rare.shared_terms().is_some() && shared() == 1);
        assert!(rare.terms().is_some() && shared() == 1);
        assert_eq!(rare.more().map(|more| more.words.len()), Some(1));
        drop(rare);
        assert_eq!(shared(), 0);
        let mut rare = TaskExtras::of(Box::default());
        rare.put_under(terms.clone());
        rare.put_under(terms.clone());
        assert!(rare.more().is_some() && shared() == 1);
        rare = TaskExtras::default();
        rare.put_under(terms.clone());
        rare.put_under(terms.clone());
        assert_eq!(shared(), 1);
        drop(std::mem::take(&mut rare));
        assert!(rare.is_none() && shared() == 0);
    }
}
