// Counts the pixels of each level. A cube counts a chunk of pixels in shared memory before it adds to `bins`.
extern "C" __global__ void histogram(const unsigned char* image, unsigned* bins, unsigned pixels) {
    __shared__ unsigned counted[LEVELS];
    for (unsigned bin = threadIdx.x; bin < LEVELS; bin += blockDim.x) {
        counted[bin] = 0;
    }
    __syncthreads();
    const size_t start = (size_t)blockIdx.x * PIXELS_PER_COUNT;
    const size_t end = min(start + PIXELS_PER_COUNT, (size_t)pixels);
    for (size_t at = start + threadIdx.x; at < end; at += blockDim.x) {
        atomicAdd(&counted[image[at]], 1u);
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < LEVELS; bin += blockDim.x) {
        if (counted[bin] > 0) {
            atomicAdd(&bins[bin], counted[bin]);
        }
    }
}
