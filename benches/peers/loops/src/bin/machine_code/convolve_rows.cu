extern "C" __global__ void __launch_bounds__(256) convolve_rows(size_t width, const float* __restrict__ x, const float* __restrict__ w, size_t taps, float* y, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  size_t row = i / width, column = i % width, radius = taps / 2;
  float sum = 0;
  for (size_t tap = 0; tap < taps; tap++) {
    size_t at = column + tap - radius;
    if (at < width) sum += x[row * width + at] * w[tap];
  }
  y[i] = sum;
}
