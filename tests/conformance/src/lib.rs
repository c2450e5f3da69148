//! The conformance suite: the specified behaviour of the runtime, as tests for any backend.
//!
//! The author of a backend adds this crate as a dev-dependency, implements one trait that opens a device and declares
//! what it can do ([`Subject`]), and registers the tests of the suite ([`suite!`]):
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
//!     // .. and how to read and write the words of a binding.
//! }
//!
//! millstream_conformance::suite!(yours: Yours; threads, driven);
//! ```
//! `cargo test` then runs `yours::threads::memory::cleanup_gives_unused_pages_back` and the other tests, 190 for each
//! mode. A test's name states the subject, the condition and the outcome; its comment names the invariant of
//! `docs/design.md` that it checks.
//!
//! | module | contents |
//! | --- | --- |
//! | [`subject`] | what the author implements: how to open a device, its [`Abilities`], twins of the suite's kernels |
//! | [`support`] | what the tests are written with: [`On`], [`Rig`], the suite's kernels, a valve that holds a kernel |
//! | `suite` | the tests, by theme |
//! | [`list`] | the names of all tests, and what each needs of a device |
//! | [`program`] | random programs of the testkit on a device of the suite |
//!
//! A test that needs an ability that the device lacks ([`Need`]) is skipped. Only declared abilities decide that; the
//! suite never probes the device. Each skipped test prints its reason, and the test `skipped_tests` of each device
//! prints all of them and their number.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

pub mod list;
pub mod program;
mod registration;
pub mod subject;
mod suite;
pub mod support;

#[doc(inline)]
pub use list::{Need, Test};
#[doc(inline)]
pub use subject::{Abilities, Checks, Clock, Gate, Mode, Opening, ResourcesOf, Setting, Subject};
#[doc(inline)]
pub use support::{On, Rig};
