//! The end of each help text: exit codes, and examples that can be run as they are.

pub(crate) const DEMO_EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  a result differed from the reference, or the device failed
  2  usage error: an unknown option, or a folder that does not exist, has no photographs or cannot be written
  3  success, but some files of the input folder were skipped";

pub(crate) const TIMELINE_EXIT_CODES: &str = "\
Exit codes:
  0  the summary is printed
  2  usage error: the input cannot be read or is not a timeline, or the picture cannot be written";

pub(crate) const TIMELINE_EXAMPLES: &str = "\
Examples:
  millstream demo --timeline out/demo.json && millstream timeline out/demo.json
  millstream timeline out/demo.json --picture out/demo.svg
  millstream timeline out/demo.json --json | jq .queues[].busy
  https://ui.perfetto.dev shows the same file";

pub(crate) const BENCH_EXIT_CODES: &str = "\
Exit codes:
  0  success, also if some rows are slower than in the earlier run
  1  the device failed or could not be opened
  2  usage error: the earlier run cannot be read or is not a bench report, or the picture cannot be written";

pub(crate) const BENCH_EXAMPLES: &str = "\
Examples:
  millstream bench
  millstream bench --device cuda:0 --json > before.json
  millstream bench --device vulkan --quick
  millstream bench --compare before.json --picture change.svg
  millstream bench --quick --json | jq '.rows[] | {name, median, unit}'";

pub(crate) const DOCTOR_EXIT_CODES: &str = "\
Exit codes:
  0  at least one device other than the simulator can be opened, and every opened device passed its self-test
  1  no such device can be opened, or a self-test failed
  2  usage error: an unknown option";

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
  0  success
  1  a result was wrong, a check failed, or the device failed
  2  usage error
  3  success, but `demo` skipped some files of its input folder";

pub(crate) const DEMO_EXAMPLES: &str = "\
Examples:
  millstream demo
  millstream demo --backend cuda
  millstream demo --backend vulkan
  millstream demo --threads 64 --queues 2 --strategy sequential
  millstream demo --input ~/Pictures/holiday --output out/holiday --repeat 1
  millstream demo --profile
  millstream demo --timeline out/demo.json && millstream timeline out/demo.json
  millstream demo --json | jq .run.photos_per_second";

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
            "0  success",
            "1  a result",
            "2  usage error",
            "3  success, but",
        ] {
            assert!(help.contains(code), "{code} is missing in\n{help}");
        }
    }

    /// Every line that begins with the program's name parses.
    #[test]
    fn every_help_ends_with_examples_that_parse() {
        let cli = Cli::command();
        let subcommands = cli.get_subcommands().cloned().collect::<Vec<_>>();
        assert!(subcommands.len() >= 5);
        for mut command in [cli].into_iter().chain(subcommands) {
            let help = command.render_long_help().to_string();
            let (_, examples) = help
                .rsplit_once("\nExamples:\n")
                .unwrap_or_else(|| panic!("`{}` has no examples:\n{help}", command.get_name()));
            assert!(examples.contains("  millstream "), "{examples}");
            for line in examples.lines() {
                assert!(line.starts_with("  "), "not an example: {line}");
                for part in line
                    .split(" && ")
                    .filter_map(|part| part.trim().strip_prefix("millstream "))
                {
                    let arguments = part.split(['|', '>']).next().unwrap_or(part);
                    let error = match parse(&format!("millstream {arguments}")) {
                        Ok(_) => continue,
                        Err(error) => error,
                    };
                    // `millstream help COMMAND` is an "error" with exit code 0.
                    assert_eq!(error.exit_code(), 0, "{part}: {error}");
                }
            }
        }
    }

    /// Only the demo reads photographs.
    #[test]
    fn help_of_a_command_does_not_mention_options_of_another() {
        for command in ["bench", "doctor"] {
            let mut cli = Cli::command();
            let command = cli.find_subcommand_mut(command).unwrap();
            let help = command.render_long_help().to_string();
            assert!(help.contains("2  usage error"), "{help}");
            assert!(
                !help.contains("photograph") && !help.contains("folder"),
                "{help}"
            );
        }
    }
}
