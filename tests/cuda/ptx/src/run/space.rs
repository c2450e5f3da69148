//! Resolves generic addresses.

use crate::instruction::Space;
use crate::windows;

/// Returns the space of a generic address, and the address in that space.
pub(super) fn generic(address: u64) -> (Space, u64) {
    let spaces = [
        (windows::SHARED, Space::Shared),
        (windows::LOCAL, Space::Local),
        (windows::PARAMETERS, Space::Parameter),
    ];
    for (start, space) in spaces {
        if (start..start + windows::BYTES).contains(&address) {
            return (space, address - start);
        }
    }
    (Space::Global, address)
}
