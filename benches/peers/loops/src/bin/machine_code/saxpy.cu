extern "C" __global__ void __launch_bounds__(256) saxpy(float a, const float* __restrict__ x, float* y, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
