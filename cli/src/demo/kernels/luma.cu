// Computes the luma of each pixel, from 0 to 1. A cube computes one row.
extern "C" __global__ void luma(const unsigned char* rgb, float* light, unsigned width) {
    const size_t row = (size_t)blockIdx.x * width;
    for (unsigned x = threadIdx.x; x < width; x += blockDim.x) {
        const unsigned char* pixel = rgb + (row + x) * 3;
        light[row + x] = (LUMA_RED * pixel[0] + LUMA_GREEN * pixel[1] + LUMA_BLUE * pixel[2]) / 255.0f;
    }
}
