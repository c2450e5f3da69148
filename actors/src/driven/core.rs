//! The state of a driven device under its lock, and a turn of it.

use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::backend::Backend;
use millstream_protocol::marks::mark_runtime_thread;
use millstream_sync::facade::with_stack;

use super::closing::{Attempt, Remainder};
use super::inline::Inline;
use super::inside::InsideMark;
use crate::actor::DeviceActor;

/// The state that a turn needs.
pub(super) struct Core<B: Backend> {
    /// `None` once the device is closed.
    pub(super) actor: Option<DeviceActor<B>>,
    /// What the close has left behind, until it is freed.
    pub(super) remainder: Option<Arc<Remainder<B>>>,
    pub(super) inline: Inline,
}

impl<B: Backend> Core<B> {
    /// Takes one turn of everything. Returns `true` if anything was done.
    pub(super) fn turn(&mut self, budget: Duration) -> bool {
        with_stack(|| self.turn_here(budget))
    }

    fn turn_here(&mut self, budget: Duration) -> bool {
        let mut worked = self.take_messages();
        let _mark = mark_runtime_thread();
        let _inside = InsideMark::enter();
        let Self {
            actor,
            remainder,
            inline,
        } = self;
        let Some(actor) = actor else {
            return remainder
                .take_if(|remainder| remainder.free(false) != Attempt::InUse)
                .is_some();
        };
        if !actor.server.is_lost() {
            worked |= actor.server.backend_mut().pump(budget);
        }
        worked |= actor.turn(inline);
        worked | inline.collect()
    }

    /// Takes the device's own turn: makes decisions, and runs no code of users.
    pub(super) fn take_messages(&mut self) -> bool {
        let _mark = mark_runtime_thread();
        let _inside = InsideMark::enter();
        let Self { actor, inline, .. } = self;
        actor.as_mut().is_some_and(|actor| actor.turn(inline))
    }
}
