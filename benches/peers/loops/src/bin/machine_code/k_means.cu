extern "C" __global__ void __launch_bounds__(256) k_means(size_t features, const float* __restrict__ points, const float* __restrict__ centres, size_t len, unsigned* members, unsigned* changed, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned nearest = 0; float least = __int_as_float(0x7f800000);
  for (size_t centre = 0; centre < len / features; centre++) {
    float sum = 0;
    for (size_t k = 0; k < features; k++) {
      float part = points[i * features + k] - centres[centre * features + k];
      sum += part * part;
    }
    if (sum < least) { nearest = centre; least = sum; }
  }
  if (members[i] != nearest) { members[i] = nearest; atomicAdd(changed, 1u); }
}
