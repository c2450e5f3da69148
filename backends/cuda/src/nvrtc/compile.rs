//! One compilation.

use std::ffi::{CString, c_char};

use cudarc::nvrtc::sys::nvrtcProgram;

use super::Target;
use super::api::{Nvrtc, nvrtc};

/// Why there is no binary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The compiler is not here: what to do.
    NoCompiler(String),
    /// The source does not compile: what the compiler said, with the lines that it means.
    Source(String),
}

/// A program of the compiler's.
struct Program {
    nvrtc: &'static Nvrtc,
    raw: nvrtcProgram,
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made once, ended once.
        unsafe { (self.nvrtc.destroy)(&raw mut self.raw) };
    }
}

/// The compiler's version, major and minor.
pub(super) fn version() -> Result<(i32, i32), Failure> {
    let nvrtc = nvrtc().map_err(|why| Failure::NoCompiler(why.to_owned()))?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the places for the answers are ours.
    let answer = unsafe { (nvrtc.version)(&raw mut major, &raw mut minor) };
    match answer {
        0 => Ok((major, minor)),
        answer => Err(Failure::NoCompiler(nvrtc.text(answer))),
    }
}

/// The options of a compilation. Part of what a cached binary is known by.
pub(super) fn options(target: &Target) -> Vec<String> {
    let mut options = vec![
        format!("--gpu-architecture={}", target.0),
        "--std=c++17".to_owned(),
    ];
    if target.form() == Form::Binary {
        // So that a profiler names lines; the code is the same. Of PTX they would name the folder in which this ran.
        options.push("--generate-line-info".to_owned());
    }
    options
}

/// What a compilation made.
pub(crate) struct Made {
    pub(crate) binary: Vec<u8>,
    /// What the compiler said of it: warnings, and registers where they were asked for.
    pub(crate) log: String,
}

/// What a source is to become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// For one kind of GPU.
    Binary,
    /// For this kind of GPU and all later ones, whose drivers compile the rest.
    Ptx,
}

/// What a CUDA C source becomes, in this form.
///
/// # Errors
/// The compiler is not here, or refuses the source.
pub(super) fn compile(
    form: Form,
    name: &str,
    source: &str,
    options: &[String],
) -> Result<Made, Failure> {
    let nvrtc = nvrtc().map_err(|why| Failure::NoCompiler(why.to_owned()))?;
    let text = |text: &str| {
        CString::new(text).map_err(|_| Failure::Source("the source has a zero byte".to_owned()))
    };
    let (code, file) = (text(source)?, text(&format!("{name}.cu"))?);
    let mut program = Program {
        nvrtc,
        raw: std::ptr::null_mut(),
    };
    // SAFETY: the texts end with 0 and are read during the call; there are no headers.
    let made = unsafe {
        (nvrtc.create)(
            &raw mut program.raw,
            code.as_ptr(),
            file.as_ptr(),
            0,
            std::ptr::null(),
            std::ptr::null(),
        )
    };
    if made != 0 {
        return Err(Failure::Source(nvrtc.text(made)));
    }
    let options: Vec<CString> = options
        .iter()
        .map(|option| text(option))
        .collect::<Result<_, _>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program lives, the options end with 0 and are read during the call.
    let answer = unsafe { (nvrtc.compile)(program.raw, pointers.len() as i32, pointers.as_ptr()) };
    let log = program.read(nvrtc.log_size, nvrtc.log);
    let log = String::from_utf8_lossy(&log);
    let log = log.trim_end_matches('\0').trim_end();
    if answer != 0 {
        return Err(Failure::Source(match log {
            "" => nvrtc.text(answer),
            log => with_lines(log, &format!("{name}.cu"), source),
        }));
    }
    let made = match form {
        Form::Binary => program.read(nvrtc.binary_size, nvrtc.binary),
        Form::Ptx => program.read(nvrtc.ptx_size, nvrtc.ptx),
    };
    match made {
        binary if binary.is_empty() => Err(Failure::Source("the compiler made nothing".to_owned())),
        binary => Ok(Made {
            binary,
            log: log.to_owned(),
        }),
    }
}

impl Program {
    /// One of its results: its length, then its bytes.
    fn read(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> u32,
        read: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> u32,
    ) -> Vec<u8> {
        let mut bytes = 0;
        // SAFETY: the program lives, the place for the answer is ours.
        if unsafe { size(self.raw, &raw mut bytes) } != 0 {
            return Vec::new();
        }
        let mut result = vec![0_u8; bytes];
        // SAFETY: there is room for as many bytes as it says.
        if unsafe { read(self.raw, result.as_mut_ptr().cast()) } != 0 {
            return Vec::new();
        }
        result
    }
}

/// The log, and below each `file(line): ..` that line of the source.
fn with_lines(log: &str, file: &str, source: &str) -> String {
    let mut text = String::new();
    for said in log.lines() {
        text += said;
        text.push('\n');
        let number = said
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
    fn a_log_shows_the_lines_that_it_means() {
        let source = "int f() {\n    return x;\n}\n";
        let log =
            "f.cu(2): error: identifier \"x\" is undefined\n      return x;\n\n1 error detected";
        let text = with_lines(log, "f.cu", source);
        assert!(
            text.contains("undefined\n    2 |     return x;\n"),
            "{text}"
        );
        // A line that is not there is not shown.
        assert_eq!(
            with_lines("f.cu(99): error", "f.cu", source),
            "f.cu(99): error"
        );
        assert_eq!(
            with_lines("f.cu(0): error", "f.cu", source),
            "f.cu(0): error"
        );
    }
}
