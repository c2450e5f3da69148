//! What few tasks carry: terms, or more than a message has room for.
//!
//! One pointer for both, so that a task with neither pays for one comparison, and one under terms allocates
//! nothing: it counts a reference to terms that all tasks of its stream share (I9).

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::binding::Binding;
use crate::cancel::Terms;
use crate::launch::TensorMap;
use crate::layout::Strided;

/// What a task carries beyond the inline room.
#[derive(Default)]
pub struct Extra {
    /// Bindings beyond the first [`INLINE_BINDINGS`](crate::launch::INLINE_BINDINGS).
    pub bindings: Vec<Binding>,
    /// All packed scalars, if they are more than [`INLINE_WORDS`](crate::launch::INLINE_WORDS).
    pub words: Vec<u64>,
    /// Metadata words.
    pub metadata: Vec<u32>,
    /// Tensor maps.
    pub tensor_maps: Vec<TensorMap>,
    /// Strides of a copy in or out, one per binding.
    pub layouts: Vec<Option<Strided>>,
    /// What may withdraw the task.
    pub terms: Option<Arc<Terms>>,
    /// The task's entry in the submission log, if there is one and the task may be withdrawn.
    pub entry: Option<u64>,
}

/// Set in a pointer to terms.
const TERMS: usize = 1;

// The tag's bit is free in both pointers.
const _: () = assert!(align_of::<Extra>() > TERMS && align_of::<Terms>() > TERMS);

/// Nothing, shared terms, or a box with more, which may have terms as well.
///
/// The pointer is null, or is of `Box::into_raw`, or, with the tag, of `Arc::into_raw`; it owns what it was
/// made of.
#[derive(Default)]
pub struct Rare(Option<NonNull<()>>, PhantomData<(Box<Extra>, Arc<Terms>)>);

// SAFETY: it is a `Box<Extra>` or an `Arc<Terms>`, which are Send, as this says to the compiler.
unsafe impl Send for Rare where (Box<Extra>, Arc<Terms>): Send {}

impl Rare {
    /// A box with more.
    pub fn of(more: Box<Extra>) -> Self {
        // SAFETY: a box is not null.
        let pointer = unsafe { NonNull::new_unchecked(Box::into_raw(more).cast()) };
        Self(Some(pointer), PhantomData)
    }

    fn of_terms(terms: Arc<Terms>) -> Self {
        let pointer = Arc::into_raw(terms).cast_mut().cast::<()>();
        // SAFETY: a pointer of an `Arc` is not null, and setting a bit leaves it so.
        let pointer = unsafe { NonNull::new_unchecked(pointer.map_addr(|addr| addr | TERMS)) };
        Self(Some(pointer), PhantomData)
    }

    /// Is there neither?
    #[inline(always)]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The box, if that is what it is.
    #[inline]
    fn as_box(&self) -> Option<NonNull<Extra>> {
        self.0
            .filter(|pointer| pointer.addr().get() & TERMS == 0)
            .map(NonNull::cast)
    }

    /// The terms, if that is what it is.
    fn as_terms(&self) -> Option<*const Terms> {
        let pointer = self.0?.as_ptr();
        let tagged = pointer.addr() & TERMS != 0;
        tagged.then(|| pointer.map_addr(|addr| addr & !TERMS).cast_const().cast())
    }

    /// What goes beyond a message's room.
    #[inline]
    pub fn more(&self) -> Option<&Extra> {
        // SAFETY: it is the pointer of our box, borrowed as long as `self` is.
        self.as_box().map(|more| unsafe { more.as_ref() })
    }

    /// The same, to be changed.
    #[inline]
    pub fn more_mut(&mut self) -> Option<&mut Extra> {
        // SAFETY: as in `more`; `self` is borrowed alone.
        self.as_box().map(|mut more| unsafe { more.as_mut() })
    }

    /// The same, made where there is none.
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
            None => unreachable!("it was just made a box"),
        }
    }

    /// From here on the task is under these terms.
    pub fn put_under(&mut self, terms: Arc<Terms>) {
        match self.more_mut() {
            Some(more) => more.terms = Some(terms),
            None => *self = Self::of_terms(terms),
        }
    }

    /// The terms.
    #[inline]
    pub fn terms(&self) -> Option<&Terms> {
        match self.as_terms() {
            // SAFETY: it is the pointer of our `Arc`, borrowed as long as `self` is.
            Some(terms) => Some(unsafe { &*terms }),
            None => self.more()?.terms.as_deref(),
        }
    }

    fn into_terms(self) -> Option<Arc<Terms>> {
        let terms = self.as_terms()?;
        std::mem::forget(self);
        // SAFETY: the pointer is of `Arc::into_raw`, and who owned it was forgotten.
        Some(unsafe { Arc::from_raw(terms) })
    }

    #[cold]
    fn free(&mut self) {
        if let Some(more) = self.as_box() {
            // SAFETY: the pointer is of `Box::into_raw`, and is not used again.
            drop(unsafe { Box::from_raw(more.as_ptr()) });
        } else if let Some(terms) = self.as_terms() {
            // SAFETY: the pointer is of `Arc::into_raw`, and is not used again.
            drop(unsafe { Arc::from_raw(terms) });
        }
    }
}

impl Drop for Rare {
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
    fn terms_and_more_come_in_either_order_and_go_with_it() {
        let terms = Arc::new(Terms::of(&CancelToken::new()));
        let shared = || Arc::strong_count(&terms) - 1;
        let mut rare = Rare::default();
        assert!(rare.is_none() && rare.terms().is_none() && rare.more().is_none());
        rare.put_under(terms.clone());
        assert!(!rare.is_none() && rare.terms().is_some() && rare.more().is_none());
        rare.get_or_insert().words.push(7);
        assert!(rare.terms().is_some() && shared() == 1);
        assert_eq!(rare.more().map(|more| more.words.len()), Some(1));
        drop(rare);
        assert_eq!(shared(), 0);
        let mut rare = Rare::of(Box::default());
        rare.put_under(terms.clone());
        rare.put_under(terms.clone());
        assert!(rare.more().is_some() && shared() == 1);
        rare = Rare::default();
        rare.put_under(terms.clone());
        rare.put_under(terms.clone());
        assert_eq!(shared(), 1);
        drop(std::mem::take(&mut rare));
        assert!(rare.is_none() && shared() == 0);
    }
}
