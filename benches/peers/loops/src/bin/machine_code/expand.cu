extern "C" __global__ void __launch_bounds__(256) expand(unsigned step, const unsigned* __restrict__ starts, const unsigned* __restrict__ edges, const unsigned* __restrict__ steps, unsigned* marks, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n || steps[i] != step) return;
  for (unsigned edge = starts[i]; edge < starts[i + 1]; edge++) marks[edges[edge]] = 1;
}
