//! The pencil filter as kernels.
//!
//! ```text
//!  rgb -luma-> light -blur_x-> spare -blur_y-> light -sobel-> spare
//!              light, spare -tone-> image -histogram-> bins
//! ```
//! Two planes of `f32` suffice: kernels write them alternately, and the runtime orders the accesses.
//! A cube computes one row, except in the histogram, where it
//! counts a chunk of pixels. One stream writes the taps of the blur, and all streams read them.

use std::sync::atomic::{AtomicU32, Ordering};

use millstream::{
    ComputeClient, CubeCount, Error, Handle, Kernel, KernelHandle, Stream, read, update, write,
};

use super::photos::Photo;

// The parameters of the filter. The kernels and the reference (`reference.rs`) share them and no arithmetic.

/// The weights of red, green and blue (Rec. 709).
pub(super) const LUMA: [f32; 3] = [0.2126, 0.7152, 0.0722];
/// The standard deviation of the Gaussian blur, in pixels.
pub(super) const SIGMA: f32 = 1.4;
/// The pixels that the blur reads on each side: three and a half sigma.
pub(super) const RADIUS: usize = 5;
/// The edge strength that is drawn half black.
pub(super) const HALF_INK: f32 = 0.08;
/// The tone of the paper where the photograph is black. Where it is white, the paper is 1.
pub(super) const PAPER: f32 = 0.8;
/// The number of grey levels, and of bins of the histogram.
pub(super) const LEVELS: usize = 256;

/// The pixels that one cube of the histogram counts: enough to make the addition of 256 bins cheap.
pub(super) const PIXELS_PER_COUNT: usize = 1 << 15;

/// The kernels, prepared for one device, in the order of [`kernels`].
pub(super) struct Pipeline([KernelHandle; 6]);

impl Pipeline {
    /// Prepares the kernels.
    pub(super) fn new(client: &ComputeClient, kernels: [Kernel; 6]) -> Result<Self, Error> {
        let [a, b, c, d, e, f] = kernels.map(|kernel| client.kernel(kernel));
        Ok(Self([a?, b?, c?, d?, e?, f?]))
    }

    /// Uploads the taps of the blur, for `draw` on any stream.
    pub(super) fn write_taps(&self, stream: &Stream) -> Result<Handle<f32>, Error> {
        stream.create(&taps())
    }

    /// Draws one photograph, and returns the drawing and its histogram. Submits all of it before it waits for the device.
    pub(super) fn draw(
        &self,
        stream: &Stream,
        taps: &Handle<f32>,
        photo: &Photo,
    ) -> Result<(Vec<u8>, Vec<u32>), Error> {
        let pixels = photo.width as usize * photo.height as usize;
        let rgb = stream.create(&photo.pixels.rgb)?;
        let light = stream.empty::<f32>(pixels)?;
        let spare = stream.empty::<f32>(pixels)?;
        let image = stream.empty::<u8>(pixels)?;
        let bins = stream.create(&[0u32; LEVELS])?;

        let (rows, width) = (|| CubeCount::d1(photo.height), photo.width);
        let [luma, blur_x, blur_y, sobel, tone, histogram] = &self.0;
        stream.launch(luma, rows(), (read(&rgb), write(&light), width))?;
        let arguments = (read(&light), read(taps), write(&spare), width);
        stream.launch(blur_x, rows(), arguments)?;
        let arguments = (read(&spare), read(taps), write(&light), width);
        stream.launch(blur_y, rows(), arguments)?;
        stream.launch(sobel, rows(), (read(&light), write(&spare), width))?;
        let arguments = (read(&light), read(&spare), write(&image), width);
        stream.launch(tone, rows(), arguments)?;
        let counts = CubeCount::d1(pixels.div_ceil(PIXELS_PER_COUNT) as u32);
        let arguments = (read(&image), update(&bins), pixels as u32);
        stream.launch(histogram, counts, arguments)?;
        let (image, bins) = (stream.read(&image), stream.read(&bins));
        Ok((image.wait()?, bins.wait()?))
    }
}

/// Returns the kernels of the filter. `with_sources` adds the GPU sources to a kernel; the CPU runs the closures below.
pub(super) fn kernels(with_sources: impl Fn(Kernel) -> Kernel) -> [Kernel; 6] {
    [luma(), blur_x(), blur_y(), sobel(), tone(), histogram()].map(with_sources)
}

fn luma() -> Kernel {
    Kernel::new("luma")
        .reads::<u8>("rgb")
        .writes::<f32>("light")
        .scalar::<u32>("width")
        .native(|_, args| {
            let start = args.chunk_start(1);
            let light: &mut [f32] = args.chunk(1);
            let rgb: &[u8] = args.read(0);
            let [red, green, blue] = LUMA.map(|weight| weight / 255.0);
            for (light, pixel) in light.iter_mut().zip(rgb[start * 3..].chunks_exact(3)) {
                *light = red * f32::from(pixel[0])
                    + green * f32::from(pixel[1])
                    + blue * f32::from(pixel[2]);
            }
        })
}

fn blur_x() -> Kernel {
    Kernel::new("blur_x")
        .reads::<f32>("src")
        .reads::<f32>("taps")
        .writes::<f32>("dst")
        .scalar::<u32>("width")
        .native(|_, args| {
            let start = args.chunk_start(2);
            let dst: &mut [f32] = args.chunk(2);
            let src = &args.read::<f32>(0)[start..start + dst.len()];
            blur_row(src, args.read(1), dst);
        })
}

fn blur_y() -> Kernel {
    Kernel::new("blur_y")
        .reads::<f32>("src")
        .reads::<f32>("taps")
        .writes::<f32>("dst")
        .scalar::<u32>("width")
        .native(|cube, args| {
            let dst: &mut [f32] = args.chunk(2);
            let src: &[f32] = args.read(0);
            let taps: &[f32] = args.read(1);
            let (width, height) = (dst.len(), cube.count() as usize);
            dst.fill(0.0);
            for (k, tap) in taps.iter().enumerate() {
                let y = (cube.index() as usize + k)
                    .saturating_sub(taps.len() / 2)
                    .min(height - 1);
                for (dst, src) in dst.iter_mut().zip(&src[y * width..]) {
                    *dst += tap * src;
                }
            }
        })
}

fn sobel() -> Kernel {
    Kernel::new("sobel")
        .reads::<f32>("src")
        .writes::<f32>("edges")
        .scalar::<u32>("width")
        .native(|cube, args| {
            let edges: &mut [f32] = args.chunk(1);
            let src: &[f32] = args.read(0);
            let (width, height, y) = (edges.len(), cube.count() as usize, cube.index() as usize);
            let row = |y: usize| &src[y * width..(y + 1) * width];
            let (above, below) = (row(y.saturating_sub(1)), row((y + 1).min(height - 1)));
            sobel_row([above, row(y), below], edges);
        })
}

fn tone() -> Kernel {
    Kernel::new("tone")
        .reads::<f32>("light")
        .reads::<f32>("edges")
        .writes::<u8>("image")
        .scalar::<u32>("width")
        .native(|_, args| {
            let start = args.chunk_start(2);
            let image: &mut [u8] = args.chunk(2);
            let light = &args.read::<f32>(0)[start..];
            let edges = &args.read::<f32>(1)[start..];
            for ((image, light), edge) in image.iter_mut().zip(light).zip(edges) {
                let paper = PAPER + (1.0 - PAPER) * light;
                *image = (paper * HALF_INK / (edge + HALF_INK) * 255.0 + 0.5) as u8;
            }
        })
}

fn histogram() -> Kernel {
    Kernel::new("histogram")
        .reads::<u8>("image")
        .updates_atomically::<u32>("bins")
        .scalar::<u32>("pixels")
        .native(|cube, args| {
            let image: &[u8] = args.read(0);
            let bins: &[AtomicU32] = args.atomics::<u32>(1);
            let start = cube.index() as usize * PIXELS_PER_COUNT;
            let mut counted = [0u32; LEVELS];
            for &level in &image[start..image.len().min(start + PIXELS_PER_COUNT)] {
                counted[usize::from(level)] += 1;
            }
            for (bin, counted) in bins.iter().zip(counted) {
                if counted > 0 {
                    // Relaxed: only the sum matters, and the completion of the launch publishes it.
                    bin.fetch_add(counted, Ordering::Relaxed);
                }
            }
        })
}

/// Returns the taps of the blur: a Gaussian that sums to one.
pub(super) fn taps() -> [f32; 2 * RADIUS + 1] {
    let bell = std::array::from_fn(|k| {
        let distance = k as f32 - RADIUS as f32;
        (-distance * distance / (2.0 * SIGMA * SIGMA)).exp()
    });
    let sum: f32 = bell.iter().sum();
    bell.map(|tap| tap / sum)
}

/// Returns a row with its ends repeated this many times.
fn padded(row: &[f32], times: usize) -> Vec<f32> {
    let (first, last) = (row.first().copied(), row.last().copied());
    let repeated = |end: Option<f32>| end.into_iter().cycle().take(times);
    let row = row.iter().copied();
    repeated(first).chain(row).chain(repeated(last)).collect()
}

/// Blurs a row. Each tap runs along the whole row, so that the inner loop has no branches.
fn blur_row(src: &[f32], taps: &[f32], dst: &mut [f32]) {
    let src = padded(src, taps.len() / 2);
    dst.fill(0.0);
    for (k, tap) in taps.iter().enumerate() {
        for (dst, src) in dst.iter_mut().zip(&src[k..]) {
            *dst += tap * src;
        }
    }
}

/// Computes the Sobel gradient along the middle one of three rows.
fn sobel_row(rows: [&[f32]; 3], edges: &mut [f32]) {
    let rows = rows.map(|row| padded(row, 1));
    let [above, middle, below] = rows.each_ref().map(|row| row.windows(3));
    for (((edge, a), m), b) in edges.iter_mut().zip(above).zip(middle).zip(below) {
        let across = (a[2] - a[0]) + 2.0 * (m[2] - m[0]) + (b[2] - b[0]);
        let down = (b[0] - a[0]) + 2.0 * (b[1] - a[1]) + (b[2] - a[2]);
        *edge = (across * across + down * down).sqrt() / 4.0;
    }
}
