//! A small transformer that decodes greedily, one token after the other, with a cache of keys and values that grows.
//!
//! The length of what was read so far is a symbol: the schedule is compiled once, and every token is one message with another
//! length. The next token stays on the device and is the input of the next run.

use millstream::graph::{
    CompiledSchedule, Graph, GraphCache, LazyBuffer, Schedule, ScheduleError, Size, Symbol,
};
use millstream::{ComputeClient, DType, Handle, Stream};

/// How large it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Different tokens.
    pub(crate) tokens: usize,
    /// Width of the stream of features.
    pub(crate) width: usize,
    /// Heads of attention.
    pub(crate) heads: usize,
    /// Blocks.
    pub(crate) blocks: usize,
    /// Most tokens that are read and written.
    pub(crate) room: usize,
}

/// Weights, made of a seed: the same on every device, and for whoever computes the same plainly.
pub(crate) struct Weights {
    /// `tokens x width`: features of each token, and what the last features are compared with.
    pub(crate) tokens: Vec<f32>,
    /// `room x width`: features of each place.
    pub(crate) places: Vec<f32>,
    /// Of each block.
    pub(crate) blocks: Vec<BlockWeights>,
}

/// Weights of a block.
pub(crate) struct BlockWeights {
    /// `width x 3 width`: queries, keys and values.
    pub(crate) look: Vec<f32>,
    /// `width x width`.
    pub(crate) merge: Vec<f32>,
    /// `width x 4 width`.
    pub(crate) widen: Vec<f32>,
    /// `4 width x width`.
    pub(crate) narrow: Vec<f32>,
}

impl Weights {
    /// Weights of a seed.
    pub(crate) fn new(sizes: Sizes, seed: u64) -> Self {
        let mut state = seed.max(1);
        let mut random = move |count: usize, scale: f32| -> Vec<f32> {
            let number = |_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                ((state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5) * 2.0 * scale
            };
            (0..count).map(number).collect()
        };
        let width = sizes.width;
        let scale = (3.0 / width as f32).sqrt();
        Self {
            tokens: random(sizes.tokens * width, 1.0),
            places: random(sizes.room * width, 2.0),
            blocks: (0..sizes.blocks)
                .map(|_| BlockWeights {
                    // So large that tokens look at few others, and what they hear changes them.
                    look: random(width * 3 * width, scale * 2.0),
                    merge: random(width * width, scale * 2.0),
                    widen: random(width * 4 * width, scale),
                    narrow: random(4 * width * width, scale * 2.5),
                })
                .collect(),
        }
    }
}

/// The model on a device.
pub(crate) struct Decoder {
    sizes: Sizes,
    schedule: Schedule,
    next: CompiledSchedule,
    token: LazyBuffer,
    place: Symbol,
    cache: GraphCache,
}

/// What was decoded.
pub(crate) struct Decoded {
    /// The prompt and what follows it.
    pub(crate) tokens: Vec<i64>,
    /// How much each token looked at those before it in the last block: a row for each, one weight a head and place.
    pub(crate) looks: Vec<Vec<f32>>,
}

impl Decoder {
    /// The model, compiled for the device of a client.
    pub(crate) fn new(
        client: &ComputeClient,
        stream: &Stream,
        sizes: Sizes,
        weights: &Weights,
    ) -> Result<Self, ScheduleError> {
        let graph = Graph::new();
        let put = |data: &[f32], shape: [usize; 2]| -> Result<LazyBuffer, ScheduleError> {
            Ok(graph.buffer(&stream.create(data)?, shape))
        };
        let (width, heads) = (sizes.width, sizes.heads);
        let each = width / heads;
        let token = graph.input("token", DType::I64, [1]);
        let place = graph.length("place", sizes.room as u64 - 1);
        let known = Size::from(&place).plus(&Size::ONE);
        let known = known.unwrap_or_default();
        let table = put(&weights.tokens, [sizes.tokens, width])?;
        let places = put(&weights.places, [sizes.room, width])?;

        let mut x = table.take(0, &token) + places.narrow(0, &place, 1);
        let mut roots = Vec::new();
        let mut looks = None;
        for block in &weights.blocks {
            let norm = x.normalize(-1, 1e-5);
            let seen = norm.matmul(&put(&block.look, [width, 3 * width])?);
            let part = |index: usize| seen.narrow(1, index * width, width);
            let empty = vec![0.0; sizes.room * width];
            let keys = put(&empty, [sizes.room, width])?.set_rows(0, &place, &part(1));
            let values = put(&empty, [sizes.room, width])?.set_rows(0, &place, &part(2));
            let by_head = |x: &LazyBuffer| x.split_axis(1, [heads, each]).permute([1, 0, 2]);
            let so_far = |x: &LazyBuffer| by_head(&x.narrow(0, 0, &known));
            let scores = by_head(&part(0)).matmul_t(&so_far(&keys));
            let look = (scores * (1.0 / (each as f64).sqrt())).softmax(-1);
            let heard = look
                .matmul(&so_far(&values))
                .permute([1, 0, 2])
                .reshape([1, width]);
            x = x + heard.matmul(&put(&block.merge, [width, width])?);
            let wide = x
                .normalize(-1, 1e-5)
                .matmul(&put(&block.widen, [width, 4 * width])?);
            x = x + wide
                .gelu_tanh()
                .matmul(&put(&block.narrow, [4 * width, width])?);
            roots.extend([keys, values]);
            looks = Some(look);
        }
        let scores = x.normalize(-1, 1e-5).matmul_t(&table);
        let next = scores.argmax(-1).reshape([1]);
        let mut all = vec![&next];
        all.extend(&looks);
        all.extend(&roots);
        let cache = GraphCache::default();
        let schedule = Schedule::create(&all)?;
        let next = schedule.compile_with_cache(client, &cache)?;
        Ok(Self {
            sizes,
            schedule,
            next,
            token,
            place,
            cache,
        })
    }

    /// What the next token is made of.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The next token, compiled.
    pub(crate) fn next(&self) -> &CompiledSchedule {
        &self.next
    }

    /// Kernels that were compiled so far.
    pub(crate) fn kernels_compiled(&self) -> u64 {
        self.cache.stats().kernels_compiled
    }

    /// Reads the prompt and then what it makes of it, until there are so many tokens. `after` each of them is called.
    pub(crate) fn decode(
        &self,
        stream: &Stream,
        prompt: &[i64],
        tokens: usize,
        mut after: impl FnMut(),
    ) -> Result<Decoded, ScheduleError> {
        let tokens = tokens.min(self.sizes.room);
        let mut token: Handle<i64> = stream.create(&prompt[..1])?;
        let mut decoded = Decoded {
            tokens: prompt.to_vec(),
            looks: Vec::new(),
        };
        let mut made = Vec::new();
        let mut looks = Vec::new();
        for place in 0..tokens.saturating_sub(1) {
            let run = self.next.run().length(&self.place, place as u64);
            let outputs = run.input(&self.token, &token).submit(stream)?;
            looks.push(outputs[1].clone());
            token = match prompt.get(place + 1) {
                Some(given) => stream.create(&[*given])?,
                None => {
                    let next = outputs[0].handle::<i64>()?;
                    made.push(next.clone());
                    next
                }
            };
        }
        for next in &made {
            decoded.tokens.extend(stream.read(next).wait()?);
        }
        for look in &looks {
            decoded.looks.push(look.read::<f32>(stream)?.wait()?);
            after();
        }
        Ok(decoded)
    }
}

/// The same said plainly, in `f64`, with everything computed anew for each token: to compare with.
pub(crate) fn decode_plainly(
    sizes: Sizes,
    weights: &Weights,
    prompt: &[i64],
    tokens: usize,
) -> Vec<i64> {
    let mut all = prompt.to_vec();
    while all.len() < tokens.min(sizes.room) {
        let scores = scores_plainly(sizes, weights, &all);
        let best = (0..scores.len()).fold(0, |best, index| {
            if scores[index] > scores[best] {
                index
            } else {
                best
            }
        });
        all.push(best as i64);
    }
    all
}

type Row = Vec<f64>;

/// A row times a matrix with so many columns.
fn times(row: &[f64], matrix: &[f32], columns: usize) -> Row {
    let column = |column: usize| {
        let products = row.iter().enumerate();
        products
            .map(|(k, x)| x * f64::from(matrix[k * columns + column]))
            .sum()
    };
    (0..columns).map(column).collect()
}

fn normal(row: &[f64]) -> Row {
    let count = row.len() as f64;
    let mean = row.iter().sum::<f64>() / count;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    row.iter()
        .map(|x| (x - mean) / (variance + 1e-5).sqrt())
        .collect()
}

fn plus(a: &[f64], b: &[f64]) -> Row {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// The scores of every token as the next one.
fn scores_plainly(sizes: Sizes, weights: &Weights, tokens: &[i64]) -> Row {
    let (width, each) = (sizes.width, sizes.width / sizes.heads);
    let row = |table: &[f32], index: usize| -> Row {
        table[index * width..][..width]
            .iter()
            .map(|x| f64::from(*x))
            .collect()
    };
    let place = |(place, token): (usize, &i64)| {
        plus(
            &row(&weights.tokens, *token as usize),
            &row(&weights.places, place),
        )
    };
    let mut rows: Vec<Row> = tokens.iter().enumerate().map(place).collect();
    for block in &weights.blocks {
        let seen: Vec<Row> = rows
            .iter()
            .map(|x| times(&normal(x), &block.look, 3 * width))
            .collect();
        let heard = |place: usize| -> Row {
            let mut heard = vec![0.0; width];
            for head in 0..sizes.heads {
                let part =
                    |of: &Row, part: usize| of[part * width + head * each..][..each].to_vec();
                let query = part(&seen[place], 0);
                let dot = |other: usize| -> f64 {
                    let key = part(&seen[other], 1);
                    query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() / (each as f64).sqrt()
                };
                let powers: Vec<f64> = (0..=place).map(|other| dot(other).exp()).collect();
                let sum: f64 = powers.iter().sum();
                for (other, power) in powers.iter().enumerate() {
                    for (index, value) in part(&seen[other], 2).iter().enumerate() {
                        heard[head * each + index] += power / sum * value;
                    }
                }
            }
            heard
        };
        let heard: Vec<Row> = (0..rows.len()).map(heard).collect();
        for (x, heard) in rows.iter_mut().zip(&heard) {
            *x = plus(x, &times(heard, &block.merge, width));
            let gelu = |x: f64| {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                x / (1.0 + (-2.0 * u).exp())
            };
            let wide = times(&normal(x), &block.widen, 4 * width);
            let wide: Row = wide.into_iter().map(gelu).collect();
            *x = plus(x, &times(&wide, &block.narrow, width));
        }
    }
    let last = rows.last().map(|row| normal(row)).unwrap_or_default();
    let score = |token: usize| {
        let features = row(&weights.tokens, token);
        features.iter().zip(&last).map(|(a, b)| a * b).sum()
    };
    (0..sizes.tokens).map(score).collect()
}
