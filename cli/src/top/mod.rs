//! `millstream top`: what a soak or a demo is doing right now, from the frames that it publishes.
//!
//! | module | what it is |
//! | --- | --- |
//! | `frame` | what is shown of a device at one moment, as data |
//! | `publish` | a thread of the soak or demo that writes frames to a file |
//! | `follow` | reads them, and says what is wrong |
//! | `view` | draws them; pure |
//! | `screen` | the terminal |
//! | `once` | one of them as text |

mod follow;
mod frame;
mod once;
mod publish;
mod screen;
mod view;

use std::path::Path;

use crate::args::{METRICS_FILE, TopArgs};
use crate::exit::{CommandError, Exit};
use crate::output;

pub(crate) use publish::{Publication, sampling};
use view::Shown;

/// Shows what is published.
pub(crate) fn run(args: &TopArgs) -> Result<Exit, CommandError> {
    let path = args.file.as_deref().unwrap_or(Path::new(METRICS_FILE));
    // Before the screen is taken: a name that is no good is told as ever.
    let frame = follow::read(path)?;
    if args.json {
        output::json(&frame)?;
        return Ok(Exit::Success);
    }
    let mut shown = Shown {
        notice: follow::notice(&frame, follow::now_ms()),
        ..Shown::default()
    };
    shown.take(frame);
    match args.once {
        true => output::text(&once::text(&shown))?,
        false => screen::run(path, shown)?,
    }
    Ok(Exit::Success)
}
