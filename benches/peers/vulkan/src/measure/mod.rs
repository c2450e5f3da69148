//! The groups of rows.

mod calls;
mod copies;
mod driven;
mod hand_over;
mod idle;
mod launches;
mod recordings;
mod threads;

use millstream::vulkan::{GpuInfo, gpus};
use millstream_harness::{Sampler, Summary, alternate, take_turns};

use crate::WORDS;
use crate::arguments::Arguments;
use crate::error::BenchError;
use crate::ours::Ours;
use crate::peer::Peer;
use crate::raw::{Gpu, Memory, Place, Recorder};
use crate::report::Row;

/// Launches of the check that all sides compute the same.
const CHECKED: u32 = 3;

/// The three sides, and the number of rounds.
pub(crate) struct Rig {
    pub(crate) seen: GpuInfo,
    pub(crate) rounds: usize,
    ours: Ours,
    gpu: Gpu,
    peer: Peer,
}

/// Rows that are measured together.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) measure: fn(&Rig) -> Result<Vec<Row>, BenchError>,
}

macro_rules! groups {
    ($($name:literal: $measure:path;)*) => {
        &[$(Group { name: $name, measure: $measure }),*]
    };
}

/// All groups, in the order of the table. The name is for `--only`.
pub(crate) const GROUPS: &[Group] = groups! {
    "launches": launches::measure;
    "host part of launches": launches::host_part;
    "recordings": recordings::measure;
    "hand-over": hand_over::measure;
    "idle": idle::measure;
    "copies": copies::measure;
    "driven": driven::measure;
    "threads": threads::measure;
    "host part of threads": threads::host_part;
    "calls": calls::measure;
};

/// Takes samples of two figures.
type Pairs<'a> = &'a mut dyn FnMut() -> Result<[f64; 2], BenchError>;

impl Rig {
    pub(crate) fn open(arguments: &Arguments) -> Result<Self, BenchError> {
        let rig = Self {
            seen: gpus()?.swap_remove(0),
            rounds: arguments.rounds as usize,
            ours: Ours::open()?,
            gpu: Gpu::open()?,
            peer: Peer::open()?,
        };
        rig.check()?;
        Ok(rig)
    }

    /// Checks that all sides do the work.
    fn check(&self) -> Result<(), BenchError> {
        let verify = |side, got| match got == CHECKED {
            true => Ok(()),
            false => Err(BenchError::Wrong {
                side,
                got,
                expected: CHECKED,
            }),
        };
        let stream = self.ours.stream();
        let values = stream.create(&[0_u32; WORDS])?;
        for _ in 0..CHECKED {
            self.ours.launch(&stream, &values)?;
        }
        verify("millstream", stream.read(&values).wait()?[WORDS - 1])?;

        let memory = Memory::new(&self.gpu, 4 * WORDS, Place::Upload)?;
        memory.write(&[0; 4 * WORDS]);
        let mut recorder = Recorder::new(&self.gpu, 0)?;
        for _ in 0..CHECKED {
            recorder.launch(memory.address)?;
            recorder.barrier()?;
        }
        recorder.visible_to_host()?;
        recorder.submit()?;
        recorder.finish()?;
        verify("the raw side", last_word(&memory.read()))?;

        let bound = self.peer.bound();
        self.peer
            .launch(CHECKED as usize, std::slice::from_ref(&bound));
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let target = self.peer.buffer(4 * WORDS, usage);
        let bytes = self.peer.read(&bound.buffer, &target)?;
        verify("wgpu", last_word(&bytes))
    }

    /// Samples all sides in turn.
    fn alternate<const N: usize>(
        &self,
        sides: [Sampler<'_, BenchError>; N],
    ) -> Result<[Summary; N], BenchError> {
        alternate(self.rounds, sides)
    }

    /// Samples two figures of all sides in turn.
    fn alternate_pairs<const N: usize>(
        &self,
        sides: [Pairs<'_>; N],
    ) -> Result<[[Summary; 2]; N], BenchError> {
        let samples = take_turns(N, 0..=self.rounds, |turn| sides[turn.index]())?;
        let summary = |side: usize, figure: usize| {
            let of: Vec<f64> = samples[side].iter().map(|pair| pair[figure]).collect();
            Summary::of(&of).expect("each side has a sample for each round")
        };
        Ok(std::array::from_fn(|side| {
            [summary(side, 0), summary(side, 1)]
        }))
    }
}

fn last_word(bytes: &[u8]) -> u32 {
    let last = bytes.last_chunk::<4>().copied();
    u32::from_ne_bytes(last.unwrap_or_default())
}

fn in_us(ns: Summary) -> Summary {
    ns.map(|ns| ns / 1e3)
}
