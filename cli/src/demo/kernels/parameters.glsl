// The parameters of the filter (`pipeline.rs`).
#define LUMA_RED 0.2126f
#define LUMA_GREEN 0.7152f
#define LUMA_BLUE 0.0722f
#define RADIUS 5
#define PAPER 0.8f
#define HALF_INK 0.08f
#define LEVELS 256
#define PIXELS_PER_COUNT 32768
