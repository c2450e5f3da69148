//! Runs the command line as a program, and checks exit codes, standard output and files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod demo;
#[path = "../folder/mod.rs"]
mod folder;
mod timeline;

use folder::Folder;
