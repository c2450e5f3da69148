//! One frame as text, for whoever has no terminal.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

use super::view::{self, Shown};

/// Wide enough for every line; as high as what there is.
const WIDTH: u16 = 100;
const HEIGHT: u16 = 40;

/// The frame as a screen of it would look.
pub(crate) fn text(shown: &Shown) -> String {
    let mut canvas = Buffer::empty(Rect::new(0, 0, WIDTH, HEIGHT));
    view::draw(&mut canvas, shown);
    let mut lines = lines(&canvas);
    // The keys are of no use here, nor are lines that nothing stands on.
    lines.pop();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

/// The lines of a screen without what is blank at their ends.
pub(crate) fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width.max(1));
    let line = |cells: &[Cell]| {
        let text: String = cells.iter().map(Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    buffer.content.chunks(width).map(line).collect()
}
