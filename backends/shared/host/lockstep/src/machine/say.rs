//! What threads print, and failed assertions.

use super::Machine;
use super::active::Active;
use crate::code::Said;

impl Machine<'_> {
    /// Each active thread prints, or the first of them fails.
    #[cold]
    pub(super) fn say(&self, said: &Said, active: Active) {
        let function = &self.code.function;
        let text = |thread| {
            said.text.with(|index| {
                let (dtype, operand) = said.values[index];
                (dtype, self.bits(operand, thread))
            })
        };
        let [x, y, z] = [self.cube.x(), self.cube.y(), self.cube.z()];
        let position = |thread: usize| {
            let thread = (self.first + thread) as u32;
            function.position_of(thread, [x, y, z], self.cube.counts())
        };
        if said.fails
            && let Some(thread) = active.threads().next()
        {
            let place = function.place(said.line);
            panic!("{}, in {}{place}", text(thread), position(thread));
        }
        let Some(lines) = self.lines else {
            return;
        };
        for thread in active.threads() {
            lines.say(position(thread), said.line, || text(thread));
        }
    }
}
