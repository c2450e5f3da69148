//! Collectives of a warp: the lanes wait for each other, and then the operation is performed for all of them.

use crate::instruction::{Action, Collective, Reduction, Shuffle};
use crate::run::{Block, LANES, State, Thread};
use crate::{Fault, Trap};

/// The value that a lane receives from a lane that does not participate.
const UNDEFINED: u64 = 0xCBCB_CBCB;

impl Block<'_, '_> {
    /// Performs the collectives of a warp at which all lanes of a mask have arrived. Returns whether there was one.
    pub(super) fn meet(&mut self, warp: &mut [Thread]) -> Result<bool, Trap> {
        let mut met = false;
        for lane in 0..warp.len() {
            let State::Arrived(mask) = warp[lane].state else {
                continue;
            };
            let at = warp[lane].at;
            let instruction = &self.kernel.instructions[at];
            // Ended lanes do not participate.
            let is_member =
                |other: &usize| mask >> other & 1 == 1 && warp[*other].state != State::Ended;
            let members: Vec<usize> = (0..warp.len()).filter(is_member).collect();
            let mask_of = |other: &usize| match warp[*other].state {
                State::Arrived(mask) if warp[*other].at == at => Some(mask),
                _ => None,
            };
            let mut masks = members.iter().filter_map(mask_of);
            let error = if !members.contains(&lane) {
                "the mask of a collective does not include the lane itself"
            } else if masks.any(|other| other != mask) {
                "the lanes of a collective have different masks"
            } else {
                if members.iter().all(|other| mask_of(other).is_some()) {
                    if let Action::Collective { collective, .. } = &instruction.action {
                        self.perform(warp, collective, &members);
                    }
                    met = true;
                }
                continue;
            };
            return Err(self.trap(&warp[lane], instruction, Fault::LaunchFailed, error));
        }
        Ok(met)
    }

    /// Performs the collective for these lanes, which have all arrived.
    fn perform(&mut self, warp: &mut [Thread], collective: &Collective, members: &[usize]) {
        match *collective {
            Collective::Barrier => {
                let syncs = &mut self.syncs[warp[0].warp()];
                *syncs = syncs.saturating_add(1);
            }
            Collective::Shuffle {
                how,
                target,
                valid,
                operands,
            } => {
                let read = |lane: &usize| operands.map(|of| self.value(&warp[*lane], of));
                let given: Vec<_> = members.iter().map(read).collect();
                for (lane, [_, by, bounds]) in members.iter().zip(&given) {
                    let (from, within) = source_lane(how, *lane, *by, *bounds);
                    let place = members.iter().position(|member| *member == from);
                    let value = place.map_or(UNDEFINED, |place| given[place][0]);
                    warp[*lane].registers[target] = value & 0xFFFF_FFFF;
                    if let Some(valid) = valid {
                        warp[*lane].registers[valid] = u64::from(within);
                    }
                }
            }
            Collective::Reduce {
                by,
                is_signed,
                target,
                operand,
            } => {
                // Signed numbers keep their order with the sign flipped.
                let flip = if is_signed && by != Reduction::Add {
                    1 << 31
                } else {
                    0
                };
                let values = members.iter();
                let values = values.map(|lane| self.value(&warp[*lane], operand) as u32 ^ flip);
                let combined = values.reduce(|a, b| match by {
                    Reduction::Add => a.wrapping_add(b),
                    Reduction::Min => a.min(b),
                    Reduction::Max => a.max(b),
                });
                let combined = combined.unwrap_or_default() ^ flip;
                for lane in members {
                    warp[*lane].registers[target] = combined.into();
                }
            }
        }
        for lane in members {
            warp[*lane].go_on();
        }
    }
}

/// Returns the source lane of a shuffle, and whether it is in range, as the PTX manual defines them.
fn source_lane(how: Shuffle, lane: usize, by: u64, bounds: u64) -> (usize, bool) {
    let lane = lane as i64;
    let (by, clamp) = ((by & 31) as i64, (bounds & 31) as i64);
    let segment = (bounds >> 8 & 31) as i64;
    let last = (lane & segment) | (clamp & !segment);
    let (from, within) = match how {
        Shuffle::Down => (lane + by, lane + by <= last),
        Shuffle::Up => (lane - by, lane - by >= last),
        Shuffle::Xor => (lane ^ by, (lane ^ by) <= last),
        Shuffle::Index => {
            let from = (lane & segment) | (by & !segment);
            (from, from <= last)
        }
    };
    match within && (0..LANES as i64).contains(&from) {
        true => (from as usize, true),
        false => (lane as usize, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_stay_within_their_segments() {
        // Whole warps.
        assert_eq!(source_lane(Shuffle::Down, 3, 4, 31), (7, true));
        assert_eq!(source_lane(Shuffle::Down, 30, 4, 31), (30, false));
        assert_eq!(source_lane(Shuffle::Index, 9, 33, 31), (1, true));
        assert_eq!(source_lane(Shuffle::Up, 5, 4, 0), (1, true));
        assert_eq!(source_lane(Shuffle::Up, 3, 4, 0), (3, false));
        assert_eq!(source_lane(Shuffle::Xor, 9, 3, 31), (10, true));
        // Segments of eight lanes.
        let bounds = 31 | 24 << 8;
        assert_eq!(source_lane(Shuffle::Index, 9, 3, bounds), (11, true));
        assert_eq!(source_lane(Shuffle::Down, 14, 3, bounds), (14, false));
        assert_eq!(source_lane(Shuffle::Up, 9, 1, 24 << 8), (8, true));
        assert_eq!(source_lane(Shuffle::Up, 8, 1, 24 << 8), (8, false));
    }
}
