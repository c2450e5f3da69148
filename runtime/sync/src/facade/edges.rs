//! What a device promises about the memory of those who use it: what was done before something was sent comes
//! before what is done after it was waited for. In a build the primitives see to it, and this is nothing at all.
//! In a user's model, where they are out of loom's sight, this is what loom sees of a device.
//!
//! Sending releases and nothing else, waiting acquires and nothing else: two threads that both send are not
//! ordered by that, so a model finds the race of those who believe it. One lock around the device would hide it.

/// The happens-before edges of one device.
#[derive(Debug, Default)]
pub struct Edges {
    #[cfg(all(loom, feature = "model"))]
    moment: loom::sync::atomic::AtomicUsize,
}

impl Edges {
    /// Something is about to be sent.
    #[inline(always)]
    pub fn release(&self) {
        #[cfg(all(loom, feature = "model"))]
        self.touch(std::sync::atomic::Ordering::Release);
    }

    /// Something was done on behalf of those who wait, the caller perhaps among them.
    #[inline(always)]
    pub fn pass_on(&self) {
        #[cfg(all(loom, feature = "model"))]
        self.touch(std::sync::atomic::Ordering::AcqRel);
    }

    /// What was sent before is about to be done, or was waited for.
    #[inline(always)]
    pub fn acquire(&self) {
        #[cfg(all(loom, feature = "model"))]
        self.touch(std::sync::atomic::Ordering::Acquire);
    }

    /// A read-modify-write: it sees the latest, and goes on with what others have released.
    #[cfg(all(loom, feature = "model"))]
    fn touch(&self, order: std::sync::atomic::Ordering) {
        // A model that has failed is taken down out of order.
        if !std::thread::panicking() {
            self.moment.fetch_add(0, order);
        }
    }
}
