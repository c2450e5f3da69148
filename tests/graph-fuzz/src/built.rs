//! A case as lazy buffers.

use std::ops::{Add, Div, Mul, Rem, Shl, Shr, Sub};

use millstream::graph::{Graph, Layout, LazyBuffer, Literal, Over, Scalar, Shape, Size, Symbol};
use millstream::ir::UnaryOp;

use crate::case::{Case, CaseError, Dim, Node, Number, dtype};

/// A case as lazy buffers.
pub(crate) struct Built {
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) scalars: Vec<Scalar>,
    pub(crate) inputs: Vec<LazyBuffer>,
    pub(crate) roots: Vec<LazyBuffer>,
    /// The nodes, kept until there are schedules.
    pub(crate) nodes: Vec<LazyBuffer>,
}

impl Built {
    pub(crate) fn of(case: &Case) -> Result<Self, CaseError> {
        let graph = Graph::new();
        let symbols = case.symbols.iter().enumerate();
        let symbols: Vec<Symbol> = symbols
            .map(|(index, symbol)| graph.length(format!("n{index}"), symbol.max))
            .collect();
        let mut made = GraphBuilder {
            graph,
            symbols,
            inputs: Vec::new(),
            scalars: Vec::new(),
            nodes: Vec::new(),
        };
        for (index, scalar) in case.scalars.iter().enumerate() {
            let value = literal(&scalar.value)?;
            let name = format!("s{index}");
            let made_scalar = made.graph.scalar(name, dtype(&scalar.dtype)?, value);
            made.scalars.push(made_scalar);
        }
        for (index, input) in case.inputs.iter().enumerate() {
            let shape = made.shape(&input.shape)?;
            let lazy = made
                .graph
                .input(format!("x{index}"), dtype(&input.dtype)?, shape);
            made.inputs.push(lazy);
        }
        for node in &case.nodes {
            let lazy = made.node(node)?;
            made.nodes.push(lazy);
        }
        let roots = case.roots.iter().map(|root| made.at(*root).cloned());
        let roots = roots.collect::<Result<Vec<_>, _>>()?;
        let scalars = made.scalars.into_iter().map(|(scalar, _)| scalar).collect();
        Ok(Self {
            symbols: made.symbols,
            scalars,
            inputs: made.inputs,
            roots,
            nodes: made.nodes,
        })
    }
}

/// Returns, for each node, the inputs that it depends on, as bits. A node that overwrites a whole buffer depends only
/// on the values. A run overwrites only a part of a buffer with a symbolic length.
pub(crate) fn dependencies(case: &Case) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    for node in &case.nodes {
        let own = match (node.op.as_str(), node.index) {
            ("input", Some(index)) => 1 << (index % 64),
            _ => 0,
        };
        let base = node.of.first().copied();
        let is_whole = base.is_none_or(|base| !is_symbolic(case, base));
        let needed = if node.op == "set" && is_whole {
            &node.of[1..]
        } else {
            &node.of[..]
        };
        let needed = needed.iter().filter_map(|operand| all.get(*operand));
        let dependencies = needed.fold(own, |all, bits| all | bits);
        all.push(dependencies);
    }
    all
}

/// Returns `true` if a node is a version of an input with a symbolic length.
fn is_symbolic(case: &Case, mut node: usize) -> bool {
    loop {
        let known = &case.nodes[node];
        match (known.op.as_str(), known.index, known.of.first()) {
            ("input", Some(index), _) => {
                let lengths = &case.inputs[index].shape;
                return lengths.iter().any(|dim| matches!(dim, Dim::Terms(_)));
            }
            ("set" | "set_rows" | "set_layout", _, Some(base)) => node = *base,
            _ => return false,
        }
    }
}

pub(crate) fn literal(number: &Number) -> Result<Literal, CaseError> {
    Ok(match number {
        Number::Bool(value) => Literal::Bool(*value),
        Number::Int(value) => Literal::Int((*value).into()),
        Number::Float(value) => Literal::Float(*value),
        Number::Word(word) => Literal::Float(match word.as_str() {
            "inf" => f64::INFINITY,
            "-inf" => f64::NEG_INFINITY,
            "nan" => f64::NAN,
            other => return Err(CaseError(format!("unknown number `{other}`"))),
        }),
    })
}

struct GraphBuilder {
    graph: Graph,
    symbols: Vec<Symbol>,
    inputs: Vec<LazyBuffer>,
    scalars: Vec<(Scalar, LazyBuffer)>,
    nodes: Vec<LazyBuffer>,
}

impl GraphBuilder {
    fn size(&self, dim: &Dim) -> Result<Size, CaseError> {
        let terms = match dim {
            Dim::Fixed(value) => return Ok(Size::fixed(*value)),
            Dim::Terms(terms) => terms,
        };
        let large = || CaseError(format!("{dim:?} is too large"));
        let mut sum = Size::ZERO;
        for (coefficient, symbols) in terms {
            let mut term = Size::fixed(*coefficient);
            for index in symbols {
                let symbol = self.symbols.get(*index);
                let symbol = symbol.ok_or_else(|| CaseError::missing("symbol", *index))?;
                term = term.times(&Size::from(symbol)).ok_or_else(large)?;
            }
            sum = sum.plus(&term).ok_or_else(large)?;
        }
        Ok(sum)
    }

    fn sizes(&self, dims: &[Dim]) -> Result<Vec<Size>, CaseError> {
        dims.iter().map(|dim| self.size(dim)).collect()
    }

    fn shape(&self, dims: &[Dim]) -> Result<Shape, CaseError> {
        self.sizes(dims).map(Shape::new)
    }

    fn at(&self, index: usize) -> Result<&LazyBuffer, CaseError> {
        let node = self.nodes.get(index);
        node.ok_or_else(|| CaseError::missing("node", index))
    }

    fn node(&self, node: &Node) -> Result<LazyBuffer, CaseError> {
        let what = Attributes {
            node,
            place: self.nodes.len(),
        };
        if let Some(leaf) = self.leaf(node, &what)? {
            return Ok(leaf);
        }
        let of = |index: usize| {
            let operand = node.of.get(index);
            self.at(*operand.ok_or_else(|| what.missing("of"))?)
        };
        if let Some(many) = self.of_many(node, &what)? {
            return Ok(many);
        }
        let x = of(0)?;
        if let Some(unary) = unary(node, x) {
            return Ok(unary);
        }
        if let Some(reduced) = reduced(node, x, &what)? {
            return Ok(reduced);
        }
        if let Some(view) = self.view(node, x, &what)? {
            return Ok(view);
        }
        let y = of(1)?;
        if let Some(binary) = binary(node, x, y) {
            return Ok(binary);
        }
        Ok(match node.op.as_str() {
            "select" => x.select(y, of(2)?),
            "gather" => x.gather(what.axis()?, y),
            "take" => x.take(what.axis()?, y),
            "scatter" => x.scatter(what.axis()?, y, of(2)?),
            "scatter_add" => x.scatter_add(what.axis()?, y, of(2)?),
            "set" => x.set(y),
            "set_rows" => x.set_rows(what.axis()?, self.size(what.start()?)?, y),
            "set_layout" => {
                let offset = self.size(what.start()?)?;
                let strides = what.needed(node.strides.as_ref(), "strides")?;
                let strides = self.sizes(strides)?;
                x.set_layout(y, Layout { offset, strides })
            }
            other => return Err(CaseError(format!("unknown operation `{other}`"))),
        })
    }

    fn leaf(&self, node: &Node, what: &Attributes<'_>) -> Result<Option<LazyBuffer>, CaseError> {
        Ok(Some(match node.op.as_str() {
            "input" => {
                let index = what.needed(node.index, "index")?;
                let input = self.inputs.get(index);
                input
                    .ok_or_else(|| CaseError::missing("input", index))?
                    .clone()
            }
            "scalar" => {
                let index = what.needed(node.index, "index")?;
                let scalar = self.scalars.get(index);
                scalar
                    .ok_or_else(|| CaseError::missing("scalar", index))?
                    .1
                    .clone()
            }
            "constant" => self.graph.constant(what.dtype()?, what.value()?),
            "full" => {
                let shape = self.shape(what.shape()?)?;
                self.graph.full(what.dtype()?, shape, what.value()?)
            }
            "index" => {
                let shape = self.shape(what.shape()?)?;
                self.graph.index(shape, what.axis()?)
            }
            "random_bits" => {
                let seed = what.needed(node.seed, "seed")?;
                self.graph.random_bits(self.shape(what.shape()?)?, seed).1
            }
            "iota" => self.graph.iota(self.size(what.len()?)?),
            _ => return Ok(None),
        }))
    }

    fn of_many(&self, node: &Node, what: &Attributes<'_>) -> Result<Option<LazyBuffer>, CaseError> {
        let parts = || {
            let parts = node.of.iter().map(|part| self.at(*part));
            parts.collect::<Result<Vec<_>, _>>()
        };
        Ok(Some(match node.op.as_str() {
            "cat" => LazyBuffer::cat(parts()?, what.axis()?),
            "stack" => LazyBuffer::stack(parts()?, what.axis()?),
            _ => return Ok(None),
        }))
    }

    fn view(
        &self,
        node: &Node,
        x: &LazyBuffer,
        what: &Attributes<'_>,
    ) -> Result<Option<LazyBuffer>, CaseError> {
        let other = || what.needed(node.other, "other");
        Ok(Some(match node.op.as_str() {
            "cast" => x.cast(what.dtype()?),
            "clamp" => {
                let most = what.needed(node.most.as_ref(), "most")?;
                x.clamp(what.value()?, literal(most)?)
            }
            "reshape" => x.reshape(self.shape(what.shape()?)?),
            "split_axis" => x.split_axis(what.axis()?, self.shape(what.shape()?)?),
            "merge_axes" => x.merge_axes(what.axis()?, other()?),
            "permute" => x.permute(what.needed(node.axes.as_ref(), "axes")?),
            "transpose" => x.transpose(what.axis()?, other()?),
            "t" => x.t(),
            "narrow" => {
                let (start, len) = (self.size(what.start()?)?, self.size(what.len()?)?);
                x.narrow(what.axis()?, start, len)
            }
            "broadcast_to" => x.broadcast_to(self.shape(what.shape()?)?),
            "unsqueeze" => x.unsqueeze(what.axis()?),
            "squeeze" => x.squeeze(what.axis()?),
            "flip" => x.flip(what.axis()?),
            "repeat" => x.repeat(what.axis()?, self.size(what.len()?)?),
            "pad" => {
                let (before, after) = (self.size(what.start()?)?, self.size(what.len()?)?);
                x.pad(what.axis()?, before, after, what.value()?)
            }
            "cumsum" => x.cumsum(what.axis()?),
            "roll" => x.roll(what.axis()?, what.needed(node.by, "by")?),
            _ => return Ok(None),
        }))
    }
}

/// Calls the method of a name, if it is one of these.
macro_rules! by_name {
    ($name:expr, $x:ident $arguments:tt: $($method:ident)*) => {
        match $name {
            $(stringify!($method) => Some($x.$method $arguments),)*
            _ => None,
        }
    };
}

fn unary(node: &Node, x: &LazyBuffer) -> Option<LazyBuffer> {
    if let Some(op) = UnaryOp::from_name(&node.op) {
        return Some(x.unary(op));
    }
    by_name!(node.op.as_str(), x(): round sign log1p expm1 is_nan square recip relu sigmoid silu gelu gelu_tanh)
}

fn binary(node: &Node, x: &LazyBuffer, y: &LazyBuffer) -> Option<LazyBuffer> {
    Some(match node.op.as_str() {
        "and" => x & y,
        "or" => x | y,
        "xor" => x ^ y,
        name => {
            return by_name!(name, x(y): add sub mul div rem shl shr atan2 minimum maximum pow equals differs less
                less_equal greater greater_equal matmul matmul_t);
        }
    })
}

fn reduced(
    node: &Node,
    x: &LazyBuffer,
    what: &Attributes<'_>,
) -> Result<Option<LazyBuffer>, CaseError> {
    let over = match &node.axes {
        Some(axes) => Over::from(&axes[..]),
        None => Over::All,
    };
    if node.op == "normalize" {
        return match what.value()? {
            Literal::Float(epsilon) => Ok(Some(x.normalize(over, epsilon))),
            _ => Err(what.missing("value")),
        };
    }
    Ok(
        by_name!(node.op.as_str(), x(over): sum product max min argmax argmin any all mean variance softmax
            log_softmax),
    )
}

/// The attributes of a node.
struct Attributes<'a> {
    node: &'a Node,
    place: usize,
}

impl<'a> Attributes<'a> {
    fn missing(&self, what: &'static str) -> CaseError {
        let (node, op) = (self.place, &self.node.op);
        CaseError(format!("node {node}, `{op}`, has no `{what}`"))
    }

    /// Returns an attribute, which the operation needs.
    fn needed<T>(&self, attribute: Option<T>, what: &'static str) -> Result<T, CaseError> {
        attribute.ok_or_else(|| self.missing(what))
    }

    fn axis(&self) -> Result<isize, CaseError> {
        self.needed(self.node.axis, "axis")
    }

    fn start(&self) -> Result<&'a Dim, CaseError> {
        self.needed(self.node.start.as_ref(), "start")
    }

    fn len(&self) -> Result<&'a Dim, CaseError> {
        self.needed(self.node.len.as_ref(), "len")
    }

    fn shape(&self) -> Result<&'a [Dim], CaseError> {
        self.needed(self.node.shape.as_deref(), "shape")
    }

    fn dtype(&self) -> Result<millstream::DType, CaseError> {
        dtype(self.needed(self.node.dtype.as_ref(), "dtype")?)
    }

    fn value(&self) -> Result<Literal, CaseError> {
        literal(self.needed(self.node.value.as_ref(), "value")?)
    }
}
