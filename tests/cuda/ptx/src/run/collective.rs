//! Collectives of a warp: the lanes wait for each other, and then the operation is performed for all of them.

use crate::Fault;
use crate::Trap;
use crate::instruction::{Collective, Instruction, Shuffle, Source};
use crate::run::Block;
use crate::run::warp::{Group, LANES, Lanes, Warp, lanes};

/// The value that a lane receives from a lane that does not participate.
const UNDEFINED: u64 = 0xCBCB_CBCB;

impl Block<'_, '_> {
    /// Lanes arrive at a collective. Returns the lanes that continue; the others park.
    pub(super) fn arrive(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        collective: &Collective,
        of: Source,
        at: usize,
        arrived: Lanes,
    ) -> Result<Lanes, Trap> {
        // Add the lanes that arrived earlier.
        let mut here = arrived;
        warp.parked.retain(|parked| {
            here |= if parked.at == at { parked.lanes } else { 0 };
            parked.at != at
        });
        let masks = self.read(warp, of).map(|of| of as Lanes);
        let (mut done, mut left) = (0, here);
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            // Exited lanes do not participate.
            let together = masks[lane] & warp.live;
            let error = match () {
                () if together & 1 << lane == 0 => {
                    Some("the mask of a collective does not include the lane itself")
                }
                () if lanes(together & here).any(|other| masks[other] != masks[lane]) => {
                    Some("the lanes of a collective have different masks")
                }
                () => None,
            };
            if let Some(message) = error {
                return Err(self.trap(warp, lane, instruction, Fault::LaunchFailed, message));
            }
            if together & !here == 0 {
                self.perform(warp, collective, together);
                done |= together;
            } else {
                warp.parked.push(Group {
                    at,
                    lanes: together & here,
                });
            }
            left &= !together;
        }
        Ok(done)
    }

    /// Performs the collective for these lanes, which have all arrived.
    fn perform(&mut self, warp: &mut Warp, collective: &Collective, all: Lanes) {
        match *collective {
            Collective::Barrier => warp.syncs = warp.syncs.saturating_add(1),
            Collective::Shuffle {
                how,
                target,
                valid,
                a,
                by,
                bounds,
            } => {
                let values = self.read(warp, a);
                let (by, bounds) = (self.read(warp, by), self.read(warp, bounds));
                for lane in lanes(all) {
                    let (from, within) = source_lane(how, lane, by[lane], bounds[lane]);
                    let known = all & 1 << from != 0;
                    let value = if known { values[from] } else { UNDEFINED };
                    warp.registers[target][lane] = value & 0xFFFF_FFFF;
                    if let Some(valid) = valid {
                        warp.registers[valid][lane] = u64::from(within);
                    }
                }
            }
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
        // Segments of eight lanes.
        let bounds = 31 | 24 << 8;
        assert_eq!(source_lane(Shuffle::Index, 9, 3, bounds), (11, true));
        assert_eq!(source_lane(Shuffle::Down, 14, 3, bounds), (14, false));
    }
}
