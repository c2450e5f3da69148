extern "C" __global__ void __launch_bounds__(256) gelu(const float* __restrict__ x, float* y, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * (erff(x[i] * sqrtf(0.5f)) + 1.0f) / 2.0f;
}
