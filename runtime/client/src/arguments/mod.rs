//! The arguments of a launch: cube count, bindings, scalars, metadata, tensor maps.

mod argument_count;
mod bound;
mod count;
mod mismatch;
mod pack;
mod scalar_parameter;
mod tuples;
mod types;
mod untyped;

pub use argument_count::ArgumentCount;
pub use bound::{Argument, Arguments, Bound, LaunchArgs, bind, read, update, write};
pub use count::CubeCount;
pub(crate) use mismatch::{FOREIGN_PARAMETER, refused, scalar_parameter};
pub use pack::ArgumentWriter;
pub(crate) use pack::Packed;
pub use scalar_parameter::ScalarParameter;
pub(crate) use scalar_parameter::{RecordedArguments, RecorderKey};
pub(crate) use tuples::{nine_to_sixteen, up_to_eight};
pub use types::{ArgumentKind, ArgumentType, ArgumentTypes, Read, Update, Write};
pub(crate) use types::{displayed, kinds_of, kinds_of_types};
pub(crate) use untyped::Untyped;
