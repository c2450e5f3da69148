//! The arguments of a launch: cube count, bindings, scalars, metadata, tensor maps.

mod bound;
mod count;
mod mismatch;
mod pack;
mod tuples;
mod types;

pub use bound::{Argument, Arguments, Bound, LaunchArgs, bind, read, update, write};
pub use count::CubeCount;
pub(crate) use mismatch::{FOREIGN_PARAMETER, Untyped, refused, scalar_parameter};
pub use pack::ArgumentWriter;
pub(crate) use pack::Packed;
pub(crate) use tuples::{nine_to_sixteen, up_to_eight};
pub use types::{
    ArgumentCount, ArgumentKind, ArgumentType, ArgumentTypes, Read, ScalarParameter, Update, Write,
};
pub(crate) use types::{RecordedArguments, RecorderKey, displayed, kinds_of, kinds_of_types};
