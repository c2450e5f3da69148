//! The test's side of the controls. It is linked into tests and has no state: it looks up the control functions in the
//! loaded library.

use libloading::Library;

/// The controls of the library that this process loads as cuBLASLt.
pub struct Lt {
    products: unsafe extern "C" fn() -> u64,
    living: unsafe extern "C" fn() -> i64,
    reductions: unsafe extern "C" fn() -> u32,
    refuse: unsafe extern "C" fn(u32, u32),
}

impl Lt {
    /// Returns the controls of the loaded library.
    ///
    /// # Errors
    /// The loaded library is not the fake, or there is none.
    pub fn loaded() -> Result<Self, libloading::Error> {
        // SAFETY: this library has no initializers, and those of the real one run in each of its users.
        let library = unsafe { Library::new(libloading::library_filename("cublasLt")) }?;
        // Never unloaded, like in the backend.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: only this library has these names, with these types.
        unsafe {
            Ok(Self {
                products: *library.get("fake_cublaslt_products")?,
                living: *library.get("fake_cublaslt_living")?,
                reductions: *library.get("fake_cublaslt_reductions")?,
                refuse: *library.get("fake_cublaslt_refuse")?,
            })
        }
    }

    /// Returns the number of products that the library has launched in this process, without the first of each handle and
    /// type, which loads the code for the others.
    pub fn products(&self) -> u64 {
        // SAFETY: only reads a counter.
        unsafe { (self.products)() }
    }

    /// Returns the number of handles and descriptors that are not destroyed.
    pub fn living(&self) -> i64 {
        // SAFETY: as above.
        unsafe { (self.living)() }
    }

    /// Returns the reduction schemes that the products of this process were allowed to use: 1 reduces in place, 2 in the
    /// type of the computation, 4 in the type of the output.
    pub fn reductions(&self) -> u32 {
        // SAFETY: only reads a number.
        unsafe { (self.reductions)() }
    }

    /// Refuses all further products with the status `product`, and all heuristic queries with `algorithm`; 0 refuses
    /// none.
    pub fn refuse(&self, product: u32, algorithm: u32) {
        // SAFETY: only stores the numbers.
        unsafe { (self.refuse)(product, algorithm) };
    }
}
