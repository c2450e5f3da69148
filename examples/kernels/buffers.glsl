// Buffers of floats and of words, which a kernel receives as addresses.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
layout(buffer_reference, scalar) buffer Floats { float at[]; };
layout(buffer_reference, scalar) buffer Words { uint at[]; };
