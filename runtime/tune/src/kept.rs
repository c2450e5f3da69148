//! What a tuner keeps, and begins with.

use std::sync::Arc;

use crate::error::StoreError;
use crate::persist::{self, Identity, Kept};
use crate::race::Effort;
use crate::store::Store;
use crate::tuner::{Settled, TuneKey, Tuner, lock};

/// What was read of a store or a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Choices that are known now.
    pub choices: usize,
    /// Lines that were damaged, and are as if they had not been there.
    pub damaged: usize,
}

impl<K: TuneKey> Tuner<K> {
    /// One that keeps its choices, and begins with those that were kept for this device. What is damaged there, or is of another device, is told in
    /// the log and tuned anew. Tuners may share a place where their keys are of different types; a key has one choice there.
    ///
    /// # Errors
    /// The store cannot be read at all.
    pub fn with_store(
        store: impl Store + 'static,
        identity: Identity,
        effort: Effort,
    ) -> Result<(Self, Loaded), StoreError> {
        let bytes = store.load()?;
        let place = store.place();
        let tuner = Self::of(Some((Box::new(store), identity.clone())), effort);
        let Some(bytes) = bytes else {
            return Ok((tuner, Loaded::default()));
        };
        let loaded = match persist::read(&bytes, &identity) {
            Ok(read) => tuner.take(read),
            Err(why) => {
                tracing::warn!(target: "millstream::tune", place, %why, "what was tuned before is not used");
                Loaded::default()
            }
        };
        if loaded.damaged > 0 {
            let damaged = loaded.damaged;
            tracing::warn!(target: "millstream::tune", place, damaged, "lines of the tuning cache are damaged: their keys are tuned anew");
        }
        Ok((tuner, loaded))
    }

    /// Remembers what was read, but for keys that are known already.
    fn take(&self, read: persist::Read<K>) -> Loaded {
        let mut settled = self.write();
        let mut loaded = Loaded {
            choices: 0,
            damaged: read.damaged,
        };
        for Kept { key, set, outcome } in read.kept {
            let index = outcome.winner;
            let known = Settled {
                index,
                set,
                checked: false,
                outcome: Arc::new(outcome),
            };
            // Of a key that was kept twice the later one holds; what was tuned here holds in any case.
            if settled.get(&key).is_none_or(|known| !known.checked) {
                settled.insert(key, known);
                loaded.choices += 1;
            }
        }
        loaded
    }

    /// Stores all that is known, with what others have stored meanwhile; nothing to do without a store. Only what was tuned without waiting needs this:
    /// all else is stored as soon as it is known. Blocks for as long as the disk takes, and whoever else is at it.
    ///
    /// # Errors
    /// The store's; what was there is there still.
    pub fn save(&self) -> Result<(), StoreError> {
        let Some((store, identity)) = &self.shared.store else {
            return Ok(());
        };
        let forgotten = std::mem::take(&mut *lock(&self.shared.forgotten));
        let mut unwritten = 0_usize;
        let kept = store.update(&mut |bytes| {
            let read = bytes.map(|bytes| persist::read::<K>(&bytes, identity));
            let (kept, of_others) = read
                .and_then(Result::ok)
                .map_or_else(Default::default, |read| (read.kept, read.of_others));
            let known = self.read();
            let others = kept.iter().filter(|kept| !known.contains_key(&kept.key));
            let others = others.filter(|kept| !forgotten.contains(&kept.key));
            let mut text = persist::header(identity) + &of_others.concat();
            for kept in others {
                text.extend(persist::entry(&kept.key, kept.set, &kept.outcome));
            }
            unwritten = 0;
            for (key, settled) in known.iter() {
                match persist::entry(key, settled.set, &settled.outcome) {
                    Some(line) => text += &line,
                    None => unwritten += 1,
                }
            }
            text.into_bytes()
        });
        if unwritten > 0 {
            let place = store.place();
            tracing::warn!(target: "millstream::tune", place, unwritten, "keys that JSON has no form for are not kept, and tuned anew by each program: let them be written otherwise");
        }
        if kept.is_err() {
            lock(&self.shared.forgotten).extend(forgotten);
        }
        kept
    }

    /// All that is known, to be given to programs on such a device: a file beside them, say.
    pub fn export(&self, identity: &Identity) -> Vec<u8> {
        let mut text = persist::header(identity);
        for (key, settled) in self.read().iter() {
            text.extend(persist::entry(key, settled.set, &settled.outcome));
        }
        text.into_bytes()
    }

    /// Remembers what was exported, but for keys that were tuned here. Each is checked as a stored one.
    ///
    /// # Errors
    /// It is no export, or one of another device.
    pub fn import(&self, bundle: &[u8], here: &Identity) -> Result<Loaded, StoreError> {
        persist::read(bundle, here).map(|read| self.take(read))
    }
}
