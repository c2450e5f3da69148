//! The behaviour of the runtime, fact by fact, as tests for any backend.
//!
//! The author of a backend adds this crate as a dev-dependency, says in one trait how a device is opened and what it can
//! do ([`Subject`]), and registers every fact as a test of its own ([`suite!`]):
//!
//! ```ignore
//! struct Yours;
//!
//! impl millstream_conformance::Subject for Yours {
//!     type Kind = your_crate::Device;
//!
//!     fn open(&self, setting: &Setting) -> Opening<your_crate::Device> {
//!         Opening::of(your_crate::Device::default().memory_limit(setting.memory_bytes))
//!     }
//!     // .. and how the words of a binding are read and written.
//! }
//!
//! millstream_conformance::suite!(yours: Yours; threads, driven);
//! ```
//! `cargo test` then runs `yours::threads::memory::cleanup_gives_unused_pages_back`, and 130 more. A test's name is the
//! fact; a comment names the invariant of `docs/design.md` that it guards.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`subject`] | what an author says: how a device is opened, its [`Abilities`], twins of the suite's kernels |
//! | [`support`] | what the facts are written with: [`On`], [`Rig`], the suite's kernels, a valve that holds a kernel |
//! | `facts` | the facts, by theme; [`list`] has their names, and what each needs of a device |
//!
//! A fact that needs what a device cannot do ([`Need`]) is skipped. Skips are declared, never found out: each skipped
//! test prints its reason, and the test `skipped_facts` of each device prints all of them with their number.

#![allow(
    clippy::unwrap_used,
    reason = "a fact says what it expects by unwrapping"
)]

mod facts;
pub mod list;
pub mod program;
pub mod subject;
mod suite;
pub mod support;

#[doc(inline)]
pub use list::{Fact, Need};
#[doc(inline)]
pub use subject::{Abilities, Checks, Clock, Gate, Opening, ResourcesOf, Setting, Subject, Way};
#[doc(inline)]
pub use support::{On, Rig};
