//! `millstream completions`: prints shell completion scripts.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::{CommandError, Exit};
use crate::output;

/// Prints the script; the user redirects it to a file.
pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "millstream", &mut script);
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn completion_scripts_name_commands_and_options_for_every_shell() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "millstream", &mut script);
            let script = String::from_utf8(script).unwrap();
            for word in ["timeline", "completions", "picture", "strategy"] {
                assert!(script.contains(word), "`{word}` is missing for {shell}");
            }
        }
    }
}
