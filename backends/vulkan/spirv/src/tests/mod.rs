//! Tests of modules: that they are valid, and that routines compute what the reference does.

mod machine;
mod operations;
mod programs;
mod routines;
mod validity;
