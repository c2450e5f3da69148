extern "C" __global__ void __launch_bounds__(128) convolve_columns(size_t height, size_t width, const float* __restrict__ x, const float* __restrict__ w, float* y) {
  __shared__ float tile[14][16];
  unsigned down = threadIdx.y, across = threadIdx.x;
  size_t row = blockIdx.y * (size_t)8 + down, column = blockIdx.x * (size_t)16 + across;
  for (unsigned line = down; line < 14; line += 8) {
    size_t from = row - down + line - 3;
    tile[line][across] = from < height && column < width ? x[from * width + column] : 0;
  }
  __syncthreads();
  if (row < height && column < width) {
    float sum = 0;
    for (int tap = 0; tap < 7; tap++) sum += tile[down + tap][across] * w[tap];
    y[row * width + column] = sum;
  }
}
