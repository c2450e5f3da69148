// Blurs along the columns; the edges repeat the outermost row. A cube computes one row.
extern "C" __global__ void blur_y(const float* src, const float* taps, float* dst, unsigned width) {
    const int y = blockIdx.x, last = gridDim.x - 1;
    for (unsigned x = threadIdx.x; x < width; x += blockDim.x) {
        float sum = 0.0f;
        for (int k = 0; k <= 2 * RADIUS; ++k) {
            sum += taps[k] * src[(size_t)min(max(y + k - RADIUS, 0), last) * width + x];
        }
        dst[(size_t)y * width + x] = sum;
    }
}
