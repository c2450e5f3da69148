//! One member: its two buffers, and its tasks of a step.

use std::ops::Range;

use millstream::{Error, Handle, KernelHandle, Pending, Stream, error::ArgumentError, read, write};
use millstream_cluster::Group;

use super::Failure;
use super::domain::Domain;
use super::equations;

/// The launches of a step, if the strip has an interior: that, the first row and the last row.
pub(crate) const LAUNCHES: usize = 3;

/// A rank of this process and its strip.
pub(crate) struct Member {
    pub(crate) rank: usize,
    /// Runs the launches. The group moves the halos on streams of its own, so that neither holds back the other.
    pub(crate) stream: Stream,
    kernel: KernelHandle,
    columns: u64,
    buffers: [Buffer; 2],
    /// The launches of a step from each buffer to the other.
    launches: [Vec<Launch>; 2],
}

/// A buffer of a strip, as the views that its tasks take.
struct Buffer {
    strip: Handle<f32>,
    /// The rows that the neighbours need: the first and the last one.
    edges: Ends,
    /// The rows that are copies of the neighbours' edges.
    halos: Ends,
}

struct Ends {
    top: Handle<f32>,
    bottom: Handle<f32>,
}

/// A launch that computes some rows.
struct Launch {
    now: Handle<f32>,
    next: Handle<f32>,
    rows: u32,
}

impl Member {
    pub(crate) fn new(
        like: &Stream,
        domain: Domain,
        rank: usize,
        strip: Range<usize>,
        is_filled: bool,
    ) -> Result<Self, Failure> {
        let stream = like.client().new_stream();
        let (rows, row_len) = (strip.len(), domain.row_len());
        let len = (rows + 2) * row_len;
        let whole = [stream.empty(len)?, stream.empty(len)?];
        if is_filled {
            let mut cells = vec![0.0; len];
            stream.write(&whole[1], &cells)?;
            cells[row_len..][..rows * row_len].copy_from_slice(&domain.start(strip));
            stream.write(&whole[0], &cells)?;
        }
        let view = |buffer: &Handle<f32>, rows: Range<usize>| {
            buffer.slice(rows.start * row_len..rows.end * row_len)
        };
        let ends = |buffer: &Handle<f32>, top: usize, bottom: usize| {
            Ok::<_, ArgumentError>(Ends {
                top: view(buffer, top..top + 1)?,
                bottom: view(buffer, bottom..bottom + 1)?,
            })
        };
        let buffer = |whole: &Handle<f32>| {
            Ok::<_, ArgumentError>(Buffer {
                strip: view(whole, 1..rows + 1)?,
                edges: ends(whole, 1, rows)?,
                halos: ends(whole, 0, rows + 1)?,
            })
        };
        let launch = |now: &Handle<f32>, next: &Handle<f32>, rows: Range<usize>| {
            Ok::<_, ArgumentError>(Launch {
                now: view(now, rows.start - 1..rows.end + 1)?,
                next: view(next, rows.clone())?,
                rows: rows.len() as u32,
            })
        };
        // The interior comes first: it runs while the halos travel.
        let launches = |now: usize| {
            let parts: [_; LAUNCHES] = [2..rows, 1..2, rows.max(2)..rows + 1];
            let parts = parts.into_iter().filter(|rows| !rows.is_empty());
            let launches = parts.map(|rows| launch(&whole[now], &whole[1 - now], rows));
            launches.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            rank,
            kernel: stream.client().kernel(equations::kernel())?,
            columns: domain.columns as u64,
            buffers: [buffer(&whole[0])?, buffer(&whole[1])?],
            launches: [launches(0)?, launches(1)?],
            stream,
        })
    }

    /// Returns the rows of the strip, without its halos.
    pub(crate) fn strip(&self, buffer: usize) -> &Handle<f32> {
        &self.buffers[buffer].strip
    }

    /// Submits the exchange of the halos of a buffer with both neighbours; `is_backwards` sends the halos and receives
    /// the edges.
    pub(crate) fn exchange(
        &self,
        group: &Group,
        buffer: usize,
        is_backwards: bool,
    ) -> Result<(), Failure> {
        let Buffer { edges, halos, .. } = &self.buffers[buffer];
        let (from, to) = match is_backwards {
            false => (edges, halos),
            true => (halos, edges),
        };
        let ranks = group.len();
        if ranks == 1 {
            self.stream.copy(&from.top, &to.bottom)?;
            self.stream.copy(&from.bottom, &to.top)?;
            return Ok(());
        }
        let (above, below) = ((self.rank + ranks - 1) % ranks, (self.rank + 1) % ranks);
        // Between two ranks both edges go to one neighbour: its first receive must belong to the first send.
        group.send(above, &from.top)?;
        group.send(below, &from.bottom)?;
        group.receive(below, &to.bottom)?;
        group.receive(above, &to.top)?;
        Ok(())
    }

    /// Submits the launches of a step from a buffer to the other.
    pub(crate) fn compute(&self, buffer: usize) -> Result<(), Error> {
        for launch in &self.launches[buffer] {
            let arguments = (read(&launch.now), write(&launch.next), self.columns);
            self.stream
                .launch(&self.kernel, [launch.rows, 1, 1], arguments)?;
        }
        Ok(())
    }

    /// Requests each edge and halo, after the launches so far and the exchange of that buffer. Whole rows, as all tasks
    /// take them: a device keeps the uses of a buffer for few ranges, and merges them if there are more.
    pub(crate) fn edges(&self, buffer: usize) -> [Pending<Vec<f32>>; 4] {
        let Buffer { edges, halos, .. } = &self.buffers[buffer];
        let rows = [&edges.top, &edges.bottom, &halos.top, &halos.bottom];
        rows.map(|row| self.stream.read(row))
    }
}
