//! The libraries for CUDA GPUs: the compiler of CUDA C, and those for large products and for collectives.

use std::fmt;

use millstream::cuda;
use serde::Serialize;

/// The libraries, or why they are missing.
#[derive(Debug, Serialize)]
pub(crate) struct Libraries {
    /// The compiler of CUDA C.
    compiler: Compiler,
    /// The library for large products on a GPU.
    products: Products,
    /// The library for collectives of several GPUs.
    collectives: Collectives,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Compiler {
    Nvrtc(String),
    Missing(String),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Products {
    Cublaslt(String),
    Missing(String),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Collectives {
    Nccl(String),
    Missing(String),
}

impl Libraries {
    /// Loads the libraries that the machine has.
    pub(crate) fn find() -> Self {
        Self {
            compiler: match cuda::compiler() {
                Ok((major, minor)) => Compiler::Nvrtc(format!("{major}.{minor}")),
                Err(error) => Compiler::Missing(error.to_string()),
            },
            products: match cuda::product_library() {
                Ok(version) => Products::Cublaslt(dotted_version(version)),
                Err(error) => Products::Missing(error.to_string()),
            },
            collectives: match cuda::collective_library() {
                Ok(version) => Collectives::Nccl(dotted_version(version)),
                Err(error) => Collectives::Missing(error.to_string()),
            },
        }
    }
}

/// Formats the version number of cuBLASLt or NCCL as `major.minor.patch`.
fn dotted_version(version: usize) -> String {
    format!(
        "{}.{}.{}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    )
}

impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.compiler {
            Compiler::Nvrtc(version) => writeln!(f, "- NVRTC {version} compiles CUDA C."),
            Compiler::Missing(reason) => writeln!(f, "- {reason}."),
        }?;
        match &self.products {
            Products::Cublaslt(version) => {
                writeln!(f, "- cuBLASLt {version} computes large products.")
            }
            Products::Missing(reason) => writeln!(f, "- {reason}."),
        }?;
        match &self.collectives {
            Collectives::Nccl(version) => {
                writeln!(f, "- NCCL {version} runs collectives of several GPUs.")
            }
            Collectives::Missing(reason) => writeln!(f, "- {reason}."),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn some() -> Libraries {
        Libraries {
            compiler: Compiler::Missing("no compiler".into()),
            products: Products::Cublaslt(dotted_version(130_102)),
            collectives: Collectives::Nccl(dotted_version(23_203)),
        }
    }
}
