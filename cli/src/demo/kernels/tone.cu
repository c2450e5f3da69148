// Draws edges as ink on paper that keeps a little of the light. A cube computes one row.
extern "C" __global__ void tone(const float* light, const float* edges, unsigned char* image, unsigned width) {
    const size_t row = (size_t)blockIdx.x * width;
    for (unsigned x = threadIdx.x; x < width; x += blockDim.x) {
        const float paper = PAPER + (1.0f - PAPER) * light[row + x];
        image[row + x] = (unsigned char)(paper * HALF_INK / (edges[row + x] + HALF_INK) * 255.0f + 0.5f);
    }
}
