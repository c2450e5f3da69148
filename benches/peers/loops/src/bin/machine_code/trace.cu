__device__ inline float3 operator+(float3 a, float3 b) { return make_float3(a.x + b.x, a.y + b.y, a.z + b.z); }
__device__ inline float3 operator-(float3 a, float3 b) { return make_float3(a.x - b.x, a.y - b.y, a.z - b.z); }
__device__ inline float3 operator*(float s, float3 a) { return make_float3(s * a.x, s * a.y, s * a.z); }
__device__ inline float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ inline float3 unit(float3 a) { return 1.0f / sqrtf(dot(a, a)) * a; }
struct Hit { float distance; size_t sphere; };
__device__ inline Hit first_hit(const float* spheres, size_t count, float3 from, float3 along) {
  Hit hit = {1e6f, 0};
  for (size_t sphere = 0; sphere < count; sphere++) {
    const float* s = spheres + 4 * sphere;
    float3 to = make_float3(s[0], s[1], s[2]) - from;
    float middle = dot(to, along), inside = middle * middle - dot(to, to) + s[3] * s[3];
    if (inside < 0) continue;
    float distance = middle - sqrtf(inside);
    if (distance > 0.001f && distance < hit.distance) hit = {distance, sphere};
  }
  return hit;
}
extern "C" __global__ void __launch_bounds__(256) trace(size_t width, size_t height, const float* __restrict__ spheres, size_t len, float* light, size_t n) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  size_t row = i / width, column = i % width, count = len / 4;
  float across = ((float)column + 0.5f) / (float)width - 0.5f, up = 0.5f - ((float)row + 0.5f) / (float)height;
  float3 from = make_float3(0, 0, -2), along = unit(make_float3(across, up, 1)), sun = unit(make_float3(0.5f, 0.8f, -0.6f));
  float seen = 0, share = 1;
  for (int mirrors = 0; mirrors < 3; mirrors++) {
    Hit hit = first_hit(spheres, count, from, along);
    if (hit.distance >= 1e6f) { seen += share * (0.4f + 0.3f * along.y); break; }
    const float* s = spheres + 4 * hit.sphere;
    from = from + hit.distance * along;
    float3 normal = unit(from - make_float3(s[0], s[1], s[2]));
    float lit = first_hit(spheres, count, from, sun).distance < 1e6f ? 0.0f : fmaxf(dot(normal, sun), 0.0f);
    seen += share * 0.7f * lit;
    share *= 0.3f;
    along = along - 2.0f * dot(along, normal) * normal;
  }
  light[i] = seen;
}
