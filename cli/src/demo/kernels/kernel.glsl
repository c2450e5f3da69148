// What all kernels of the filter have in common: they receive their buffers as addresses, and a cube has 256 threads.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#include "parameters.glsl"

layout(local_size_x = 256) in;
layout(buffer_reference, scalar) buffer Bytes { uint8_t at[]; };
layout(buffer_reference, scalar) buffer Floats { float at[]; };
layout(buffer_reference, scalar) buffer Words { uint at[]; };

// The threads of a cube share the indices below `n`.
#define EACH(i, n) for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x)
