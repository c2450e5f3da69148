//! How choices are written: a line each, with a checksum of its own, so that a damaged one is found out and the others are good.
//!
//! ```text
//! 9f86d081884c7d65 {"millstream_tune":1,"device":"a processor","version":"0.1.0"}
//! 60303ae22b998861 {"key":{"rows":64},"set":"6b51d431df5d7f14","outcome":{"winner":1,..}}
//! ```

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::StoreError;
use crate::outcome::Outcome;
use crate::set::Checksum;

/// The form of what is written. Another one is not read.
const FORM: u32 = 1;

/// What choices hold on: a device, and the version of whatever else they depend on (a driver, this program).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// The device's name.
    pub device: String,
    /// The version: choices of another one are not used.
    pub version: String,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.device, self.version)
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    millstream_tune: u32,
    #[serde(flatten)]
    of: Identity,
}

/// A line as it is.
#[derive(Serialize, Deserialize)]
struct Line<K> {
    key: K,
    set: String,
    outcome: Outcome,
}

/// A choice that was kept.
pub(crate) struct Kept<K> {
    pub(crate) key: K,
    pub(crate) set: Checksum,
    pub(crate) outcome: Outcome,
}

/// What was read.
pub(crate) struct Read<K> {
    pub(crate) kept: Vec<Kept<K>>,
    /// Lines with keys of another type, as they are: another tuner's, which keeps its choices here, too.
    pub(crate) of_others: Vec<String>,
    /// Lines whose checksums do not hold.
    pub(crate) damaged: usize,
}

fn sum(json: &str) -> Checksum {
    Checksum::of(&Sha256::digest(json.as_bytes()))
}

fn line(value: &impl Serialize) -> Option<String> {
    // Keys that are no values of JSON's (a map with keys that are no texts) cannot be kept.
    let json = serde_json::to_string(value).ok()?;
    Some(format!("{} {json}\n", sum(&json)))
}

/// The text of a line whose checksum holds.
fn checked(line: &[u8]) -> Option<&str> {
    let (found, json) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    (Checksum::parse(found)? == sum(json)).then_some(json)
}

/// The first line.
pub(crate) fn header(of: &Identity) -> String {
    let header = Header {
        millstream_tune: FORM,
        of: of.clone(),
    };
    line(&header).unwrap_or_default()
}

/// A choice's line; none for a key that cannot be written.
pub(crate) fn entry<K: Serialize>(key: &K, set: Checksum, outcome: &Outcome) -> Option<String> {
    line(&Line {
        key,
        set: set.to_string(),
        outcome: outcome.clone(),
    })
}

/// What a cache is, whatever its keys are.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Inspected {
    /// Whose it is.
    pub of: Identity,
    /// Choices whose checksums hold.
    pub choices: usize,
    /// Lines whose checksums do not.
    pub damaged: usize,
}

/// Looks at what was kept, or exported, without knowing its keys: for reports.
///
/// # Errors
/// [`StoreError::NotACache`].
pub fn inspect(bytes: &[u8]) -> Result<Inspected, StoreError> {
    let (of, lines) = opened(bytes)?;
    let (good, damaged): (Vec<_>, Vec<_>) = lines.partition(|line| checked(line).is_some());
    Ok(Inspected {
        of,
        choices: good.len(),
        damaged: damaged.len(),
    })
}

/// What the first line says, and all others.
fn opened(bytes: &[u8]) -> Result<(Identity, impl Iterator<Item = &[u8]>), StoreError> {
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let not = |why: &str| StoreError::NotACache {
        why: why.to_owned(),
    };
    let first = lines.next().ok_or_else(|| not("it is empty"))?;
    let first = checked(first).ok_or_else(|| not("its checksum does not hold"))?;
    let header: Header = serde_json::from_str(first).map_err(|error| not(&error.to_string()))?;
    if header.millstream_tune != FORM {
        return Err(not(&format!(
            "it is of form {}, and {FORM} is read",
            header.millstream_tune
        )));
    }
    Ok((header.of, lines))
}

/// Reads what was written for this device.
pub(crate) fn read<K: DeserializeOwned>(
    bytes: &[u8],
    here: &Identity,
) -> Result<Read<K>, StoreError> {
    let (of, lines) = opened(bytes)?;
    if of != *here {
        return Err(StoreError::OtherDevice {
            of: of.to_string(),
            here: here.to_string(),
        });
    }
    let mut read = Read {
        kept: Vec::new(),
        of_others: Vec::new(),
        damaged: 0,
    };
    for line in lines {
        let Some(json) = checked(line) else {
            read.damaged += 1;
            continue;
        };
        let parsed = serde_json::from_str(json).ok().and_then(|line: Line<K>| {
            Some(Kept {
                key: line.key,
                set: Checksum::parse(&line.set)?,
                outcome: line.outcome,
            })
        });
        match parsed {
            Some(kept) => read.kept.push(kept),
            None => read.of_others.push(format!("{} {json}\n", sum(json))),
        }
    }
    Ok(read)
}
