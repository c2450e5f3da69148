//! The pencil filter as kernels.
//!
//! ```text
//!  rgb -luma-> light -blur_x-> spare -blur_y-> light -sobel-> spare
//!              light, spare -tone-> image -histogram-> bins
//! ```
//! Two planes of `f32` suffice: kernels write them alternately, and the runtime orders the accesses.
//! A thread computes one pixel. One stream writes the taps of the blur, and all streams read them.

use millstream::prelude::*;
use millstream::{Error, kernels};

use super::photos::Photo;

// The parameters of the filter. The kernels and the reference (`reference.rs`) share them and no arithmetic.

/// The weights of red, green and blue (Rec. 709).
pub(super) const LUMA: [f32; 3] = [RED, GREEN, BLUE];
const RED: f32 = 0.2126;
const GREEN: f32 = 0.7152;
const BLUE: f32 = 0.0722;
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

/// Computes the luma of a pixel, from 0 to 1.
#[kernel]
fn luma(rgb: &[u8], #[whole] light: &mut [f32]) {
    let i = thread();
    let (red, green, blue) = (
        rgb[3 * i] as f32,
        rgb[3 * i + 1] as f32,
        rgb[3 * i + 2] as f32,
    );
    light[i] = RED / 255.0 * red + GREEN / 255.0 * green + BLUE / 255.0 * blue;
}

/// Blurs along the rows; the edges repeat the outermost pixel. The taps are the same on both sides.
#[kernel]
fn blur_x(width: usize, src: &[f32], taps: &[f32], #[whole] dst: &mut [f32]) {
    let [row, column] = position();
    let here = thread();
    let mut sum = taps[RADIUS] * src[here];
    if column >= RADIUS && column + RADIUS < width {
        for k in 1..RADIUS + 1 {
            sum += taps[RADIUS + k] * (src[here - k] + src[here + k]);
        }
    } else {
        for k in 1..RADIUS + 1 {
            let (left, right) = (column.max(k) - k, (column + k).min(width - 1));
            sum += taps[RADIUS + k] * (src[row * width + left] + src[row * width + right]);
        }
    }
    dst[here] = sum;
}

/// Blurs along the columns; the edges repeat the outermost row.
#[kernel]
fn blur_y(height: usize, width: usize, src: &[f32], taps: &[f32], #[whole] dst: &mut [f32]) {
    let [row, column] = position();
    let here = thread();
    let mut sum = taps[RADIUS] * src[here];
    if row >= RADIUS && row + RADIUS < height {
        for k in 1..RADIUS + 1 {
            sum += taps[RADIUS + k] * (src[here - k * width] + src[here + k * width]);
        }
    } else {
        for k in 1..RADIUS + 1 {
            let (above, below) = (row.max(k) - k, (row + k).min(height - 1));
            sum += taps[RADIUS + k] * (src[above * width + column] + src[below * width + column]);
        }
    }
    dst[here] = sum;
}

/// Computes the Sobel gradient.
#[kernel]
fn sobel(height: usize, width: usize, src: &[f32], #[whole] edges: &mut [f32]) {
    let [row, x] = position();
    let (left, right) = (x.max(1) - 1, (x + 1).min(width - 1));
    let (above, middle, below) = (
        (row.max(1) - 1) * width,
        row * width,
        (row + 1).min(height - 1) * width,
    );
    let across = (src[above + right] - src[above + left])
        + 2.0 * (src[middle + right] - src[middle + left])
        + (src[below + right] - src[below + left]);
    let down = (src[below + left] - src[above + left])
        + 2.0 * (src[below + x] - src[above + x])
        + (src[below + right] - src[above + right]);
    edges[thread()] = (across * across + down * down).sqrt() / 4.0;
}

/// Draws edges as ink on paper that keeps a little of the light.
#[kernel]
fn tone(light: &[f32], edges: &[f32], #[whole] image: &mut [u8]) {
    let i = thread();
    let paper = PAPER + (1.0 - PAPER) * light[i];
    image[i] = (paper * HALF_INK / (edges[i] + HALF_INK) * 255.0 + 0.5) as u8;
}

/// Compiles the kernels, so that the first photograph does not take the time.
pub(super) fn prepare(stream: &Stream) -> Result<(), Error> {
    luma::prepare(stream)?;
    blur_x::prepare(stream)?;
    blur_y::prepare(stream)?;
    sobel::prepare(stream)?;
    tone::prepare(stream)?;
    kernels::histogram(stream, &stream.create(&[0_u8])?, LEVELS)?;
    Ok(())
}

/// Uploads the taps of the blur, for `draw` on any stream.
pub(super) fn write_taps(stream: &Stream) -> Result<Handle<f32>, Error> {
    stream.create(&taps())
}

/// Draws one photograph, and returns the drawing and its histogram. Submits all of it before it waits for the device.
pub(super) fn draw(
    stream: &Stream,
    taps: &Handle<f32>,
    photo: &Photo,
) -> Result<(Vec<u8>, Vec<u32>), Error> {
    let (height, width) = (photo.height as usize, photo.width as usize);
    let (pixels, each) = (height * width, [height, width]);
    let rgb = stream.create(&photo.pixels.rgb)?;
    let mut light = stream.empty(pixels)?;
    let mut spare = stream.empty(pixels)?;
    let mut image = stream.empty(pixels)?;

    luma(&rgb, &mut light).launch_each(stream)?;
    blur_x(width, &light, taps, &mut spare).launch(stream, each)?;
    blur_y(height, width, &spare, taps, &mut light).launch(stream, each)?;
    sobel(height, width, &light, &mut spare).launch(stream, each)?;
    tone(&light, &spare, &mut image).launch_each(stream)?;
    let bins = kernels::histogram(stream, &image, LEVELS)?;
    let (image, bins) = (stream.read(&image), stream.read(&bins));
    Ok((image.wait()?, bins.wait()?))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millstream::__kernel::call::{Definition, program};
    use millstream::{Kernel, ir::Program};

    use super::*;

    fn kernel_of<D: Definition>() -> Kernel {
        let program = Program::Ssa(program::<D>().unwrap());
        Kernel::from_program(D::NAME, Arc::new(program)).unwrap()
    }

    /// Compiles every kernel for every supported GPU, and prints the registers and shared memory that it uses.
    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn kernels_compile_for_every_gpu_without_spilling() {
        let kernels = [
            kernel_of::<luma>(),
            kernel_of::<blur_x>(),
            kernel_of::<blur_y>(),
            kernel_of::<sobel>(),
            kernel_of::<tone>(),
        ];
        for target in ["sm_80", "sm_90", "sm_90a", "sm_100"] {
            for kernel in &kernels {
                let made = millstream::cuda::compile_for(kernel, target).unwrap();
                let (name, registers, spilled) =
                    (kernel.name(), made.registers, made.spilled_bytes);
                println!(
                    "{target:<7} {name:<10} {registers:>3} registers, {spilled} bytes spilled"
                );
                assert!(
                    (1..=64).contains(&registers),
                    "{name} uses {registers} registers, expected 1 to 64"
                );
                assert_eq!(spilled, 0, "{name} spills");
            }
        }
    }
}
