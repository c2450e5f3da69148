// Computes the Sobel gradient. A cube computes one row.
extern "C" __global__ void sobel(const float* src, float* edges, unsigned width) {
    const int y = blockIdx.x;
    const float* above = src + (size_t)max(y - 1, 0) * width;
    const float* middle = src + (size_t)y * width;
    const float* below = src + (size_t)min(y + 1, (int)gridDim.x - 1) * width;
    for (int x = threadIdx.x; x < (int)width; x += blockDim.x) {
        const int left = max(x - 1, 0), right = min(x + 1, (int)width - 1);
        const float across = (above[right] - above[left]) + 2.0f * (middle[right] - middle[left])
                           + (below[right] - below[left]);
        const float down = (below[left] - above[left]) + 2.0f * (below[x] - above[x])
                         + (below[right] - above[right]);
        edges[(size_t)y * width + x] = sqrtf(across * across + down * down) / 4.0f;
    }
}
