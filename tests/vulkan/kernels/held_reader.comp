#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 256) in;
layout(buffer_reference, scalar) buffer Words { uint at[]; };

// A gate: whether it is open, and the number of arrivals.
layout(buffer_reference, scalar) volatile coherent buffer Gate { uint is_open; uint arrivals; };

void pass(Gate gate) {
    atomicAdd(gate.arrivals, 1);
    while (atomicAdd(gate.is_open, 0) == 0) {
    }
}

layout(push_constant, scalar) uniform Block { Words src; Words dst; Gate gate; };

void main() {
    if (gl_LocalInvocationIndex == 0) {
        pass(gate);
        dst.at[0] = src.at[0];
    }
}
