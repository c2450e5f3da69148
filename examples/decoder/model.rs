//! A small transformer that decodes greedily, with a growing cache of keys and values.
//!
//! The number of tokens so far is a symbol: the schedule is compiled once, and every token is one message with another
//! length. The next token stays on the device, as the input of the next run.

use millstream::graph::{
    CompiledSchedule, Graph, GraphCache, LazyBuffer, Schedule, ScheduleError, Size, Symbol,
};
use millstream::{ComputeClient, DType, Handle, Stream};

/// The size of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The size of the vocabulary.
    pub(crate) tokens: usize,
    /// The number of features of a token.
    pub(crate) width: usize,
    /// The number of attention heads.
    pub(crate) heads: usize,
    /// The number of blocks.
    pub(crate) blocks: usize,
    /// The most tokens of a sequence, including the prompt.
    pub(crate) room: usize,
}

/// Pseudo-random weights: the same on every device and in the reference.
pub(crate) struct Weights {
    /// `tokens x width`: the embedding of each token, also used for the output scores.
    pub(crate) tokens: Vec<f32>,
    /// `room x width`: the embedding of each position.
    pub(crate) positions: Vec<f32>,
    /// The weights of each block.
    pub(crate) blocks: Vec<BlockWeights>,
}

/// The weights of a block.
pub(crate) struct BlockWeights {
    /// `width x 3 width`: queries, keys and values.
    pub(crate) qkv: Vec<f32>,
    /// `width x width`: the output projection of attention.
    pub(crate) project: Vec<f32>,
    /// `width x 4 width`: the first layer of the feed-forward network.
    pub(crate) up: Vec<f32>,
    /// `4 width x width`: the second layer of the feed-forward network.
    pub(crate) down: Vec<f32>,
}

impl Weights {
    /// Generates the weights from a seed.
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
            positions: random(sizes.room * width, 2.0),
            blocks: (0..sizes.blocks)
                .map(|_| BlockWeights {
                    // Large enough that a token attends to few others, and that attention changes it noticeably.
                    qkv: random(width * 3 * width, scale * 2.0),
                    project: random(width * width, scale * 2.0),
                    up: random(width * 4 * width, scale),
                    down: random(4 * width * width, scale * 2.5),
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
    position: Symbol,
    cache: GraphCache,
}

/// The result of decoding.
pub(crate) struct Decoded {
    /// The prompt and the decoded tokens.
    pub(crate) tokens: Vec<i64>,
    /// The attention of each token in the last block: a row for each token, with a weight for each head and position.
    pub(crate) looks: Vec<Vec<f32>>,
}

impl Decoder {
    /// Builds the model and compiles it for the device of the client.
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
        let position = graph.length("position", sizes.room as u64 - 1);
        let length = Size::from(&position).plus(&Size::ONE);
        let length = length.unwrap_or_default();
        let table = put(&weights.tokens, [sizes.tokens, width])?;
        let positions = put(&weights.positions, [sizes.room, width])?;

        let mut x = table.take(0, &token) + positions.narrow(0, &position, 1);
        let mut roots = Vec::new();
        let mut attention = None;
        for block in &weights.blocks {
            let norm = x.normalize(-1, 1e-5);
            let qkv = norm.matmul(&put(&block.qkv, [width, 3 * width])?);
            let part = |index: usize| qkv.narrow(1, index * width, width);
            let empty = vec![0.0; sizes.room * width];
            let keys = put(&empty, [sizes.room, width])?.set_rows(0, &position, &part(1));
            let values = put(&empty, [sizes.room, width])?.set_rows(0, &position, &part(2));
            let by_head = |x: &LazyBuffer| x.split_axis(1, [heads, each]).permute([1, 0, 2]);
            let so_far = |x: &LazyBuffer| by_head(&x.narrow(0, 0, &length));
            let scores = by_head(&part(0)).matmul_t(&so_far(&keys));
            let probabilities = (scores * (1.0 / (each as f64).sqrt())).softmax(-1);
            let attended = probabilities
                .matmul(&so_far(&values))
                .permute([1, 0, 2])
                .reshape([1, width]);
            x = x + attended.matmul(&put(&block.project, [width, width])?);
            let hidden = x
                .normalize(-1, 1e-5)
                .matmul(&put(&block.up, [width, 4 * width])?);
            x = x + hidden
                .gelu_tanh()
                .matmul(&put(&block.down, [4 * width, width])?);
            roots.extend([keys, values]);
            attention = Some(probabilities);
        }
        let scores = x.normalize(-1, 1e-5).matmul_t(&table);
        let next = scores.argmax(-1).reshape([1]);
        let mut all = vec![&next];
        all.extend(&attention);
        all.extend(&roots);
        let cache = GraphCache::default();
        let schedule = Schedule::create(&all)?;
        let next = schedule.compile_with_cache(client, &cache)?;
        Ok(Self {
            sizes,
            schedule,
            next,
            token,
            position,
            cache,
        })
    }

    /// Returns the schedule of a token.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns the compiled schedule of a token.
    pub(crate) fn next(&self) -> &CompiledSchedule {
        &self.next
    }

    /// Returns the number of kernels compiled so far.
    pub(crate) fn kernels_compiled(&self) -> u64 {
        self.cache.stats().kernels_compiled
    }

    /// Decodes from a prompt until there are `tokens` tokens. Calls `on_token` after each.
    pub(crate) fn decode(
        &self,
        stream: &Stream,
        prompt: &[i64],
        tokens: usize,
        mut on_token: impl FnMut(),
    ) -> Result<Decoded, ScheduleError> {
        let tokens = tokens.min(self.sizes.room);
        let mut token: Handle<i64> = stream.create(&prompt[..1])?;
        let mut decoded = Decoded {
            tokens: prompt.to_vec(),
            looks: Vec::new(),
        };
        let mut outputs_kept = Vec::new();
        let mut looks = Vec::new();
        for position in 0..tokens.saturating_sub(1) {
            let run = self.next.run().length(&self.position, position as u64);
            let outputs = run.input(&self.token, &token).submit(stream)?;
            looks.push(outputs[1].clone());
            token = match prompt.get(position + 1) {
                Some(given) => stream.create(&[*given])?,
                None => {
                    let next = outputs[0].handle::<i64>()?;
                    outputs_kept.push(next.clone());
                    next
                }
            };
        }
        for next in &outputs_kept {
            decoded.tokens.extend(stream.read(next).wait()?);
        }
        for look in &looks {
            decoded.looks.push(look.read::<f32>(stream)?.wait()?);
            on_token();
        }
        Ok(decoded)
    }
}

/// The reference: decodes in `f64`, and recomputes everything for each token.
pub(crate) fn decode_plainly(
    sizes: Sizes,
    weights: &Weights,
    prompt: &[i64],
    tokens: usize,
) -> Vec<i64> {
    let mut all = prompt.to_vec();
    while all.len() < tokens.min(sizes.room) {
        let scores = reference_scores(sizes, weights, &all);
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

/// Multiplies a row by a matrix with `columns` columns.
fn times(row: &[f64], matrix: &[f32], columns: usize) -> Row {
    let column = |column: usize| {
        let products = row.iter().enumerate();
        products
            .map(|(k, x)| x * f64::from(matrix[k * columns + column]))
            .sum()
    };
    (0..columns).map(column).collect()
}

fn normalize(row: &[f64]) -> Row {
    let count = row.len() as f64;
    let mean = row.iter().sum::<f64>() / count;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    row.iter()
        .map(|x| (x - mean) / (variance + 1e-5).sqrt())
        .collect()
}

fn add(a: &[f64], b: &[f64]) -> Row {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Computes the score of every token as the next one.
fn reference_scores(sizes: Sizes, weights: &Weights, tokens: &[i64]) -> Row {
    let (width, each) = (sizes.width, sizes.width / sizes.heads);
    let row = |table: &[f32], index: usize| -> Row {
        table[index * width..][..width]
            .iter()
            .map(|x| f64::from(*x))
            .collect()
    };
    let embed = |(position, token): (usize, &i64)| {
        add(
            &row(&weights.tokens, *token as usize),
            &row(&weights.positions, position),
        )
    };
    let mut rows: Vec<Row> = tokens.iter().enumerate().map(embed).collect();
    for block in &weights.blocks {
        let qkv: Vec<Row> = rows
            .iter()
            .map(|x| times(&normalize(x), &block.qkv, 3 * width))
            .collect();
        let attend = |position: usize| -> Row {
            let mut attended = vec![0.0; width];
            for head in 0..sizes.heads {
                let part =
                    |of: &Row, part: usize| of[part * width + head * each..][..each].to_vec();
                let query = part(&qkv[position], 0);
                let dot = |other: usize| -> f64 {
                    let key = part(&qkv[other], 1);
                    query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() / (each as f64).sqrt()
                };
                let powers: Vec<f64> = (0..=position).map(|other| dot(other).exp()).collect();
                let sum: f64 = powers.iter().sum();
                for (other, power) in powers.iter().enumerate() {
                    for (index, value) in part(&qkv[other], 2).iter().enumerate() {
                        attended[head * each + index] += power / sum * value;
                    }
                }
            }
            attended
        };
        let attended: Vec<Row> = (0..rows.len()).map(attend).collect();
        for (x, attended) in rows.iter_mut().zip(&attended) {
            *x = add(x, &times(attended, &block.project, width));
            let gelu = |x: f64| {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                x / (1.0 + (-2.0 * u).exp())
            };
            let hidden = times(&normalize(x), &block.up, 4 * width);
            let hidden: Row = hidden.into_iter().map(gelu).collect();
            *x = add(x, &times(&hidden, &block.down, width));
        }
    }
    let last = rows.last().map(|row| normalize(row)).unwrap_or_default();
    let score = |token: usize| {
        let features = row(&weights.tokens, token);
        features.iter().zip(&last).map(|(a, b)| a * b).sum()
    };
    (0..sizes.tokens).map(score).collect()
}
