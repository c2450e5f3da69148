extern "C" __global__ void __launch_bounds__(256) bitonic(size_t run, size_t distance, unsigned* keys, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  size_t low = 2 * i - (i & (distance - 1)), high = low + distance;
  unsigned a = keys[low], b = keys[high];
  if ((a > b) == ((low & run) == 0)) {
    keys[low] = b;
    keys[high] = a;
  }
}
