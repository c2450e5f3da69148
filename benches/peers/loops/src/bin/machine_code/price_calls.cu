__device__ inline uint4 philox(uint4 w, uint2 key) {
  for (int round = 0; round < 10; round++) {
    unsigned high = __umulhi(0xD2511F53u, w.x), low = 0xD2511F53u * w.x, other_high = __umulhi(0xCD9E8D57u, w.z), other_low = 0xCD9E8D57u * w.z;
    w = make_uint4(other_high ^ w.y ^ key.x, other_low, high ^ w.w ^ key.y, low);
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return w;
}
__device__ inline float2 normals(unsigned a, unsigned b) {
  const float part = 1.0f / 4294967296.0f;
  float radius = sqrtf(-2.0f * logf(((float)a + 0.5f) * part)), angle = 6.2831853f * ((float)b * part);
  return make_float2(radius * cosf(angle), radius * sinf(angle));
}
__device__ inline float payoff(float price, float strike, float drift, float spread, float normal) {
  return fmaxf(price * expf(drift + spread * normal) - strike, 0.0f);
}
extern "C" __global__ void __launch_bounds__(64) price_calls(float rate, float volatility, size_t draws, unsigned seed, const float* __restrict__ prices, const float* __restrict__ strikes, const float* __restrict__ years, float* calls) {
  __shared__ float sums[2];
  unsigned option = blockIdx.x;
  float price = prices[option], strike = strikes[option], time = years[option];
  float drift = (rate - 0.5f * volatility * volatility) * time, spread = volatility * sqrtf(time), sum = 0;
  for (size_t draw = threadIdx.x; draw < draws; draw += 64) {
    uint4 w = philox(make_uint4((unsigned)draw, option, 0, 0), make_uint2(seed, 0));
    float2 a = normals(w.x, w.y), b = normals(w.z, w.w);
    sum += payoff(price, strike, drift, spread, a.x) + payoff(price, strike, drift, spread, a.y) + payoff(price, strike, drift, spread, b.x) + payoff(price, strike, drift, spread, b.y);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) calls[option] = expf(-rate * time) * (sums[0] + sums[1]) / (float)(4 * draws);
}
