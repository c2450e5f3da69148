//! Writes the tables of `benches/RESULTS.md` from the records in `benches/samples`: `cargo run -p millstream-harness`.
//!
//! The record `NAME.json` goes between the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use millstream_harness::{MEANINGLESS, Record, replace_section};

/// The folder `benches`.
const BENCHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Returns the page, and what it is with the tables of all records.
fn written() -> Result<(String, String), Box<dyn Error>> {
    let folder = Path::new(BENCHES);
    let old = fs::read_to_string(folder.join("RESULTS.md"))?;
    let mut page = old.clone();
    for entry in fs::read_dir(folder.join("samples"))? {
        let path = entry?.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        let record: Record = serde_json::from_str(&fs::read_to_string(&path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let (begin, end) = (
            format!("<!-- {name}: begin -->"),
            format!("<!-- {name}: end -->"),
        );
        let refused = || format!("{}: {MEANINGLESS}", path.display());
        let section = record.section().ok_or_else(refused)?;
        page = replace_section(&page, (&begin, &end), section.trim_end()).ok_or_else(|| {
            format!("RESULTS.md must have the lines `{begin}` and `{end}`, each once")
        })?;
    }
    Ok((old, page))
}

fn main() -> ExitCode {
    let done = written().and_then(|(_, page)| {
        fs::write(Path::new(BENCHES).join("RESULTS.md"), page)?;
        Ok(())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_tables_of_the_records() {
        let (page, written) = written().unwrap();
        assert!(
            page == written,
            "`cargo run -p millstream-harness` writes the tables again"
        );
    }
}
