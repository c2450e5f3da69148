//! The parameters of the pencil filter, which turns a photograph into a pencil drawing.
//!
//! The filter converts to grey, blurs, finds edges, and draws the edges as ink on paper that keeps
//! a little of the photograph's light. The kernels (`pipeline.rs`) and the reference
//! (`reference.rs`) share these parameters and no arithmetic.

/// The weights of red, green and blue (Rec. 709).
pub(crate) const LUMA: [f32; 3] = [0.2126, 0.7152, 0.0722];
/// The standard deviation of the Gaussian blur, in pixels.
pub(crate) const SIGMA: f32 = 1.4;
/// The pixels that the blur reads on each side: three and a half sigma.
pub(crate) const RADIUS: usize = 5;
/// The edge strength that is drawn half black.
pub(crate) const HALF_INK: f32 = 0.08;
/// The tone of the paper where the photograph is black. Where it is white, the paper is 1.
pub(crate) const PAPER: f32 = 0.8;
/// The number of grey levels, and of bins of the histogram.
pub(crate) const LEVELS: usize = 256;
