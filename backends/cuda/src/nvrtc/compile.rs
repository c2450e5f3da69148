//! Runs one compilation.

use std::ffi::{CString, c_char};

use cudarc::nvrtc::sys::nvrtcProgram;

use super::Target;
use super::api::{Nvrtc, nvrtc};

/// The reason why a compilation failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The compiler is not available. The message says what to do.
    NoCompiler(String),
    /// The source does not compile. The message is the compiler's log, with the source lines that it refers to.
    Source(String),
}

/// A program handle of the compiler.
struct Program {
    nvrtc: &'static Nvrtc,
    raw: nvrtcProgram,
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { self.nvrtc.destroy(&raw mut self.raw) };
    }
}

fn loaded() -> Result<&'static Nvrtc, Failure> {
    nvrtc().map_err(|why| Failure::NoCompiler(why.to_owned()))
}

/// Returns the compiler's version, major and minor.
pub(super) fn version() -> Result<(i32, i32), Failure> {
    let nvrtc = loaded()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the out pointers are valid.
    unsafe { nvrtc.version(&raw mut major, &raw mut minor) }.map_err(Failure::NoCompiler)?;
    Ok((major, minor))
}

/// Returns the compute capabilities that the compiler compiles for: 90 is 9.0.
pub(super) fn supported() -> Result<Vec<i32>, Failure> {
    let nvrtc = loaded()?;
    let mut count = 0;
    // SAFETY: the out pointer is valid.
    unsafe { nvrtc.supported_count(&raw mut count) }.map_err(Failure::NoCompiler)?;
    let mut supported = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the compiler writes as many numbers as it has reported.
    unsafe { nvrtc.supported(supported.as_mut_ptr()) }.map_err(Failure::NoCompiler)?;
    Ok(supported)
}

/// Returns the options of a compilation. They are part of the key of a cached binary.
pub(super) fn options(target: &Target) -> Vec<String> {
    let mut options = vec![
        format!("--gpu-architecture={}", target.0),
        "--std=c++17".to_owned(),
    ];
    if target.format() == OutputFormat::Binary {
        // Lets profilers show source lines, without changing the code. In PTX it would add the working directory.
        options.push("--generate-line-info".to_owned());
    }
    options
}

/// The result of a compilation.
pub(crate) struct Output {
    pub(crate) binary: Vec<u8>,
    /// The compiler's log: warnings, and resource usage if the options request it.
    pub(crate) log: String,
}

/// The format of a compilation's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OutputFormat {
    /// A binary for one compute capability.
    Binary,
    /// PTX for a compute capability and later ones, which the driver compiles further.
    Ptx,
}

/// Compiles CUDA C source to this format.
///
/// # Errors
/// The compiler is not available, or the source does not compile.
pub(super) fn compile(
    format: OutputFormat,
    name: &str,
    source: &str,
    options: &[String],
) -> Result<Output, Failure> {
    let nvrtc = loaded()?;
    let text = |text: &str| {
        CString::new(text)
            .map_err(|_| Failure::Source("the source contains a zero byte; remove it".to_owned()))
    };
    let (code, file) = (text(source)?, text(&format!("{name}.cu"))?);
    let mut program = Program {
        nvrtc,
        raw: std::ptr::null_mut(),
    };
    let (place, none) = (&raw mut program.raw, std::ptr::null());
    // SAFETY: the strings end with a zero byte and are only read during the call; there are no headers.
    let created = unsafe { nvrtc.create(place, code.as_ptr(), file.as_ptr(), 0, none, none) };
    created.map_err(Failure::Source)?;
    let options: Vec<CString> = options
        .iter()
        .map(|option| text(option))
        .collect::<Result<_, _>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program is alive; the options end with a zero byte and are only read during the call.
    let answer = unsafe { nvrtc.compile(program.raw, pointers.len() as i32, pointers.as_ptr()) };
    let log = program.read(nvrtc.log_size, nvrtc.log);
    let log = String::from_utf8_lossy(&log);
    let log = log.trim_end_matches('\0').trim_end();
    answer.map_err(|why| match log {
        "" => Failure::Source(why),
        log => Failure::Source(with_source_lines(log, &format!("{name}.cu"), source)),
    })?;
    let compiled = match format {
        OutputFormat::Binary => program.read(nvrtc.binary_size, nvrtc.binary),
        OutputFormat::Ptx => program.read(nvrtc.ptx_size, nvrtc.ptx),
    };
    match compiled {
        binary if binary.is_empty() => {
            Err(Failure::Source("the compiler returned no code".to_owned()))
        }
        binary => Ok(Output {
            binary,
            log: log.to_owned(),
        }),
    }
}

impl Program {
    /// Reads a result of the program: first its length, then its bytes. Returns no bytes on an error.
    fn read(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> u32,
        read: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> u32,
    ) -> Vec<u8> {
        let mut bytes = 0;
        // SAFETY: the program is alive, and the out pointer is valid.
        if unsafe { size(self.raw, &raw mut bytes) } != 0 {
            return Vec::new();
        }
        let mut result = vec![0_u8; bytes];
        // SAFETY: the buffer has as many bytes as the compiler reported.
        if unsafe { read(self.raw, result.as_mut_ptr().cast()) } != 0 {
            return Vec::new();
        }
        result
    }
}

/// Inserts the source line below each line of the log that starts with `file(line)`.
fn with_source_lines(log: &str, file: &str, source: &str) -> String {
    let mut text = String::new();
    for message in log.lines() {
        text += message;
        text.push('\n');
        let number = message
            .strip_prefix(file)
            .and_then(|rest| rest.strip_prefix('(')?.split_once(')'))
            .and_then(|(number, _)| number.parse::<usize>().ok());
        let line =
            number.and_then(|number| Some((number, source.lines().nth(number.checked_sub(1)?)?)));
        if let Some((number, line)) = line {
            text += &format!("{number:>5} | {}\n", line.trim_end());
        }
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_contains_the_source_lines_that_it_refers_to() {
        let source = "int f() {\n    return x;\n}\n";
        let log =
            "f.cu(2): error: identifier \"x\" is undefined\n      return x;\n\n1 error detected";
        let text = with_source_lines(log, "f.cu", source);
        assert!(
            text.contains("undefined\n    2 |     return x;\n"),
            "{text}"
        );
        // Lines that do not exist are not inserted.
        assert_eq!(
            with_source_lines("f.cu(99): error", "f.cu", source),
            "f.cu(99): error"
        );
        assert_eq!(
            with_source_lines("f.cu(0): error", "f.cu", source),
            "f.cu(0): error"
        );
    }
}
