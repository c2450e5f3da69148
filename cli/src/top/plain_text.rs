//! Renders one frame as text, without a terminal.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

use super::view::{self, View};

/// The size of the buffer: wide enough for every line, and high enough for many clients.
const WIDTH: u16 = 100;
const HEIGHT: u16 = 40;

/// Renders the frame as the screen would show it, without the line of keys.
pub(crate) fn render(view: &View) -> String {
    let mut canvas = Buffer::empty(Rect::new(0, 0, WIDTH, HEIGHT));
    view::draw(&mut canvas, view);
    let mut lines = lines(&canvas);
    // The last line lists keys, which have no effect here.
    lines.pop();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

/// Returns the lines of a buffer without trailing blanks.
pub(crate) fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width.max(1));
    let line = |cells: &[Cell]| {
        let text: String = cells.iter().map(Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    buffer.content.chunks(width).map(line).collect()
}
