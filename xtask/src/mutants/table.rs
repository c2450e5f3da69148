//! The table of mutants in `docs/testing.md`.

use std::collections::BTreeMap;

use super::finder::Found;
use super::mutant::Mutant;

const BEGIN: &str = "<!-- mutants: written by `cargo xtask mutants --all` -->\n";
const END: &str = "<!-- end of mutants -->\n";

const HEAD: &str =
    "| mutant | what it breaks | | found by | how soon |\n| --- | --- | --- | --- | --- |\n";

/// Returns the page with the rows of these mutants replaced or added, and those of mutants that are not `known` removed.
pub(super) fn replace_rows(
    page: &str,
    rows: &[(&Mutant, Vec<Found>)],
    known: &[Mutant],
) -> Result<String, String> {
    let marked = page
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let (before, (table, after)) =
        marked.ok_or("docs/testing.md lacks the marks of the table of mutants")?;
    let mut all = rows_of(table);
    all.retain(|name, _| known.iter().any(|mutant| mutant.name == *name));
    all.extend(
        rows.iter()
            .map(|(mutant, found)| (mutant.name.clone(), rows_of_mutant(mutant, found))),
    );
    let rows: String = all.into_values().collect();
    Ok(format!("{before}{BEGIN}\n{HEAD}{rows}\n{END}{after}"))
}

/// Returns the rows of each mutant of a table. A row without a name belongs to the mutant above it.
fn rows_of(table: &str) -> BTreeMap<String, String> {
    let (mut all, mut name) = (BTreeMap::<_, String>::new(), String::new());
    for row in table
        .lines()
        .filter(|row| row.starts_with("| `") || row.starts_with("|  |"))
    {
        if let Some((begun, _)) = row
            .strip_prefix("| `")
            .and_then(|rest| rest.split_once('`'))
        {
            begun.clone_into(&mut name);
        }
        let rows = all.entry(name.clone()).or_default();
        rows.push_str(row);
        rows.push('\n');
    }
    all
}

/// Returns the rows of a mutant: one for each check.
fn rows_of_mutant(mutant: &Mutant, found: &[Found]) -> String {
    let mut rows = String::new();
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
        rows += &format!("| {name} | {breaks} | {invariant} | `{finder}` | {after} |\n");
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn mutant(name: &str) -> Mutant {
        Mutant {
            name: name.to_owned(),
            path: PathBuf::new(),
            breaks: "A mistake.".to_owned(),
            invariant: "I1".to_owned(),
            finders: vec!["swarm".parse().unwrap()],
        }
    }

    fn found(after: &str) -> Vec<Found> {
        let (after, message) = (after.to_owned(), String::new());
        vec![Found { after, message }]
    }

    #[test]
    fn rows_are_replaced_added_and_removed() {
        let page = format!("before\n{BEGIN}\nold\n\n{END}after\n");
        let known = [mutant("a"), mutant("b")];
        let [a, b] = &known;
        let both = [(a, found("program 1")), (b, found("program 2"))];
        let written = replace_rows(&page, &both, &known).unwrap();
        assert!(written.starts_with("before\n") && written.ends_with("after\n"));
        assert!(!written.contains("old") && written.contains("| mutant |"));
        assert_eq!(replace_rows(&written, &[], &known).unwrap(), written);
        let again = replace_rows(&written, &[(b, found("program 3"))], &known).unwrap();
        assert_eq!(again, written.replace("program 2", "program 3"));
        let fewer = replace_rows(&written, &[], &known[..1]).unwrap();
        assert!(fewer.contains("`a`") && !fewer.contains("`b`"));
        assert!(replace_rows("no marks", &[], &known).is_err());
    }
}
