//! A canvas for pictures: draws rectangles, lines and text.

use std::io::Error;
use std::path::Path;

use millstream_picture::{Picture, Rgb};

use super::glyphs::Face;

/// The colour of text.
pub(crate) const INK: Rgb = Rgb([40, 44, 52]);
/// The colour of explanations.
pub(crate) const PALE: Rgb = Rgb([118, 124, 136]);
/// The colour of grid lines.
pub(crate) const RULE: Rgb = Rgb([228, 230, 234]);

/// The horizontal alignment of text.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    /// The text begins at the position.
    Left,
    /// The text is centred at the position.
    Middle,
    /// The text ends at the position.
    Right,
}

/// A picture, initially white.
pub(crate) struct Canvas {
    picture: Picture,
    title: Face,
    label: Face,
}

impl Canvas {
    pub(crate) fn new(width: u32, height: u32) -> Result<Self, Error> {
        Ok(Self {
            picture: Picture::from_fn(width, height, |_, _| Rgb([255; 3])),
            title: Face::title()?,
            label: Face::label()?,
        })
    }

    /// Writes a title at the top, and a line of explanation below it.
    pub(crate) fn heading(&mut self, title: &str, line: &str) {
        self.title.draw(&mut self.picture, (24, 16), title, INK);
        self.label.draw(&mut self.picture, (25, 52), line, PALE);
    }

    /// Writes text with its upper edge at `y`.
    pub(crate) fn write(&mut self, align: Align, (x, y): (u32, u32), text: &str, ink: Rgb) {
        let width = self.label.width(text);
        let left = match align {
            Align::Left => x,
            Align::Middle => x.saturating_sub(width / 2),
            Align::Right => x.saturating_sub(width),
        };
        self.label.draw(&mut self.picture, (left, y), text, ink);
    }

    /// Sets a pixel. Positions outside of the picture are ignored.
    pub(crate) fn dot(&mut self, (x, y): (u32, u32), ink: Rgb) {
        if let Some(pixel) = self.picture.pixel_mut(x, y) {
            *pixel = ink;
        }
    }

    pub(crate) fn fill(&mut self, (x, y): (u32, u32), (width, height): (u32, u32), ink: Rgb) {
        for (dx, dy) in (0..height).flat_map(|dy| (0..width).map(move |dx| (dx, dy))) {
            self.dot((x + dx, y + dy), ink);
        }
    }

    /// Draws the border of a rectangle, `thick` pixels wide, inside of it.
    pub(crate) fn frame(
        &mut self,
        (x, y): (u32, u32),
        (width, height): (u32, u32),
        thick: u32,
        ink: Rgb,
    ) {
        self.fill((x, y), (width, thick), ink);
        self.fill((x, y + height - thick), (width, thick), ink);
        self.fill((x, y), (thick, height), ink);
        self.fill((x + width - thick, y), (thick, height), ink);
    }

    /// Draws an antialiased disc with its centre between pixels.
    pub(crate) fn pen(&mut self, (x, y): (f32, f32), radius: f32, ink: Rgb, strength: f32) {
        let reach =
            |at: f32| (at - radius - 1.0).max(0.0) as u32..(at + radius + 2.0).max(0.0) as u32;
        for (px, py) in reach(y).flat_map(|py| reach(x).map(move |px| (px, py))) {
            let distance = (px as f32 - x).hypot(py as f32 - y);
            let cover = (radius + 0.5 - distance).clamp(0.0, 1.0) * strength;
            if let Some(pixel) = self.picture.pixel_mut(px, py) {
                *pixel = mix(*pixel, ink, cover);
            }
        }
    }

    /// Draws lines between consecutive points with a round pen.
    pub(crate) fn line(&mut self, points: &[(f32, f32)], radius: f32, ink: Rgb) {
        for pair in points.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let steps = (to.0 - from.0).hypot(to.1 - from.1).ceil().max(1.0) as u32;
            for step in 0..=steps {
                let share = step as f32 / steps as f32;
                let at = |a: f32, b: f32| a + (b - a) * share;
                self.pen((at(from.0, to.0), at(from.1, to.1)), radius, ink, 1.0);
            }
        }
    }

    pub(crate) fn save(&self, path: &Path) -> Result<(), Error> {
        self.picture.save(path)
    }
}

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
    mix(
        scale[below],
        scale[(below + 1).min(scale.len() - 1)],
        position - below as f32,
    )
}

/// Returns round numbers from 0 to `last`, about six of them.
pub(crate) fn ticks(last: usize) -> impl Iterator<Item = usize> {
    let mut step = 1;
    while last / step > 8 {
        // The steps are 1, 2, 5, 10 and so on.
        step = if step.to_string().starts_with('2') {
            step / 2 * 5
        } else {
            step * 2
        };
    }
    (0..=last).step_by(step)
}
