//! Steps that create, drop, fill and overwrite buffers.

use crate::contents::{AllowedFailures, Contents};
use crate::dice::Dice;
use crate::kernels::Kernels;
use crate::program::{Program, Stepped};

/// The name of a task that copies from the host.
pub(super) const COPY_IN: &str = "copy in";

impl Program {
    pub(crate) fn create(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, pattern, len) = (self.stream(dice), Self::pattern(dice), self.size(dice));
        if dice.one_in(2) {
            self.make_room(dice);
        }
        let defined = |pattern| Contents::defined(len, pattern, AllowedFailures::NONE);
        let kind = dice.below(4);
        let copies = kind < 2;
        let (made, contents) = match kind {
            0 => (stream.create(&pattern.elements(len)), defined(pattern)),
            1 => {
                let made = stream.create_owned(pattern.elements(len));
                (made.map_err(Into::into), defined(pattern))
            }
            2 if self.config.may_be_undefined => (stream.empty(len), Contents::unknown(len)),
            _ => {
                let made = stream.empty(len);
                if let Ok(handle) = &made {
                    let filled = stream.fill(handle, pattern.base);
                    filled.map_err(|error| self.refused("fill", error))?;
                    self.note_task(&stream, "fill");
                }
                (made, defined(pattern.flat()))
            }
        };
        if copies && made.is_ok() {
            self.note_task(&stream, COPY_IN);
        }
        self.add_buffer(dice, made, contents, AllowedFailures::NONE)
    }

    pub(crate) fn drop_buffer(&mut self, dice: &mut Dice) -> Stepped {
        let at = self.any(dice);
        self.buffers.swap_remove(at);
        Ok(())
    }

    pub(crate) fn set(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, part, pattern) = (self.stream(dice), self.part(dice)?, Self::pattern(dice));
        let arguments = Kernels::sets(&part.view, pattern.base);
        let launched = stream.launch(&self.kernels.set, Self::cubes(dice), arguments);
        launched.map_err(|error| self.refused("set", error))?;
        self.note_task(&stream, "set");
        self.set_overwritten(&part, pattern.flat(), AllowedFailures::NONE);
        Ok(())
    }

    pub(crate) fn fill(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, part, pattern) = (self.stream(dice), self.part(dice)?, Self::pattern(dice));
        let filled = stream.fill(&part.view, pattern.base);
        filled.map_err(|error| self.refused("fill", error))?;
        self.note_task(&stream, "fill");
        self.set_overwritten(&part, pattern.flat(), AllowedFailures::NONE);
        Ok(())
    }

    pub(crate) fn write(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, part, pattern) = (self.stream(dice), self.part(dice)?, Self::pattern(dice));
        let elements = pattern.elements(part.range.len());
        let written = stream.write(&part.view, &elements);
        written.map_err(|error| self.refused("write", error))?;
        self.note_task(&stream, COPY_IN);
        // A pattern of a part is counted from the start of the part.
        self.set_overwritten(&part, pattern, AllowedFailures::NONE);
        Ok(())
    }
}
