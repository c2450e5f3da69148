#version 460
#extension GL_GOOGLE_include_directive : require
// More arguments than push constants have room for: the push constants are the address of the block. Its buffers are
// always addresses.
#include "arguments.glsl"
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
