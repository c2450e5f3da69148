//! The test's side of the controls. It is linked into tests and has no state: it looks up the control functions in the
//! loaded library.

use std::ffi::{CString, c_char};

use libloading::Library;

/// The controls of the library that this process loads as NCCL. Create one after the session of the fake driver has
/// begun, of which a process has one at a time.
pub struct Nccl {
    reports: unsafe extern "C" fn(*mut u8, usize) -> usize,
    calls: unsafe extern "C" fn(*const c_char) -> u64,
    fail: unsafe extern "C" fn(*const c_char, u64, u32),
    hang: unsafe extern "C" fn(),
    fail_hanging: unsafe extern "C" fn(u32) -> usize,
    living: unsafe extern "C" fn() -> usize,
    open_groups: unsafe extern "C" fn() -> usize,
}

impl Nccl {
    /// Forgets the reports, counts and faults of earlier tests, and returns the controls of the loaded library.
    ///
    /// # Errors
    /// The loaded library is not the fake, or there is none.
    pub fn begin() -> Result<Self, libloading::Error> {
        // SAFETY: this library has no initializers, and those of the real one run in each of its users.
        let library = unsafe { Library::new(libloading::library_filename("nccl")) }?;
        // Never unloaded, like in the backend.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: only this library has these names, with these types.
        unsafe {
            let begin: unsafe extern "C" fn() = *library.get("fake_nccl_begin")?;
            begin();
            Ok(Self {
                reports: *library.get("fake_nccl_reports")?,
                calls: *library.get("fake_nccl_calls")?,
                fail: *library.get("fake_nccl_fail")?,
                hang: *library.get("fake_nccl_hang")?,
                fail_hanging: *library.get("fake_nccl_fail_hanging")?,
                living: *library.get("fake_nccl_living")?,
                open_groups: *library.get("fake_nccl_open_groups")?,
            })
        }
    }

    /// Returns the mistakes of callers so far.
    pub fn reports(&self) -> Vec<String> {
        // SAFETY: with a null buffer it only returns the length; then the buffer has this length.
        let text = unsafe {
            let mut text = vec![0; (self.reports)(std::ptr::null_mut(), 0)];
            let bytes = (self.reports)(text.as_mut_ptr(), text.len());
            text.truncate(bytes);
            text
        };
        let text = String::from_utf8_lossy(&text);
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the number of calls of a function.
    pub fn calls(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the string ends with a zero byte.
        unsafe { (self.calls)(name.as_ptr()) }
    }

    /// Makes the `nth` call from now, the next being 1, of this function return `code`. `launched` stands for
    /// `ncclGroupEnd`, after it has submitted the collective.
    pub fn fail(&self, name: &str, nth: u64, code: u32) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the string ends with a zero byte.
        unsafe { (self.fail)(name.as_ptr(), nth, code) };
    }

    /// Makes the next collective stand still until it is aborted.
    pub fn hang(&self) {
        // SAFETY: only stores the wish.
        unsafe { (self.hang)() };
    }

    /// Makes the collectives that stand still report this error. Returns the number of their communicators: 0 as long as
    /// none was launched. The code 0 is no error.
    pub fn fail_hanging(&self, code: u32) -> usize {
        // SAFETY: only stores the number.
        unsafe { (self.fail_hanging)(code) }
    }

    /// Returns the number of communicators that exist.
    pub fn living(&self) -> usize {
        // SAFETY: only reads.
        unsafe { (self.living)() }
    }

    /// Asserts that nothing is reported, all groups of calls were ended, and all communicators were destroyed.
    ///
    /// # Panics
    /// Something is left.
    pub fn assert_clean(&self) {
        let reports = self.reports();
        assert!(reports.is_empty(), "{}", reports.join("\n"));
        // SAFETY: only reads.
        let open = unsafe { (self.open_groups)() };
        assert_eq!((open, self.living()), (0, 0), "open groups, communicators");
    }
}
