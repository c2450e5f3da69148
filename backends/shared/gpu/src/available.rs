//! The errors of opening what is not available.

use millstream_protocol::OpenError;

/// Returns the error of opening what is not available.
pub fn unavailable(backend: &'static str, why: impl Into<String>) -> OpenError {
    OpenError::Unavailable {
        backend,
        why: why.into(),
    }
}

/// Takes the GPU with this ordinal from the list of all, which has at least one. `seen_by` is what lists them.
///
/// # Errors
/// There is none.
pub fn select<G>(
    mut gpus: Vec<G>,
    ordinal: usize,
    (backend, seen_by): (&'static str, &str),
) -> Result<G, OpenError> {
    if ordinal < gpus.len() {
        return Ok(gpus.swap_remove(ordinal));
    }
    let (count, last) = (gpus.len(), gpus.len().saturating_sub(1));
    let why = format!(
        "no GPU with ordinal {ordinal}: the {seen_by} sees {count}; choose an ordinal from 0 to {last}"
    );
    Err(unavailable(backend, why))
}
