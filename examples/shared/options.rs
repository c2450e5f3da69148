//! What can be typed: a device, a folder, JSON, and numbers of each example.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use millstream::sim::Sim;
use millstream::{Cpu, Device, OpenError};

use super::Failure;

/// What every example can be told.
pub(crate) struct Options {
    /// Where its files go.
    pub(crate) output: PathBuf,
    /// Is one JSON object printed, and nothing else?
    pub(crate) json: bool,
    backend: Backend,
}

#[derive(Clone, Copy)]
enum Backend {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda,
    Sim,
}

/// A number of an example: what its option is called, its value, and what it may be.
pub(crate) struct Number<'a> {
    pub(crate) option: &'static str,
    pub(crate) value: &'a mut usize,
    pub(crate) range: RangeInclusive<usize>,
}

impl Options {
    /// Reads the arguments of the command line, and makes the folder.
    pub(crate) fn parse(
        example: &str,
        mut arguments: impl Iterator<Item = String>,
        numbers: &mut [Number],
    ) -> Result<Self, Failure> {
        let mut options = Self {
            output: PathBuf::from("out").join(example),
            json: false,
            backend: Backend::Cpu,
        };
        while let Some(argument) = arguments.next() {
            if argument == "--json" {
                options.json = true;
                continue;
            }
            let number = numbers.iter_mut().find(|it| it.option == argument);
            if number.is_none() && !matches!(&argument[..], "--output" | "--backend") {
                let known: Vec<&str> = numbers.iter().map(|number| number.option).collect();
                let text = format!(
                    "`{argument}` is no option of {example}: there are {}, --backend, --output and --json",
                    known.join(", ")
                );
                return Err(Failure::Usage(text));
            }
            let value = arguments
                .next()
                .ok_or_else(|| Failure::Usage(format!("`{argument}` needs a value behind it")))?;
            match number {
                Some(number) => *number.value = in_range(&argument, &value, &number.range)?,
                None if argument == "--output" => options.output = value.into(),
                None => options.backend = backend(&value)?,
            }
        }
        std::fs::create_dir_all(&options.output).map_err(|error| {
            let folder = options.output.display();
            Failure::Usage(format!(
                "`{folder}` cannot be made ({error}): name another folder with --output"
            ))
        })?;
        Ok(options)
    }

    /// The device that was asked for.
    pub(crate) fn open(&self) -> Result<Device, OpenError> {
        match self.backend {
            Backend::Cpu => Device::open(Cpu::default()),
            #[cfg(feature = "cuda")]
            Backend::Cuda => Device::open(millstream::Cuda::ordinal(0)),
            Backend::Sim => Device::open(Sim::seed(7)),
        }
    }
}

fn in_range(option: &str, value: &str, range: &RangeInclusive<usize>) -> Result<usize, Failure> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    let (start, end) = (range.start(), range.end());
    number.ok_or_else(|| {
        Failure::Usage(format!(
            "{option} is a number from {start} to {end}, not `{value}`"
        ))
    })
}

fn backend(value: &str) -> Result<Backend, Failure> {
    match value {
        "cpu" => Ok(Backend::Cpu),
        #[cfg(feature = "cuda")]
        "cuda" => Ok(Backend::Cuda),
        "sim" => Ok(Backend::Sim),
        other => Err(Failure::Usage(format!(
            "--backend is cpu, cuda (where it is built in) or sim, not `{other}`"
        ))),
    }
}
