//! What touches memory.

use crate::instruction::{Action, Atomic, Binary, Source, Space, Type};
use crate::number::{Format, Mode};
use crate::operands::Statement;

/// What is said of caches, which there are none of.
const CACHES: [&str; 16] = [
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
];
/// To whom something is visible: to all, here.
const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];

impl Statement<'_, '_> {
    /// None: it is none of these.
    pub(super) fn memory(&mut self, name: &str) -> Result<Option<Action>, String> {
        let action = match name {
            "ld" | "ldu" => self.load(),
            "st" => self.store(),
            "atom" => self.atomic(true),
            "red" => self.atomic(false),
            "prefetch" | "prefetchu" => {
                self.pass(&["global", "local", "L1", "L2"]);
                self.operand()?;
                Ok(Action::Nothing)
            }
            "membar" => {
                self.pass(&SCOPES);
                self.pass(&["gl"]);
                Ok(Action::Fence)
            }
            "fence" => {
                self.pass(&SCOPES);
                self.pass(&["sc", "acq_rel", "acquire", "release"]);
                Ok(Action::Fence)
            }
            _ => return Ok(None),
        };
        action.map(Some)
    }

    fn load(&mut self) -> Result<Action, String> {
        self.pass(&["relaxed", "acquire", "weak", "volatile"]);
        self.pass(&SCOPES);
        let space = self.space();
        self.pass(&CACHES);
        let count = self.vector();
        let ty = self.ty()?;
        let targets = self.several_targets(ty)?;
        let (space, from) = self.address(space)?;
        match targets.len() == count {
            true => Ok(Action::Load {
                space,
                ty,
                targets,
                from,
            }),
            false => Err("another number of registers than its vector has".to_owned()),
        }
    }

    fn store(&mut self) -> Result<Action, String> {
        if self.modifiers.contains(&"const") {
            return Err("constants stay as they are".to_owned());
        }
        let strong = self.pass(&["relaxed", "release", "volatile"]);
        self.pass(&["weak"]);
        self.pass(&SCOPES);
        let space = self.space();
        self.pass(&CACHES);
        let count = self.vector();
        let ty = self.ty()?;
        let (space, to) = self.address(space)?;
        let values = self.several(ty)?.into_iter().collect::<Option<Vec<_>>>();
        let values = values.ok_or("a value that is none")?;
        match values.len() == count && space != Space::Parameter {
            true => Ok(Action::Store {
                space,
                ty,
                values: values.into(),
                to,
                strong,
            }),
            false => Err("parameters, or another number of values than its vector has".to_owned()),
        }
    }

    fn vector(&mut self) -> usize {
        let counts = [("v2", 2), ("v4", 4), ("v8", 8)];
        let count = counts.into_iter().find(|(name, _)| self.has(name));
        count.map_or(1, |(_, count)| count)
    }

    fn atomic(&mut self, answers: bool) -> Result<Action, String> {
        let space = self.space();
        // One operation runs at a time, so that every order and scope is kept.
        self.pass(&["relaxed", "acquire", "release", "acq_rel", "noftz"]);
        self.pass(&SCOPES);
        let ty = self.ty()?;
        let op = self.modifier("operation", |name| {
            Some(match name {
                "exch" => Atomic::Exchange,
                "cas" => Atomic::CompareAndSwap,
                "inc" => Atomic::Increment,
                "dec" => Atomic::Decrement,
                "add" => Atomic::Compute(Binary::Add),
                "min" => Atomic::Compute(Binary::Min { nan: false }),
                "max" => Atomic::Compute(Binary::Max { nan: false }),
                "and" => Atomic::Compute(Binary::And),
                "or" => Atomic::Compute(Binary::Or),
                "xor" => Atomic::Compute(Binary::Xor),
                _ => return None,
            })
        })?;
        let counts = matches!(op, Atomic::Increment | Atomic::Decrement);
        let only_add =
            ty.is_float() && !matches!(op, Atomic::Exchange | Atomic::Compute(Binary::Add));
        if only_add || (counts && ty != Type::Unsigned(4)) {
            return Err("of this type".to_owned());
        }
        let target = match answers {
            true => self.two_targets()?[0],
            false => None,
        };
        let (space, at) = self.address(space)?;
        let a = self.source(ty)?;
        let b = match op {
            Atomic::CompareAndSwap => self.source(ty)?,
            _ => Source::Value(0),
        };
        Ok(Action::Atomic {
            op,
            space,
            ty,
            target,
            at,
            a,
            b,
        })
    }
}

/// Atomic additions of singles in global memory flush what is too small; all others do not.
pub(crate) fn atomic_mode(ty: Type, space: Space) -> Mode {
    Mode {
        flush: ty == Type::Float(Format::F32) && space == Space::Global,
        ..Mode::default()
    }
}
