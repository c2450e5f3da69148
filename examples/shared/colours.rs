//! Colours of pictures.

use millstream_picture::Rgb;

/// Mixes two colours. `share` is that of the second one, from 0 to 1.
pub(crate) fn mix(from: Rgb, to: Rgb, share: f32) -> Rgb {
    let channel = |index: usize| {
        let (from, to) = (f32::from(from.0[index]), f32::from(to.0[index]));
        (from + (to - from) * share.clamp(0.0, 1.0)).round() as u8
    };
    Rgb([channel(0), channel(1), channel(2)])
}

/// Interpolates a scale of colours at equal steps from 0 to 1.
pub(crate) fn scale_colour(scale: &[Rgb], share: f32) -> Rgb {
    let position = share.clamp(0.0, 1.0) * (scale.len() - 1) as f32;
    let below = (position as usize).min(scale.len().saturating_sub(2));
    let above = (below + 1).min(scale.len() - 1);
    mix(scale[below], scale[above], position - below as f32)
}
