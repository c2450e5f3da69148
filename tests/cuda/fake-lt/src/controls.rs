//! What a test says to the library, and asks of it. This side is linked into tests, and has no state of its own: it looks the controls up in
//! the library that was loaded.

use libloading::Library;

/// The controls of the library that programs of this process find as cuBLASLt.
pub struct Lt {
    products: unsafe extern "C" fn() -> u64,
    living: unsafe extern "C" fn() -> i64,
    refuse: unsafe extern "C" fn(u32, u32),
}

impl Lt {
    /// The library that is loaded.
    ///
    /// # Errors
    /// It is not this one.
    pub fn loaded() -> Result<Self, libloading::Error> {
        // SAFETY: this library does nothing as it is loaded, and the real one does what its users want.
        let library = unsafe { Library::new(libloading::library_filename("cublasLt")) }?;
        // The backend never unloads it either.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the names are this library's alone, and these are their types.
        unsafe {
            Ok(Self {
                products: *library.get("fake_cublaslt_products")?,
                living: *library.get("fake_cublaslt_living")?,
                refuse: *library.get("fake_cublaslt_refuse")?,
            })
        }
    }

    /// How many products it was given and did not refuse, in this process.
    pub fn products(&self) -> u64 {
        // SAFETY: it only answers.
        unsafe { (self.products)() }
    }

    /// How many handles and descriptions were made and not ended.
    pub fn living(&self) -> i64 {
        // SAFETY: as above.
        unsafe { (self.living)() }
    }

    /// Has every product from now on refused with this status, and every question for an algorithm with that; 0 ends it.
    pub fn refuse(&self, product: u32, algorithm: u32) {
        // SAFETY: it only notes the numbers.
        unsafe { (self.refuse)(product, algorithm) };
    }
}
