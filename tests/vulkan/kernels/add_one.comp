#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 256) in;
layout(buffer_reference, scalar) buffer Words { uint at[]; };
layout(push_constant, scalar) uniform Block { Words values; uint n; };

void main() {
    for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * 256) {
        values.at[i] += 1;
    }
}
