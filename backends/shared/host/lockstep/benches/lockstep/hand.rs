//! The same in plain Rust, compiled for the baseline as users' programs are.

use std::marker::PhantomData;

/// Buffers of which the pieces of a loop write disjoint parts.
pub(crate) struct Parts<'a>(Vec<(*mut f32, usize)>, PhantomData<&'a mut f32>);

// SAFETY: pieces write disjoint parts, and read no part that another piece writes.
unsafe impl Sync for Parts<'_> {}

/// A piece of a loop: its buffers, its index, and the number of pieces.
pub(crate) type Hand = fn(&Parts<'_>, u64, u64);

impl<'a> Parts<'a> {
    pub(crate) fn new(buffers: &'a mut [Vec<f32>]) -> Self {
        let all = buffers.iter_mut();
        Self(
            all.map(|buffer| (buffer.as_mut_ptr(), buffer.len()))
                .collect(),
            PhantomData,
        )
    }

    fn all(&self, index: usize) -> &[f32] {
        let (pointer, len) = self.0[index];
        // SAFETY: the buffer is only read.
        unsafe { std::slice::from_raw_parts(pointer, len) }
    }

    /// Returns a piece of a buffer, and the index of its first element.
    #[allow(clippy::mut_from_ref, reason = "pieces are disjoint")]
    fn piece(&self, index: usize, piece: u64, pieces: u64) -> (usize, &mut [f32]) {
        let (pointer, len) = self.0[index];
        let size = len / pieces as usize;
        let start = size * piece as usize;
        // SAFETY: pieces are disjoint, and each runs once at a time.
        (start, unsafe {
            std::slice::from_raw_parts_mut(pointer.add(start), size)
        })
    }
}

pub(crate) fn saxpy(parts: &Parts<'_>, piece: u64, pieces: u64) {
    let (start, y) = parts.piece(1, piece, pieces);
    for (y, x) in y.iter_mut().zip(&parts.all(0)[start..]) {
        *y += 0.5 * x;
    }
}

pub(crate) fn particles(parts: &Parts<'_>, piece: u64, pieces: u64) {
    let (time, step) = (0.7_f32, 1.0_f32 / 60.0);
    let centres = [0.0_f32, 1.0, 2.0].map(|centre| {
        let angle = 0.9 * time + 2.094_395_1 * centre;
        [0.75 * angle.cos(), 0.5 * angle.sin()]
    });
    let (_, particles) = parts.piece(0, piece, pieces);
    for particle in particles.as_chunks_mut::<4>().0 {
        let [px, py, vx, vy] = *particle;
        let (mut fx, mut fy) = (px * -0.15, py * -0.15);
        for [cx, cy] in centres {
            let (tx, ty) = (cx - px, cy - py);
            let squared = tx * tx + ty * ty + 0.006;
            fx += (tx * 0.09 - ty * 0.05) / squared;
            fy += (ty * 0.09 + tx * 0.05) / squared;
        }
        let (vx, vy) = ((vx + step * fx) * 0.996, (vy + step * fy) * 0.996);
        *particle = [px + step * vx, py + step * vy, vx, vy];
    }
}

pub(crate) fn product(parts: &Parts<'_>, piece: u64, pieces: u64) {
    let (a, b) = (parts.all(0), parts.all(1));
    let n = a.len().isqrt();
    let (start, c) = parts.piece(2, piece, pieces);
    for (row, c) in (start / n..).zip(c.chunks_mut(n)) {
        c.fill(0.0);
        for i in 0..n {
            let left = a[row * n + i];
            for (c, right) in c.iter_mut().zip(&b[i * n..]) {
                *c += left * right;
            }
        }
    }
}

pub(crate) fn mandelbrot(parts: &Parts<'_>, piece: u64, pieces: u64) {
    let (start, out) = parts.piece(0, piece, pieces);
    let n = (out.len() * pieces as usize).isqrt();
    let scale = 3.0 / n as f32;
    for (i, out) in (start..).zip(out) {
        let cx = (i % n) as f32 * scale - 2.25;
        let cy = (i / n) as f32 * scale - 1.5;
        let (mut x, mut y, mut count) = (0.0_f32, 0.0_f32, 0.0_f32);
        while x * x + y * y <= 4.0 && count < 200.0 {
            let next = x * x - y * y + cx;
            y = x * y * 2.0 + cy;
            x = next;
            count += 1.0;
        }
        *out = count;
    }
}

pub(crate) fn histogram(parts: &Parts<'_>, piece: u64, pieces: u64) {
    let (_, bins) = parts.piece(1, piece, pieces);
    let last = bins.len() - 1;
    for x in parts.all(0) {
        bins[(((x + 1.0) * 31.5) as usize).min(last)] += 1.0;
    }
}
