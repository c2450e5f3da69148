//! What must be in each element of a buffer.

/// One element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    /// This value, and reading it fails only where failures are injected.
    Value(u32),
    /// A task that the program made fail would have written it: reading it fails.
    Failed,
    /// Nothing was ever written: anything.
    Unknown,
}

impl Element {
    /// What a task makes of an element that it updates, if nothing that it reads has failed.
    pub(crate) fn map(self, f: impl FnOnce(u32) -> u32) -> Self {
        match self {
            Element::Value(value) => Element::Value(f(value)),
            other => other,
        }
    }
}

/// Has anything among these failed? Then the whole task does.
pub(crate) fn any_failed(elements: &[Element]) -> bool {
    elements.contains(&Element::Failed)
}

/// How what was read differs from what must be there, if it does.
///
/// # Errors
/// A sentence about the first difference.
pub(crate) fn compare(expected: &[Element], got: &[u32]) -> Result<(), String> {
    for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
        if let Element::Value(value) = expected
            && value != got
        {
            return Err(format!("element {index} is {got}, not {value}"));
        }
    }
    Ok(())
}
