// Draws the field as a lit relief. A cube computes one row. Every operation is rounded separately, as in step.cu.
__device__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ float sub(float a, float b) { return __fsub_rn(a, b); }
__device__ float clamp(float a) { return fminf(fmaxf(a, 0.0f), 1.0f); }

// From deep blue over teal and gold to ivory.
__constant__ float PALETTE[5][3] = {
    {0.03f, 0.05f, 0.13f}, {0.05f, 0.26f, 0.40f}, {0.11f, 0.56f, 0.55f}, {0.93f, 0.70f, 0.33f}, {1.00f, 0.95f, 0.84f},
};

// The light comes from the upper left.
__device__ unsigned colour(float height, float slope_x, float slope_y) {
    const float place = mul(clamp(mul(height, 2.6f)), 4.0f);
    const int below = min((int)place, 3);
    const float part = (int)place > below ? 1.0f : sub(place, truncf(place));
    const float slope = add(slope_x, slope_y);
    const float steep = add(mul(slope_x, slope_x), mul(slope_y, slope_y));
    const float steepness = __fsqrt_rn(add(1.0f, mul(64.0f, steep)));
    const float light = add(0.62f, __fdiv_rn(mul(0.38f, sub(1.0f, mul(5.0f, slope))), steepness));
    const float gleam = mul(fmaxf(sub(__fdiv_rn(sub(1.0f, mul(4.0f, slope)), steepness), 1.0f), 0.0f), 0.6f);
    unsigned pixel = 0xff000000;
    for (int channel = 0; channel < 3; ++channel) {
        const float plain = add(mul(PALETTE[below][channel], sub(1.0f, part)), mul(PALETTE[below + 1][channel], part));
        pixel |= (unsigned)mul(clamp(add(mul(plain, light), gleam)), 255.0f) << (8 * channel);
    }
    return pixel;
}

extern "C" __global__ void shade(const float* field, unsigned* pixels) {
    const unsigned size = gridDim.x, y = blockIdx.x;
    const float *up = field + (y + size - 1) % size * size, *here = field + y * size;
    const float* down = field + (y + 1) % size * size;
    for (unsigned x = threadIdx.x; x < size; x += blockDim.x) {
        const float slope_x = sub(here[(x + 1) % size], here[(x + size - 1) % size]);
        pixels[y * size + x] = colour(here[x], slope_x, sub(down[x], up[x]));
    }
}
