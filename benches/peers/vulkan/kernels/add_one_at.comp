// `add_one` whose arguments are a block in a buffer: the push constants hold the block's address.
//
// glslang -V --target-env vulkan1.2 add_one_at.comp -o add_one_at.spv
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require

layout(local_size_x = 256) in;
layout(buffer_reference, scalar) buffer Words { uint at[]; };
layout(buffer_reference, scalar) readonly buffer Arguments { Words values; uint n; };
layout(push_constant, scalar) uniform Block { Arguments arguments; };

void main() {
    for (uint i = gl_GlobalInvocationID.x; i < arguments.n; i += gl_NumWorkGroups.x * 256) {
        arguments.values.at[i] += 1;
    }
}
