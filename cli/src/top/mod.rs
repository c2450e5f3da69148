//! `millstream top`: shows live metrics of a soak or demo, from the frames that it publishes.
//!
//! | module | contents |
//! | --- | --- |
//! | `frame` | the metrics of a device at one moment, as data |
//! | `publish` | a thread of the soak or demo that writes frames to a file |
//! | `follow` | reads frames, and detects a source that has stopped |
//! | `view` | draws a frame to a buffer |
//! | `keys` | the keys of the terminal |
//! | `screen` | the terminal |
//! | `plain_text` | a frame as text |

mod follow;
mod frame;
mod keys;
mod plain_text;
mod publish;
mod screen;
mod view;

use std::path::Path;

use crate::args::{METRICS_FILE, TopArgs};
use crate::exit::{CommandError, Exit};
use crate::output;

pub(crate) use publish::{Publisher, sample_every};
use view::View;

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<Exit, CommandError> {
    let path = args.file.as_deref().unwrap_or(Path::new(METRICS_FILE));
    // The first read comes before the terminal is taken over, so that a wrong path is an ordinary error.
    let frame = follow::read(path)?;
    if args.json {
        output::json(&frame)?;
        return Ok(Exit::Success);
    }
    let mut view = View {
        notice: follow::notice(&frame, follow::now_ms()),
        ..View::default()
    };
    view.update(frame);
    match args.once {
        true => output::text(&plain_text::render(&view))?,
        false => screen::run(path, view)?,
    }
    Ok(Exit::Success)
}
