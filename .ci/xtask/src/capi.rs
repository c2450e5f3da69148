//! The suite `capi`: the library for C and C++, as a program in C uses it, from an installed prefix.
//!
//! Each program is compiled by the system's compilers with all warnings as errors, and runs under AddressSanitizer with
//! UndefinedBehaviorSanitizer, and under valgrind's memcheck.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cargo::{Cargo, Outcome, output, root, run};

/// The programs, in `bindings/c/`, and their arguments.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("tests/arguments.c", &[]),
    ("tests/behaviour.c", &[]),
    ("tests/wrappers.cpp", &[]),
    ("tests/sources.c", &["cpu", "sim"]),
    ("examples/frame_loop.c", &[]),
    ("examples/threads.cpp", &[]),
];

/// More sources of programs. One program costs less than two under valgrind, which takes six seconds to start each.
const MORE_SOURCES: [(&str, &str); 4] = [
    ("tests/behaviour.c", "tests/requests.c"),
    ("tests/behaviour.c", "tests/recorders.c"),
    ("tests/behaviour.c", "tests/limits.c"),
    ("tests/behaviour.c", "tests/forked.c"),
];

pub(crate) fn run_suite(cargo: &Cargo) -> Outcome {
    check_header(cargo)?;
    run(Command::new(".ci/capi-tools").current_dir(root()))?;
    let folder = root().join("target/xtask-capi");
    let prefix = folder.join("prefix");
    fs::create_dir_all(&folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    let mut install = Command::new(root().join("bindings/c/install"));
    run(install.arg(&prefix).arg(built_libraries(cargo)?))?;
    let flags = pkg_config(&prefix)?;
    for (source, arguments) in PROGRAMS {
        if cargo.only.as_ref().is_none_or(|only| source.contains(only)) {
            let program = Program::in_repository(source, &folder);
            run_checked(&program, arguments, &prefix, &flags)?;
        }
    }
    check_refused(&flags)?;
    for program in Program::of_readme(&folder)? {
        let compiled = program.compile(&flags, &[])?;
        run(&mut with_library(Command::new(compiled), &prefix))?;
    }
    run_on_gpus(&folder, &prefix, &flags)?;
    build_by_cmake(&folder, &prefix)
}

/// Checks that the committed header is what cbindgen makes of the sources.
fn check_header(cargo: &Cargo) -> Outcome {
    let generate = "run --quiet --manifest-path bindings/c/header/Cargo.toml --target-dir target";
    let generated = output(&mut cargo.command(generate))?;
    let path = root().join("bindings/c/include/millstream.h");
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if generated.trim() == committed.trim() {
        return Ok(());
    }
    let fresh = root().join("target/millstream.h");
    fs::write(&fresh, generated + "\n").map_err(|error| error.to_string())?;
    Err(format!(
        "`bindings/c/include/millstream.h` is not what cbindgen makes of the sources; copy `{}` over it",
        fresh.display()
    ))
}

/// Builds the libraries with the features of the workspace, so that nothing else is built again, and returns their
/// folder.
fn built_libraries(cargo: &Cargo) -> Result<PathBuf, String> {
    let build = "build --workspace --bench capi_launch --message-format json-render-diagnostics";
    let built = output(&mut cargo.command(build))?;
    let library = built.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let files = message["filenames"].as_array()?;
        let shared = files
            .iter()
            .filter_map(Value::as_str)
            .find(|file| file.ends_with(".so"))?;
        (message["target"]["name"] == "millstream_capi").then(|| PathBuf::from(shared))
    });
    let folder = library.as_deref().and_then(Path::parent);
    folder
        .map(Path::to_path_buf)
        .ok_or_else(|| "Cargo built no `libmillstream_capi.so`".to_owned())
}

/// Returns the flags that pkg-config finds in the prefix.
fn pkg_config(prefix: &Path) -> Result<Vec<String>, String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = output(command.args(["--cflags", "--libs", "millstream"]))?;
    Ok(flags.split_whitespace().map(str::to_owned).collect())
}

/// A program in C or C++.
struct Program {
    source: PathBuf,
    more_sources: Vec<PathBuf>,
    /// The compiled program.
    target: PathBuf,
}

impl Program {
    /// Returns a program of `bindings/c/`.
    fn in_repository(source: &str, folder: &Path) -> Self {
        let in_capi = |source: &str| root().join("bindings/c").join(source);
        let more = MORE_SOURCES.iter().filter(|(first, _)| *first == source);
        Self {
            source: in_capi(source),
            more_sources: more.map(|(_, more)| in_capi(more)).collect(),
            target: folder.join(source.replace(['/', '.'], "-")),
        }
    }

    /// Returns the programs of `bindings/c/README.md`.
    fn of_readme(folder: &Path) -> Result<[Self; 2], String> {
        let readme = fs::read_to_string(root().join("bindings/c/README.md"));
        let readme = readme.map_err(|error| format!("`bindings/c/README.md`: {error}"))?;
        let extract = |language: &str| {
            let begin = format!("```{language}\n");
            let block = readme
                .split_once(&begin)
                .and_then(|(_, rest)| rest.split_once("```"));
            let (text, _) = block
                .ok_or_else(|| format!("`bindings/c/README.md` has no program in {language}"))?;
            let source = folder.join(format!("readme.{language}"));
            fs::write(&source, text).map_err(|error| error.to_string())?;
            let target = folder.join(format!("readme-{language}"));
            Ok::<_, String>(Self {
                source,
                more_sources: Vec::new(),
                target,
            })
        };
        Ok([extract("c")?, extract("cpp")?])
    }

    /// Compiles the program with more flags, and returns its path.
    fn compile(&self, flags: &[String], more: &[&str]) -> Result<PathBuf, String> {
        let (variable, compiler, standard) = match self.source.extension() {
            Some(end) if end == "c" => ("CC", "cc", "-std=c11"),
            _ => ("CXX", "c++", "-std=c++17"),
        };
        let compiler = std::env::var(variable).unwrap_or_else(|_| compiler.to_owned());
        let mut command = Command::new(compiler);
        command.args([
            standard,
            "-g",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-pthread",
        ]);
        command
            .args(more)
            .arg(&self.source)
            .args(&self.more_sources)
            .arg("-o")
            .arg(&self.target);
        run(command.args(flags))?;
        Ok(self.target.clone())
    }
}

/// Checks that the launches of `refused.cpp` do not compile, each because of its arguments.
fn check_refused(flags: &[String]) -> Outcome {
    const CASES: usize = 6;
    let source = root().join("bindings/c/tests/refused.cpp");
    for case in 0..=CASES {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-fsyntax-only"]).args(flags);
        command.arg(format!("-DREFUSED={case}")).arg(&source);
        let compiled = command.output().map_err(|error| error.to_string())?;
        let messages = String::from_utf8_lossy(&compiled.stderr);
        let is_refused = messages.contains("the arguments are those that the kernel declares");
        if compiled.status.success() != (case == 0) || is_refused != (case > 0) {
            return Err(format!("case {case} of `{}`: {messages}", source.display()));
        }
    }
    Ok(())
}

/// Runs a program under the sanitizers, and under memcheck.
fn run_checked(program: &Program, arguments: &[&str], prefix: &Path, flags: &[String]) -> Outcome {
    let sanitized = program.compile(flags, &["-fsanitize=address,undefined"])?;
    run(with_library(Command::new(sanitized), prefix).args(arguments))?;
    let plain = program.compile(flags, &[])?;
    let mut memcheck = Command::new("valgrind");
    let suppressions = prefix.join("share/millstream/millstream.supp");
    memcheck.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
    memcheck
        .arg(format!("--suppressions={}", suppressions.display()))
        .arg(plain);
    run(with_library(memcheck, prefix).args(arguments))
}

/// Runs the kernels by source on the GPUs that this machine has, and on the driver of the suite `vulkan` if that suite
/// has installed it.
fn run_on_gpus(folder: &Path, prefix: &Path, flags: &[String]) -> Outcome {
    let library = format!("-Wl,-rpath,{}", prefix.join("lib").display());
    let program = Program::in_repository("tests/sources.c", folder);
    let program = program.compile(flags, &[&library])?;
    run(Command::new(&program).args(["cuda", "vulkan"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let vulkan_root = root().join(target).join("vulkan-root");
    let has_root = std::env::var_os("MILLSTREAM_VULKAN_ROOT").is_some() || vulkan_root.is_dir();
    match has_root {
        true => run(Command::new(root().join(".ci/vulkan-run"))
            .arg(&program)
            .arg("vulkan")),
        false => Ok(()),
    }
}

fn with_library(mut command: Command, prefix: &Path) -> Command {
    command.env("LD_LIBRARY_PATH", prefix.join("lib"));
    command
}

/// Builds the examples from the prefix with CMake, and runs them.
fn build_by_cmake(folder: &Path, prefix: &Path) -> Outcome {
    let build = folder.join("cmake");
    let mut configure = Command::new("cmake");
    configure
        .arg("-S")
        .arg(root().join("bindings/c/examples"))
        .arg("-B")
        .arg(&build);
    run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())))?;
    run(Command::new("cmake").arg("--build").arg(&build))?;
    // CMake makes the programs find the library where it is.
    run(&mut Command::new(build.join("frame_loop")))?;
    run(&mut Command::new(build.join("threads")))
}
