__device__ inline float normal(float x) {
  float t = 1.0f / (1.0f + 0.2316419f * fabsf(x));
  float series = t * (0.31938153f + t * (-0.356563782f + t * (1.781477937f + t * (-1.821255978f + t * 1.330274429f))));
  float tail = 0.39894228f * expf(-0.5f * x * x) * series;
  return x > 0 ? 1.0f - tail : tail;
}
extern "C" __global__ void __launch_bounds__(256) black_scholes(float rate, float volatility, const float* __restrict__ prices, const float* __restrict__ strikes, const float* __restrict__ years, float* calls, float* puts, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  float price = prices[i], strike = strikes[i], time = years[i], root = sqrtf(time);
  float d1 = (logf(price / strike) + (rate + 0.5f * volatility * volatility) * time) / (volatility * root);
  float d2 = d1 - volatility * root, discount = expf(-rate * time);
  float n1 = normal(d1), n2 = normal(d2);
  calls[i] = price * n1 - strike * discount * n2;
  puts[i] = strike * discount * (1.0f - n2) - price * (1.0f - n1);
}
