//! Saving and loading the choices of a tuner.

use std::sync::Arc;

use crate::encoding::{self, Identity, StoredChoice};
use crate::error::StoreError;
use crate::flights::lock;
use crate::race::Effort;
use crate::store::Store;
use crate::tuner::{KnownChoice, TuneKey, Tuner};

/// The result of loading a store or a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Choices that were loaded.
    pub choices: usize,
    /// Damaged lines, which were ignored.
    pub damaged: usize,
}

impl<K: TuneKey> Tuner<K> {
    /// Creates a tuner that saves its choices, and loads those that were saved for this device. Damaged choices and
    /// those of another device are reported in the log and tuned again. Tuners with keys of different types may share
    /// a store; each key has one choice there.
    ///
    /// # Errors
    /// If the store cannot be read at all.
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
        let loaded = match encoding::decode(&bytes, &identity) {
            Ok(decoded) => tuner.insert_loaded(decoded),
            Err(why) => {
                tracing::warn!(target: "millstream::tune", place, %why, "the stored choices are not used");
                Loaded::default()
            }
        };
        if loaded.damaged > 0 {
            let damaged = loaded.damaged;
            tracing::warn!(target: "millstream::tune", place, damaged, "damaged lines in the tuning cache; their keys will be tuned again");
        }
        Ok((tuner, loaded))
    }

    /// Inserts loaded choices, except for keys that are known.
    fn insert_loaded(&self, decoded: encoding::Decoded<K>) -> Loaded {
        let mut choices = self.write();
        let mut loaded = Loaded {
            choices: 0,
            damaged: decoded.damaged,
        };
        for StoredChoice { key, set, outcome } in decoded.choices {
            let index = outcome.winner;
            let stored = KnownChoice {
                index,
                set,
                checked: false,
                outcome: Arc::new(outcome),
            };
            // Of several choices for one key in a file the last one counts. A choice that was tuned here is never
            // replaced.
            if choices.get(&key).is_none_or(|known| !known.checked) {
                choices.insert(key, stored);
                loaded.choices += 1;
            }
        }
        loaded
    }

    /// Saves all known choices, merged with those that other programs have saved meanwhile. Does nothing without a
    /// store. Only choices that were tuned without waiting need this call; others are saved at once. Blocks while the
    /// disk is written, and while another program updates the store.
    ///
    /// # Errors
    /// The error of the store; its old contents remain.
    pub fn save(&self) -> Result<(), StoreError> {
        let Some((store, identity)) = &self.shared.store else {
            return Ok(());
        };
        let forgotten = std::mem::take(&mut *lock(&self.shared.forgotten));
        let mut skipped = 0_usize;
        let saved = store.update(&mut |bytes| {
            let stored = bytes.and_then(|bytes| encoding::decode::<K>(&bytes, identity).ok());
            let known = self.read();
            let mut text = encoding::header(identity);
            if let Some(stored) = stored {
                text += &stored.other_lines.concat();
                for StoredChoice { key, set, outcome } in &stored.choices {
                    if !known.contains_key(key) && !forgotten.contains(key) {
                        text.extend(encoding::entry(key, *set, outcome));
                    }
                }
            }
            skipped = 0;
            for (key, choice) in known.iter() {
                match encoding::entry(key, choice.set, &choice.outcome) {
                    Some(line) => text += &line,
                    None => skipped += 1,
                }
            }
            text.into_bytes()
        });
        if skipped > 0 {
            let place = store.place();
            tracing::warn!(target: "millstream::tune", place, skipped, "keys cannot be serialized as JSON and are not saved; change their `Serialize` impl");
        }
        if saved.is_err() {
            lock(&self.shared.forgotten).extend(forgotten);
        }
        saved
    }

    /// Returns all known choices as a bundle for programs on the same kind of device, to be shipped as a file, for
    /// example.
    pub fn export(&self, identity: &Identity) -> Vec<u8> {
        let mut text = encoding::header(identity);
        for (key, choice) in self.read().iter() {
            text.extend(encoding::entry(key, choice.set, &choice.outcome));
        }
        text.into_bytes()
    }

    /// Loads an exported bundle, except for keys that were tuned here. Each choice is validated like a stored one.
    ///
    /// # Errors
    /// If the bundle is not an export, or is of another device.
    pub fn import(&self, bundle: &[u8], here: &Identity) -> Result<Loaded, StoreError> {
        encoding::decode(bundle, here).map(|decoded| self.insert_loaded(decoded))
    }
}
