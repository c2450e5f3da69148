#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 256) in;
layout(buffer_reference, scalar) buffer Words { uint at[]; };
layout(push_constant, scalar) uniform Block { Words dst; };

void main() {
    if (gl_LocalInvocationIndex == 0) {
        uvec3 cube = gl_WorkGroupID;
        uint place = (cube.z * gl_NumWorkGroups.y + cube.y) * gl_NumWorkGroups.x + cube.x;
        dst.at[place] = cube.x + 10 * cube.y + 100 * cube.z;
    }
}
