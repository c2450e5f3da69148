extern "C" __global__ void __launch_bounds__(256) mandelbrot(unsigned width, unsigned height, unsigned most, unsigned* steps, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned column = i % width, row = i / width;
  float x = (float)column / width * 3.0f - 2.0f, y = (float)row / height * 2.0f - 1.0f, a = 0, b = 0;
  unsigned step = 0;
  for (; step < most; step++) {
    float next = a * a - b * b + x;
    b = 2 * a * b + y;
    a = next;
    if (a * a + b * b > 4) break;
  }
  steps[i] = step;
}
