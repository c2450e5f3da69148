//! Parses the command line: the device, the folder, JSON output, and the numbers of each example.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use millstream::sim::Sim;
use millstream::{Cpu, Device, OpenError};

use super::Failure;

/// The options that all examples have.
pub(crate) struct Options {
    /// The folder for files.
    pub(crate) output: PathBuf,
    /// Whether to print only one JSON object.
    pub(crate) json: bool,
    backend: Backend,
}

#[derive(Clone, Copy)]
enum Backend {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda,
    #[cfg(feature = "vulkan")]
    Vulkan,
    Sim,
}

/// A numeric option of an example: its name, its value and its range.
pub(crate) struct Number<'a> {
    pub(crate) option: &'static str,
    pub(crate) value: &'a mut usize,
    pub(crate) range: RangeInclusive<usize>,
}

impl Options {
    /// Parses the arguments of the command line, and creates the folder.
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
            let number = numbers.iter_mut().find(|number| number.option == argument);
            if number.is_none() && !matches!(&argument[..], "--output" | "--backend") {
                let known: Vec<&str> = numbers.iter().map(|number| number.option).collect();
                let text = format!(
                    "unknown option `{argument}`: {example} has {}, --backend, --output and --json",
                    known.join(", ")
                );
                return Err(Failure::Usage(text));
            }
            let value = arguments
                .next()
                .ok_or_else(|| Failure::Usage(format!("{argument} needs a value")))?;
            match number {
                Some(number) => *number.value = in_range(&argument, &value, &number.range)?,
                None if argument == "--output" => options.output = value.into(),
                None => options.backend = backend(&value)?,
            }
        }
        std::fs::create_dir_all(&options.output).map_err(|error| {
            let folder = options.output.display();
            Failure::Usage(format!(
                "folder `{folder}` cannot be created ({error}): name another one with --output"
            ))
        })?;
        Ok(options)
    }

    /// Opens the device that the arguments name.
    pub(crate) fn open(&self) -> Result<Device, OpenError> {
        match self.backend {
            Backend::Cpu => Device::open(Cpu::default()),
            #[cfg(feature = "cuda")]
            Backend::Cuda => Device::open(millstream::Cuda::ordinal(0)),
            #[cfg(feature = "vulkan")]
            Backend::Vulkan => Device::open(millstream::Vulkan::ordinal(0)),
            Backend::Sim => Device::open(Sim::seed(7)),
        }
    }
}

fn in_range(option: &str, value: &str, range: &RangeInclusive<usize>) -> Result<usize, Failure> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    let (start, end) = (range.start(), range.end());
    number.ok_or_else(|| {
        Failure::Usage(format!(
            "{option} expects a number from {start} to {end}, got `{value}`"
        ))
    })
}

fn backend(value: &str) -> Result<Backend, Failure> {
    match value {
        "cpu" => Ok(Backend::Cpu),
        #[cfg(feature = "cuda")]
        "cuda" => Ok(Backend::Cuda),
        #[cfg(feature = "vulkan")]
        "vulkan" => Ok(Backend::Vulkan),
        "sim" => Ok(Backend::Sim),
        other => Err(Failure::Usage(format!(
            "--backend expects cpu, cuda or vulkan (if the feature is enabled) or sim, got `{other}`"
        ))),
    }
}
