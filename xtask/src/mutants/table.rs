//! The table of mutants in `docs/testing.md`.

use super::finder::Found;
use super::mutant::Mutant;

const BEGIN: &str = "<!-- mutants: written by `cargo xtask mutants --all` -->\n";
const END: &str = "<!-- end of mutants -->\n";

/// Returns the page with its table of mutants replaced.
pub(super) fn replace_table(page: &str, rows: &[(&Mutant, Vec<Found>)]) -> Result<String, String> {
    let marked = page
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) =
        marked.ok_or("docs/testing.md lacks the marks of the table of mutants")?;
    let mut table = String::from(
        "| mutant | what it breaks | | found by | how soon |\n| --- | --- | --- | --- | --- |\n",
    );
    for (mutant, found) in rows {
        for (nth, (finder, found)) in mutant.finders.iter().zip(found).enumerate() {
            let (name, breaks, invariant) = match nth {
                0 => (
                    format!("`{}`", mutant.name),
                    mutant.breaks.as_str(),
                    mutant.invariant.as_str(),
                ),
                _ => (String::new(), "", ""),
            };
            let after = &found.after;
            table += &format!("| {name} | {breaks} | {invariant} | `{finder}` | {after} |\n");
        }
    }
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_table_replaces_the_previous_one() {
        let page = format!("before\n{BEGIN}\nold\n\n{END}after\n");
        let written = replace_table(&page, &[]).unwrap();
        assert!(written.starts_with("before\n") && written.ends_with("after\n"));
        assert!(!written.contains("old") && written.contains("| mutant |"));
        assert_eq!(replace_table(&written, &[]).unwrap(), written);
        assert!(replace_table("no marks", &[]).is_err());
    }
}
