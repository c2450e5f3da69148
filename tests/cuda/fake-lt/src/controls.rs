//! The controls for tests: their state in the loaded library, and [`Lt`], which is linked into tests and accesses it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::loaded;

/// What tests read and set. The library of a test has the same types as the loaded one, because one call of the compiler
/// builds both.
#[derive(Default)]
pub(crate) struct State {
    /// The launched products, without the first of each handle and type.
    pub(crate) products: u64,
    /// The objects that are not destroyed.
    pub(crate) living: i64,
    /// The reduction schemes that the algorithms of all performed products were allowed to use
    /// (`cublasLtReductionScheme_t`).
    pub(crate) reductions: u32,
    /// The statuses of all products and of all heuristic queries; 0 refuses none.
    pub(crate) refused: [u32; 2],
}

static STATE: Mutex<State> = Mutex::new(State {
    products: 0,
    living: 0,
    reductions: 0,
    refused: [0; 2],
});

/// Returns the state of this library.
#[unsafe(no_mangle)]
extern "C" fn fake_cublaslt_state() -> &'static Mutex<State> {
    &STATE
}

pub(crate) fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The controls of the library that this process loads as cuBLASLt.
pub struct Lt(&'static Mutex<State>);

impl Lt {
    /// Returns the controls of the loaded library.
    ///
    /// # Errors
    /// The loaded library is not the fake, or there is none.
    pub fn loaded() -> Result<Self, libloading::Error> {
        let library = loaded::library("cublasLt")?;
        // SAFETY: only this library has this name, with this type.
        let find = unsafe {
            library.get::<extern "C" fn() -> &'static Mutex<State>>("fake_cublaslt_state")
        };
        Ok(Self(find?()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of products that the library has launched in this process, without the first of each handle and
    /// type, which loads the code for the others.
    pub fn products(&self) -> u64 {
        self.state().products
    }

    /// Returns the number of handles and descriptors that are not destroyed.
    pub fn living(&self) -> i64 {
        self.state().living
    }

    /// Returns the reduction schemes that the products of this process were allowed to use: 1 reduces in place, 2 in the
    /// type of the computation, 4 in the type of the output.
    pub fn reductions(&self) -> u32 {
        self.state().reductions
    }

    /// Refuses all further products with the status `product`, and all heuristic queries with `algorithm`; 0 refuses
    /// none.
    pub fn refuse(&self, product: u32, algorithm: u32) {
        self.state().refused = [product, algorithm];
    }
}
