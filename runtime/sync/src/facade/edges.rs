//! The happens-before edges of a device: what a thread did before it sent a task happens before
//! what another thread does after it waited for that task. In a build the primitives provide this
//! order, and the methods here do nothing. In a user's model loom does not see the primitives; it
//! sees these edges.
//!
//! Sending only releases and waiting only acquires: two threads that both send are not ordered by
//! it, so a model finds the race of code that assumes so. One lock around the device would hide it: with a lock, the
//! test `two_sends_order_no_threads` of `loom-tests` finds no race. All calls access the same atomic, because loom
//! explores only the orders of accesses to one object.

/// The happens-before edges of one device.
#[derive(Debug, Default)]
pub struct Edges {
    #[cfg(all(loom, feature = "model"))]
    moment: loom::sync::atomic::AtomicUsize,
}

impl Edges {
    /// Marks that a task is about to be sent.
    #[inline(always)]
    pub fn release(&self) {
        #[cfg(all(loom, feature = "model"))]
        self.touch(std::sync::atomic::Ordering::Release);
    }

    /// Marks that work was done on behalf of waiting threads, perhaps including the caller.
    #[inline(always)]
    pub fn pass_on(&self) {
        #[cfg(all(loom, feature = "model"))]
        self.touch(std::sync::atomic::Ordering::AcqRel);
    }

    /// Marks that tasks sent before are about to run, or were waited for.
    #[inline(always)]
    pub fn acquire(&self) {
        #[cfg(all(loom, feature = "model"))]
        self.touch(std::sync::atomic::Ordering::Acquire);
    }

    /// A read-modify-write, which reads the latest value and continues the release sequence.
    #[cfg(all(loom, feature = "model"))]
    fn touch(&self, order: std::sync::atomic::Ordering) {
        // A model that has failed is torn down out of order.
        if !std::thread::panicking() {
            self.moment.fetch_add(0, order);
        }
    }
}
