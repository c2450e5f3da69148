//! Decodes memory accesses.

use crate::instruction::{Action, Atomic, Binary, Source, Space, Type};
use crate::number::{Format, Mode};
use crate::operands::Statement;

/// Cache modifiers, without effect here.
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
/// Scopes of visibility. Here everything is visible to all threads.
const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];

impl Statement<'_, '_> {
    /// Decodes a memory access, or returns `None` for any other instruction.
    pub(super) fn memory(&mut self, name: &str) -> Result<Option<Action>, String> {
        let action = match name {
            "ld" | "ldu" => self.load(),
            "st" => self.store(),
            "atom" => self.atomic(true),
            "red" => self.atomic(false),
            "prefetch" | "prefetchu" => {
                self.ignore(&["global", "local", "L1", "L2"]);
                self.operand()?;
                Ok(Action::Nothing)
            }
            "membar" => {
                self.ignore(&SCOPES);
                self.ignore(&["gl"]);
                Ok(Action::Fence)
            }
            "fence" => {
                self.ignore(&SCOPES);
                self.ignore(&["sc", "acq_rel", "acquire", "release"]);
                Ok(Action::Fence)
            }
            _ => return Ok(None),
        };
        action.map(Some)
    }

    fn load(&mut self) -> Result<Action, String> {
        self.ignore(&["relaxed", "acquire", "weak", "volatile"]);
        self.ignore(&SCOPES);
        let space = self.space();
        self.ignore(&CACHES);
        let count = self.vector();
        let ty = self.ty()?;
        let targets = self.vector_targets(ty)?;
        let (space, from) = self.address(space)?;
        match targets.len() == count {
            true => Ok(Action::Load {
                space,
                ty,
                targets,
                from,
            }),
            false => Err(format!("expected {count} registers, got {}", targets.len())),
        }
    }

    fn store(&mut self) -> Result<Action, String> {
        if self.modifiers.contains(&"const") {
            return Err("constants cannot be written".to_owned());
        }
        let strong = self.ignore(&["relaxed", "release", "volatile"]);
        self.ignore(&["weak"]);
        self.ignore(&SCOPES);
        let space = self.space();
        self.ignore(&CACHES);
        let count = self.vector();
        let ty = self.ty()?;
        let (space, to) = self.address(space)?;
        let values = self
            .vector_operand(ty)?
            .into_iter()
            .collect::<Option<Vec<_>>>();
        let values = values.ok_or("a stored value is missing")?;
        match values.len() == count && space != Space::Parameter {
            true => Ok(Action::Store {
                space,
                ty,
                values: values.into(),
                to,
                strong,
            }),
            false => {
                Err("parameters cannot be written, and a vector needs as many values".to_owned())
            }
        }
    }

    fn vector(&mut self) -> usize {
        let counts = [("v2", 2), ("v4", 4), ("v8", 8)];
        let count = counts.into_iter().find(|(name, _)| self.has(name));
        count.map_or(1, |(_, count)| count)
    }

    fn atomic(&mut self, returns_old: bool) -> Result<Action, String> {
        let space = self.space();
        // Operations run one at a time, so every memory order and scope is satisfied.
        self.ignore(&["relaxed", "acquire", "release", "acq_rel", "noftz"]);
        self.ignore(&SCOPES);
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
            return Err("unsupported type".to_owned());
        }
        let target = match returns_old {
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

/// Returns the mode of atomic operations. Atomic additions of `f32` in global memory flush subnormals; all others do
/// not.
pub(crate) fn atomic_mode(ty: Type, space: Space) -> Mode {
    Mode {
        flush: ty == Type::Float(Format::F32) && space == Space::Global,
        ..Mode::default()
    }
}
