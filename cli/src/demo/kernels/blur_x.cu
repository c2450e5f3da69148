// Blurs along the rows; the edges repeat the outermost pixel. A cube computes one row.
extern "C" __global__ void blur_x(const float* src, const float* taps, float* dst, unsigned width) {
    const float* row = src + (size_t)blockIdx.x * width;
    for (int x = threadIdx.x; x < (int)width; x += blockDim.x) {
        float sum = 0.0f;
        for (int k = 0; k <= 2 * RADIUS; ++k) {
            sum += taps[k] * row[min(max(x + k - RADIUS, 0), (int)width - 1)];
        }
        dst[(size_t)blockIdx.x * width + x] = sum;
    }
}
