//! Kernels that the tests launch.

use crate::raw::Gpu;

/// `set(u64 to, u32 value)`: each thread writes the value to its own word.
/// `add(u64 to, u64 from)`: one thread adds the word at `from` to the word at `to`.
/// `first(u64 to, 128 bytes)`: one thread writes the first and the last word of a large parameter.
const PTX: &str = r"
.version 8.0
.target sm_90
.address_size 64

.visible .entry set(.param .u64 to, .param .u32 value)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}

.visible .entry add(.param .u64 to, .param .u64 from)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [from];
    ld.global.u32 %r1, [%rd1];
    ld.global.u32 %r2, [%rd2];
    add.u32 %r3, %r1, %r2;
    st.global.u32 [%rd1], %r3;
    ret;
}

.visible .entry first(.param .u64 to, .param .align 64 .b8 map[128])
{
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [map];
    ld.param.u64 %rd3, [map+120];
    st.global.u64 [%rd1], %rd2;
    st.global.u64 [%rd1+8], %rd3;
    ret;
}
";

/// The module and its functions.
pub(crate) struct Kernels {
    pub(crate) module: u64,
    pub(crate) set: u64,
    pub(crate) add: u64,
    pub(crate) first: u64,
}

impl Kernels {
    pub(crate) fn load(gpu: &Gpu) -> Self {
        let text = std::ffi::CString::new(PTX).unwrap();
        let module = gpu.make("cuModuleLoadData", &[text.as_ptr() as u64]);
        let function = |name: &std::ffi::CStr| {
            gpu.make("cuModuleGetFunction", &[module, name.as_ptr() as u64])
        };
        Self {
            module,
            set: function(c"set"),
            add: function(c"add"),
            first: function(c"first"),
        }
    }
}

/// The parameters of a launch, and the array of pointers to them.
pub(crate) struct Values {
    _places: Box<[u64]>,
    list: Box<[u64]>,
}

impl Values {
    pub(crate) fn new(values: &[u64]) -> Self {
        let places: Box<[u64]> = values.into();
        let list = places
            .iter()
            .map(|place| &raw const *place as u64)
            .collect();
        Self {
            _places: places,
            list,
        }
    }

    pub(crate) fn list(&self) -> u64 {
        self.list.as_ptr() as u64
    }
}

/// `CUlaunchAttribute`, as words: the id, padding, the value.
pub(crate) type Attribute = [u32; 18];

pub(crate) fn attribute(id: u32, value: &[u32]) -> Attribute {
    let mut words = [0; 18];
    words[0] = id;
    words[2..][..value.len()].copy_from_slice(value);
    words
}

/// `CUlaunchConfig` with one thread per block, as words: three of the grid, three of a block, the shared memory.
pub(crate) fn config([x, y, z]: [u32; 3], stream: u64, attributes: &[Attribute]) -> [u64; 7] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let (list, count) = (attributes.as_ptr() as u64, attributes.len() as u64);
    [pair(x, y), pair(z, 1), pair(1, 1), 0, stream, list, count]
}

/// Launches one block of one thread.
pub(crate) fn launch(gpu: &Gpu, function: u64, stream: u64, values: &[u64]) -> u32 {
    launch_list(gpu, function, stream, &Values::new(values).list)
}

/// The same with pointers to the parameters.
pub(crate) fn launch_list(gpu: &Gpu, function: u64, stream: u64, list: &[u64]) -> u32 {
    let list = list.as_ptr() as u64;
    let arguments = [function, 1, 1, 1, 1, 1, 1, 0, stream, list, 0];
    gpu.call("cuLaunchKernel", &arguments)
}
