//! The numbers of the recipe, which the kernels (`pipeline.rs`) and the reference (`reference.rs`)
//! share. They share nothing else: each has its own arithmetic.
//!
//! A photograph becomes a pencil drawing: grey, smoothed, edges found, edges drawn as ink on
//! paper that keeps a little of the photograph's light.

/// How bright red, green and blue look (Rec. 709).
pub(crate) const LUMA: [f32; 3] = [0.2126, 0.7152, 0.0722];
/// The width of the Gaussian blur, in pixels.
pub(crate) const SIGMA: f32 = 1.4;
/// Pixels on each side that the blur looks at: three and a half sigma.
pub(crate) const RADIUS: usize = 5;
/// The edge strength that is drawn half black.
pub(crate) const HALF_INK: f32 = 0.08;
/// How white the paper is where the photograph is black; where it is white, the paper is 1.
pub(crate) const PAPER: f32 = 0.8;
/// Levels of grey, and bins of the histogram.
pub(crate) const LEVELS: usize = 256;
