//! SPIR-V files that the program contains.

/// Returns the words of a SPIR-V file.
pub(crate) fn words(file: &[u8]) -> Vec<u32> {
    let (words, _) = file.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}
