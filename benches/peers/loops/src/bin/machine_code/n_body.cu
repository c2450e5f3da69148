extern "C" __global__ void __launch_bounds__(256) n_body(float dt, const float* __restrict__ p, float* v, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = p[i], y = p[n + i], z = p[2 * n + i], fx = 0, fy = 0, fz = 0;
  for (size_t j = 0; j < n; j++) {
    float dx = p[j] - x, dy = p[n + j] - y, dz = p[2 * n + j] - z;
    float s = dx * dx + dy * dy + dz * dz + 0.01f;
    float inv = 1.0f / sqrtf(s);
    float c = inv * inv * inv;
    fx += dx * c; fy += dy * c; fz += dz * c;
  }
  v[i] += dt * fx; v[n + i] += dt * fy; v[2 * n + i] += dt * fz;
}
