//! The product as PTX, and the functions of the driver that launch it.

use std::ffi::{CString, c_char, c_void};

use libloading::Library;

/// Threads of a block.
pub(crate) const THREADS: u32 = 128;

/// The driver's functions, with handles as numbers.
pub(crate) struct Driver {
    load: unsafe extern "C" fn(*mut u64, *const c_void) -> u32,
    unload: unsafe extern "C" fn(u64) -> u32,
    function: unsafe extern "C" fn(*mut u64, u64, *const c_char) -> u32,
    launch: unsafe extern "C" fn(
        u64,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        u64,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> u32,
    _library: Library,
}

impl Driver {
    pub(crate) fn find() -> Option<Self> {
        // SAFETY: the driver of this process, which the caller has loaded already.
        let library = unsafe { Library::new(libloading::library_filename("cuda")) }.ok()?;
        // SAFETY: the types are those of the driver's header.
        unsafe {
            Some(Self {
                load: *library.get("cuModuleLoadData").ok()?,
                unload: *library.get("cuModuleUnload").ok()?,
                function: *library.get("cuModuleGetFunction").ok()?,
                launch: *library.get("cuLaunchKernel").ok()?,
                _library: library,
            })
        }
    }

    pub(crate) fn module(&self, text: &str) -> Option<u64> {
        let text = CString::new(text).ok()?;
        let mut module = 0;
        // SAFETY: the string ends with a zero byte, and the out pointer is valid.
        let status = unsafe { (self.load)(&raw mut module, text.as_ptr().cast()) };
        (status == 0).then_some(module)
    }

    pub(crate) fn destroy(&self, module: u64) -> u32 {
        // SAFETY: the module was loaded by `module`.
        unsafe { (self.unload)(module) }
    }

    pub(crate) fn entry(&self, module: u64, name: &str) -> Option<u64> {
        let name = CString::new(name).ok()?;
        let mut function = 0;
        // SAFETY: as above.
        let status = unsafe { (self.function)(&raw mut function, module, name.as_ptr()) };
        (status == 0).then_some(function)
    }

    pub(crate) fn launch(&self, function: u64, blocks: u32, values: &[u64], stream: u64) -> u32 {
        let mut parameters: Vec<*mut c_void> = values
            .iter()
            .map(|value| (&raw const *value).cast_mut().cast())
            .collect();
        let none = std::ptr::null_mut();
        // SAFETY: each parameter has a 64-bit value, which is only read during the call.
        unsafe {
            (self.launch)(
                function,
                blocks,
                1,
                1,
                THREADS,
                1,
                1,
                0,
                stream,
                parameters.as_mut_ptr(),
                none,
            )
        }
    }
}

/// Returns the name of the entry point for a type, the size of an element, whether it is a double, and the instructions
/// that load and store it.
fn element(data: u32) -> Option<(&'static str, u32, bool, &'static str, &'static str)> {
    Some(match data {
        0 => (
            "fake_cublaslt_f32",
            4,
            false,
            "ld.global.f32 VALUE, [ADDRESS];",
            "st.global.f32 [ADDRESS], %f0;",
        ),
        1 => (
            "fake_cublaslt_f64",
            8,
            true,
            "ld.global.f64 VALUE, [ADDRESS];",
            "st.global.f64 [ADDRESS], %d0;",
        ),
        2 => (
            "fake_cublaslt_f16",
            2,
            false,
            "ld.global.b16 %h1, [ADDRESS]; cvt.f32.f16 VALUE, %h1;",
            "cvt.rn.f16.f32 %h1, %f0; st.global.b16 [ADDRESS], %h1;",
        ),
        14 => (
            "fake_cublaslt_bf16",
            2,
            false,
            "ld.global.u16 %r1, [ADDRESS]; shl.b32 %r1, %r1, 16; mov.b32 VALUE, %r1;",
            "cvt.rn.bf16.f32 %h1, %f0; st.global.b16 [ADDRESS], %h1;",
        ),
        _ => return None,
    })
}

/// Returns the entry point for elements of a type.
pub(crate) fn entry(data: u32) -> Option<&'static str> {
    element(data).map(|(name, ..)| name)
}

/// The parameters of each entry point, all of 64 bits.
pub(crate) const PARAMETERS: [&str; 16] = [
    "a",
    "b",
    "d",
    "workspace",
    "rows",
    "columns",
    "depth",
    "batch",
    "a_row",
    "a_depth",
    "a_on",
    "b_depth",
    "b_column",
    "b_on",
    "d_column",
    "d_on",
];

/// Returns all entry points. Each thread computes one element and sums from the last index of the depth to the first.
/// This is another order than that of other kernels, so that a test that depends on the order fails. The first thread
/// writes to the workspace, if there is one.
pub(crate) fn ptx() -> String {
    let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n".to_owned();
    for data in [0, 1, 2, 14] {
        let Some((name, bytes, is_double, load, store)) = element(data) else {
            continue;
        };
        let parameters = PARAMETERS
            .map(|name| format!(".param .u64 {name}"))
            .join(", ");
        let values: String = (0..PARAMETERS.len())
            .map(|at| format!("ld.param.u64 %p{at}, [{}];\n", PARAMETERS[at]))
            .collect();
        let (float, kind) = if is_double {
            ("d", "f64")
        } else {
            ("f", "f32")
        };
        let zero = if is_double {
            "0d0000000000000000"
        } else {
            "0f00000000"
        };
        let load =
            |value: &str, address: &str| load.replace("VALUE", value).replace("ADDRESS", address);
        let (left, right) = (
            load(&format!("%{float}1"), "%rd8"),
            load(&format!("%{float}2"), "%rd9"),
        );
        let store = store.replace("ADDRESS", "%rd10");
        text += &format!(
            ".visible .entry {name}({parameters})
{{
.reg .pred %q<4>; .reg .b16 %h<4>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .f64 %d<4>; .reg .b64 %rd<16>; .reg .b64 %p<16>;
{values}mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r2, %r3, %r4; cvt.u64.u32 %rd1, %r5;
setp.ne.u64 %q1, %rd1, 0; setp.eq.u64 %q2, %p3, 0;
@%q1 bra ELEMENT;
@%q2 bra ELEMENT;
st.global.u64 [%p3], %p6;
ELEMENT:
mul.lo.u64 %rd2, %p4, %p5; mul.lo.u64 %rd3, %rd2, %p7; setp.ge.u64 %q1, %rd1, %rd3;
@%q1 bra DONE;
rem.u64 %rd4, %rd1, %p4; div.u64 %rd5, %rd1, %p4; rem.u64 %rd6, %rd5, %p5; div.u64 %rd7, %rd5, %p5;
mul.lo.u64 %rd8, %rd4, %p8; mad.lo.u64 %rd8, %rd7, %p10, %rd8; mad.lo.u64 %rd8, %p6, %p9, %rd8; mad.lo.u64 %rd8, %rd8, {bytes}, %p0;
mul.lo.u64 %rd9, %rd6, %p12; mad.lo.u64 %rd9, %rd7, %p13, %rd9; mad.lo.u64 %rd9, %p6, %p11, %rd9; mad.lo.u64 %rd9, %rd9, {bytes}, %p1;
mad.lo.u64 %rd10, %rd6, %p14, %rd4; mad.lo.u64 %rd10, %rd7, %p15, %rd10; mad.lo.u64 %rd10, %rd10, {bytes}, %p2;
mul.lo.u64 %rd11, %p9, {bytes}; mul.lo.u64 %rd12, %p11, {bytes}; mov.{kind} %{float}0, {zero}; mov.u64 %rd13, %p6;
NEXT:
setp.eq.u64 %q1, %rd13, 0;
@%q1 bra STORE;
sub.u64 %rd8, %rd8, %rd11; sub.u64 %rd9, %rd9, %rd12; sub.u64 %rd13, %rd13, 1;
{left}
{right}
fma.rn.{kind} %{float}0, %{float}1, %{float}2, %{float}0;
bra.uni NEXT;
STORE:
{store}
DONE:
ret;
}}
"
        );
    }
    text
}
