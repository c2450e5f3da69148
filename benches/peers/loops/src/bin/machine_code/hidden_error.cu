extern "C" __global__ void __launch_bounds__(256) hidden_error(const float* __restrict__ hidden, const float* __restrict__ weights, const float* __restrict__ behind, size_t count, float* deltas, size_t n) {
  size_t unit = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (unit >= n) return;
  float sum = 0;
  for (size_t other = 0; other < count; other++) sum += behind[other] * weights[(unit + 1) * count + other];
  deltas[unit] = hidden[unit] * (1.0f - hidden[unit]) * sum;
}
