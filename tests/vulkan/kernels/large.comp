#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 256) in;
layout(buffer_reference, scalar) buffer Words { uint at[]; };
layout(buffer_reference, scalar) buffer Longs { uint64_t at[]; };
layout(buffer_reference, scalar) buffer Arguments {
    Words inputs[11];
    Longs dst;
    uint64_t scalars[30];
    uint metadata[7];
};
layout(push_constant, scalar) uniform Block { Arguments arguments; };

void main() {
    if (gl_LocalInvocationIndex == 0) {
        uint64_t sum = 0;
        for (uint i = 0; i < 11; i++) {
            sum += arguments.inputs[i].at[0];
        }
        for (uint i = 0; i < 30; i++) {
            sum += arguments.scalars[i];
        }
        for (uint i = 0; i < 7; i++) {
            sum += arguments.metadata[i];
        }
        arguments.dst.at[0] = sum;
    }
}
