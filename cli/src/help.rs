//! What stands at the end of every help: exit codes, and examples that can be typed as they are.

pub(crate) const DEMO_EXIT_CODES: &str = "\
Exit codes:
  0  all right
  1  a result differed from the reference, or the device failed
  2  bad usage: an unknown option, a folder that is missing, holds no photograph or cannot be written
  3  all right, but some files of the input folder were skipped";

pub(crate) const SOAK_EXIT_CODES: &str = "\
Exit codes:
  0  all right
  1  a check failed, or the device did
  2  bad usage: an unknown option, or one that does not fit the others";

pub(crate) const DRAW_EXIT_CODES: &str = "\
Exit codes:
  0  it is drawn
  2  bad usage: a file that cannot be read, is no graph in Graphviz's language or goes in circles; one that cannot be written";

pub(crate) const DRAW_EXAMPLES: &str = "\
Examples:
  cargo run --release --example decoder && millstream draw out/decoder/token.dot
  millstream draw step.dot --output pictures/step.svg";

pub(crate) const TOP_EXIT_CODES: &str = "\
Exit codes:
  0  you have seen enough, or the one frame is printed
  1  the terminal failed
  2  bad usage: nothing is published there, or what is there is no frame";

pub(crate) const TOP_EXAMPLES: &str = "\
Examples:
  millstream soak --minutes 5 --publish
  millstream top
  millstream top --once
  millstream top out/metrics.json --json | jq .tasks_per_second";

pub(crate) const TIMELINE_EXIT_CODES: &str = "\
Exit codes:
  0  it is summed up
  2  bad usage: a file that cannot be read or is no timeline; a picture that cannot be written";

pub(crate) const TIMELINE_EXAMPLES: &str = "\
Examples:
  millstream demo --timeline out/demo.json && millstream timeline out/demo.json
  millstream timeline out/demo.json --picture out/demo.svg
  millstream timeline out/demo.json --json | jq .queues[].busy
  https://ui.perfetto.dev shows the same file";

pub(crate) const BENCH_EXIT_CODES: &str = "\
Exit codes:
  0  it is measured, whatever has become slower
  1  the device could not be opened, or failed
  2  bad usage: a file that cannot be read or is of no bench; a picture that cannot be written";

pub(crate) const BENCH_EXAMPLES: &str = "\
Examples:
  millstream bench
  millstream bench --device cuda:0 --json > before.json
  millstream bench --compare before.json --picture change.svg
  millstream bench --quick --json | jq '.rows[] | {name, median, unit}'";

pub(crate) const DOCTOR_EXIT_CODES: &str = "\
Exit codes:
  0  there is a device to work on, and all that can be opened passed; the simulator, which is for tests, is none to work on
  1  there is none, or one of them did not do what it was told
  2  bad usage: an unknown option";

pub(crate) const DOCTOR_EXAMPLES: &str = "\
Examples:
  millstream doctor
  millstream doctor --quick --json | jq '.backends[] | select(.ready) | .backend'";

pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  millstream completions bash > ~/.local/share/bash-completion/completions/millstream
  millstream completions zsh > \"${fpath[1]}/_millstream\"
  millstream completions fish > ~/.config/fish/completions/millstream.fish";

pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream demo
  millstream doctor
  millstream help timeline";

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  all right
  1  something was wrong: a result, a check, or the device
  2  bad usage
  3  all right, but `demo` skipped some files of its input folder";

pub(crate) const DEMO_EXAMPLES: &str = "\
Examples:
  millstream demo
  millstream demo --backend cuda
  millstream demo --threads 64 --queues 2 --strategy sequential
  millstream demo --input ~/Pictures/holiday --output out/holiday --repeat 1
  millstream demo --profile
  millstream demo --timeline out/demo.json && millstream timeline out/demo.json
  millstream demo --json | jq .run.photos_per_second";

pub(crate) const SOAK_EXAMPLES: &str = "\
Examples:
  millstream soak --minutes 20
  millstream soak --minutes 20 --backend sim
  millstream soak --rounds 5 --threads 4 --json | jq .violations
  millstream soak --minutes 5 --publish
  millstream soak --scale";

pub(crate) fn after_help(examples: &str, exit_codes: &str) -> String {
    format!("{exit_codes}\n\n{examples}")
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::args::Cli;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_help_documents_every_exit_code() {
        let help = Cli::command()
            .find_subcommand_mut("demo")
            .unwrap()
            .render_help()
            .to_string();
        for code in [
            "0  all right",
            "1  a result",
            "2  bad usage",
            "3  all right, but",
        ] {
            assert!(help.contains(code), "{code} is missing in\n{help}");
        }
    }

    /// What is shown there can be typed: each line that begins with the program's name is right usage.
    #[test]
    fn every_help_ends_with_examples_that_can_be_typed() {
        let cli = Cli::command();
        let subcommands = cli.get_subcommands().cloned().collect::<Vec<_>>();
        assert!(subcommands.len() >= 6);
        for mut command in [cli].into_iter().chain(subcommands) {
            let help = command.render_long_help().to_string();
            let (_, examples) = help
                .rsplit_once("\nExamples:\n")
                .unwrap_or_else(|| panic!("`{}` has no example:\n{help}", command.get_name()));
            assert!(examples.contains("  millstream "), "{examples}");
            for line in examples.lines() {
                assert!(line.starts_with("  "), "not an example at the end: {line}");
                for part in line
                    .split(" && ")
                    .filter_map(|part| part.trim().strip_prefix("millstream "))
                {
                    let typed = part.split(['|', '>']).next().unwrap_or(part);
                    let told = match parse(&format!("millstream {typed}")) {
                        Ok(_) => continue,
                        Err(told) => told,
                    };
                    assert_eq!(told.exit_code(), 0, "{part}: {told}");
                }
            }
        }
    }

    /// Photographs are the demo's alone.
    #[test]
    fn the_help_of_a_command_speaks_of_that_command() {
        for command in ["soak", "doctor"] {
            let mut cli = Cli::command();
            let command = cli.find_subcommand_mut(command).unwrap();
            let help = command.render_long_help().to_string();
            assert!(help.contains("2  bad usage"), "{help}");
            assert!(
                !help.contains("photograph") && !help.contains("folder"),
                "{help}"
            );
        }
    }
}
