//! The text format of choices: one line each, with its own checksum, so that a damaged line is found and the others
//! are used.
//!
//! ```text
//! 9f86d081884c7d65 {"millstream_tune":1,"device":"a processor","version":"0.1.0"}
//! 60303ae22b998861 {"key":{"rows":64},"set":"6b51d431df5d7f14","outcome":{"winner":1,..}}
//! ```

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::choice::Outcome;
use crate::error::StoreError;
use crate::set::Checksum;

/// The version of the format. Other versions are not read.
const FORMAT: u32 = 1;

/// The device that choices are valid for, and the version of everything else that they depend on: a driver, this
/// program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// The name of the device.
    pub device: String,
    /// The version. Choices of another version are not used.
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

/// The JSON of a line.
#[derive(Serialize, Deserialize)]
struct Line<K> {
    key: K,
    set: String,
    outcome: Outcome,
}

/// A choice of a store or a bundle.
pub(crate) struct StoredChoice<K> {
    pub(crate) key: K,
    pub(crate) set: Checksum,
    pub(crate) outcome: Outcome,
}

/// The result of decoding a store or a bundle.
pub(crate) struct Decoded<K> {
    pub(crate) choices: Vec<StoredChoice<K>>,
    /// Lines with keys of another type, unchanged: those of another tuner that shares the store.
    pub(crate) other_lines: Vec<String>,
    /// The number of lines with a wrong checksum.
    pub(crate) damaged: usize,
}

fn checksum(json: &str) -> Checksum {
    Checksum::of(&Sha256::digest(json.as_bytes()))
}

fn line(value: &impl Serialize) -> Option<String> {
    // A key that has no JSON form (a map with keys that are not strings) cannot be saved.
    let json = serde_json::to_string(value).ok()?;
    Some(format!("{} {json}\n", checksum(&json)))
}

/// Returns the JSON of a line if its checksum is right.
fn verified(line: &[u8]) -> Option<&str> {
    let (found, json) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    (Checksum::parse(found)? == checksum(json)).then_some(json)
}

/// Encodes the first line.
pub(crate) fn header(of: &Identity) -> String {
    let header = Header {
        millstream_tune: FORMAT,
        of: of.clone(),
    };
    line(&header).unwrap_or_default()
}

/// Encodes a choice, or returns `None` if the key cannot be serialized as JSON.
pub(crate) fn entry<K: Serialize>(key: &K, set: Checksum, outcome: &Outcome) -> Option<String> {
    line(&Line {
        key,
        set: set.to_string(),
        outcome: outcome.clone(),
    })
}

/// A summary of a cache, for any type of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Inspected {
    /// The device that the cache is valid for.
    pub of: Identity,
    /// Choices with a right checksum.
    pub choices: usize,
    /// Lines with a wrong checksum.
    pub damaged: usize,
}

/// Summarizes a store or a bundle without knowing its type of keys: for reports.
///
/// # Errors
/// [`StoreError::NotACache`].
pub fn inspect(bytes: &[u8]) -> Result<Inspected, StoreError> {
    let (of, lines) = split_header(bytes)?;
    let (good, damaged): (Vec<_>, Vec<_>) = lines.partition(|line| verified(line).is_some());
    Ok(Inspected {
        of,
        choices: good.len(),
        damaged: damaged.len(),
    })
}

/// Parses the first line. Returns its identity and the other lines.
fn split_header(bytes: &[u8]) -> Result<(Identity, impl Iterator<Item = &[u8]>), StoreError> {
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let not_a_cache = |why: &str| StoreError::NotACache {
        why: why.to_owned(),
    };
    let first = lines.next().ok_or_else(|| not_a_cache("it is empty"))?;
    let first =
        verified(first).ok_or_else(|| not_a_cache("the checksum of its first line is wrong"))?;
    let header: Header =
        serde_json::from_str(first).map_err(|error| not_a_cache(&error.to_string()))?;
    if header.millstream_tune != FORMAT {
        return Err(not_a_cache(&format!(
            "it has format {}, this program reads format {FORMAT}",
            header.millstream_tune
        )));
    }
    Ok((header.of, lines))
}

/// Decodes a store or a bundle for this device.
pub(crate) fn decode<K: DeserializeOwned>(
    bytes: &[u8],
    here: &Identity,
) -> Result<Decoded<K>, StoreError> {
    let (of, lines) = split_header(bytes)?;
    if of != *here {
        return Err(StoreError::OtherDevice {
            of: of.to_string(),
            here: here.to_string(),
        });
    }
    let mut decoded = Decoded {
        choices: Vec::new(),
        other_lines: Vec::new(),
        damaged: 0,
    };
    for line in lines {
        let Some(json) = verified(line) else {
            decoded.damaged += 1;
            continue;
        };
        let parsed = serde_json::from_str(json).ok().and_then(|line: Line<K>| {
            Some(StoredChoice {
                key: line.key,
                set: Checksum::parse(&line.set)?,
                outcome: line.outcome,
            })
        });
        match parsed {
            Some(choice) => decoded.choices.push(choice),
            None => decoded
                .other_lines
                .push(format!("{} {json}\n", checksum(json))),
        }
    }
    Ok(decoded)
}
