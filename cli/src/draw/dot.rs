//! Reads Graphviz's language: directed graphs of nodes and edges with attributes. Subgraphs, ports and markup in labels are
//! refused, because no schedule has them.

use std::collections::{HashMap, HashSet};
use std::iter::Peekable;
use std::str::Chars;

/// A graph as it was written.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Node {
    /// Its lines of text.
    pub(crate) label: String,
    pub(crate) is_round: bool,
}

/// An edge between nodes, which are named by their places.
#[derive(Debug, PartialEq)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) label: String,
}

/// What is wrong, and in which line.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {why}")]
pub(crate) struct DotError {
    pub(crate) line: usize,
    pub(crate) why: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A word, a number or a quoted text.
    Id(String),
    /// `{`, `}`, `[`, `]`, `=`, `,` or `;`.
    Sign(char),
    Arrow,
    End,
}

impl Token {
    fn text(&self) -> String {
        match self {
            Token::Id(id) => format!("`{id}`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Arrow => "`->`".to_owned(),
            Token::End => "the end of the file".to_owned(),
        }
    }
}

/// Reads a graph.
pub(crate) fn parse(text: &str) -> Result<Graph, DotError> {
    let mut parser = Parser {
        chars: text.chars().peekable(),
        line: 1,
        token: Token::End,
        names: HashMap::new(),
        known: HashSet::new(),
        graph: Graph::default(),
    };
    parser.graph()?;
    Ok(parser.graph)
}

struct Parser<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
    /// The one that is looked at.
    token: Token,
    names: HashMap<String, usize>,
    /// The edges, to tell those that are there.
    known: HashSet<(usize, usize, String)>,
    graph: Graph,
}

impl Parser<'_> {
    fn graph(&mut self) -> Result<(), DotError> {
        self.next()?;
        if self.token == Token::Id("strict".to_owned()) {
            self.next()?;
        }
        if self.token != Token::Id("digraph".to_owned()) {
            let found = self.token.text();
            return Err(self.wrong(format!(
                "a schedule begins with `digraph`, not with {found}"
            )));
        }
        self.next()?;
        if let Token::Id(_) = self.token {
            self.next()?;
        }
        self.take('{')?;
        while self.token != Token::Sign('}') {
            self.statement()?;
            while matches!(self.token, Token::Sign(';' | ',')) {
                self.next()?;
            }
        }
        self.next()?;
        if self.token == Token::End {
            return Ok(());
        }
        let found = self.token.text();
        Err(self.wrong(format!("there is {found} behind the graph's last `}}`")))
    }

    /// A node, an edge, an attribute, or attributes for all that follows.
    fn statement(&mut self) -> Result<(), DotError> {
        let id = self.id("a node, an edge or `}`")?;
        match (&id[..], &self.token) {
            (_, Token::Sign('=')) => {
                self.next()?;
                self.id("a value").map(drop)
            }
            ("graph" | "node" | "edge", Token::Sign('[')) => self.attributes().map(drop),
            ("subgraph", _) => Err(self.wrong("subgraphs are not drawn".to_owned())),
            (_, Token::Arrow) => self.edges(id),
            _ => {
                let attributes = self.attributes()?;
                let node = self.node(id);
                let node = &mut self.graph.nodes[node];
                for (name, value) in attributes {
                    match &name[..] {
                        "label" => node.label = value,
                        "shape" => node.is_round = matches!(&value[..], "ellipse" | "circle"),
                        _ => {}
                    }
                }
                Ok(())
            }
        }
    }

    fn edges(&mut self, first: String) -> Result<(), DotError> {
        let mut ends = vec![self.node(first)];
        while self.token == Token::Arrow {
            self.next()?;
            let id = self.id("a node")?;
            ends.push(self.node(id));
        }
        let attributes = self.attributes()?;
        let label = attributes.into_iter().find(|(name, _)| name == "label");
        let label = label.map(|(_, label)| label).unwrap_or_default();
        for pair in ends.windows(2) {
            let label = label.clone();
            let (from, to) = (pair[0], pair[1]);
            let edge = Edge { from, to, label };
            // Twice the same says nothing more.
            if self.known.insert((from, to, edge.label.clone())) {
                self.graph.edges.push(edge);
            }
        }
        Ok(())
    }

    /// `[name=value ..]`, as often as it is there.
    fn attributes(&mut self) -> Result<Vec<(String, String)>, DotError> {
        let mut all = Vec::new();
        while self.token == Token::Sign('[') {
            self.next()?;
            while self.token != Token::Sign(']') {
                let name = self.id("an attribute or `]`")?;
                self.take('=')?;
                all.push((name, self.id("a value")?));
                while matches!(self.token, Token::Sign(';' | ',')) {
                    self.next()?;
                }
            }
            self.next()?;
        }
        Ok(all)
    }

    /// The place of a node. One that was not written yet is labelled by its name.
    fn node(&mut self, id: String) -> usize {
        if let Some(node) = self.names.get(&id) {
            return *node;
        }
        let node = self.graph.nodes.len();
        self.graph.nodes.push(Node {
            label: id.clone(),
            is_round: true,
        });
        self.names.insert(id, node);
        node
    }

    fn id(&mut self, expected: &str) -> Result<String, DotError> {
        let Token::Id(id) = self.token.clone() else {
            let found = self.token.text();
            return Err(self.wrong(format!("here is {found} instead of {expected}")));
        };
        self.next()?;
        Ok(id)
    }

    fn take(&mut self, sign: char) -> Result<(), DotError> {
        if self.token != Token::Sign(sign) {
            let found = self.token.text();
            return Err(self.wrong(format!("here is {found} instead of `{sign}`")));
        }
        self.next()
    }

    fn wrong(&self, why: String) -> DotError {
        let line = self.line;
        DotError { line, why }
    }

    fn next(&mut self) -> Result<(), DotError> {
        self.token = self.read()?;
        Ok(())
    }

    fn read(&mut self) -> Result<Token, DotError> {
        while let Some(c) = self.chars.next() {
            match c {
                '\n' => self.line += 1,
                c if c.is_whitespace() => {}
                // Comments: to the end of the line.
                '#' => self.skip_line(),
                '/' if self.chars.peek() == Some(&'/') => self.skip_line(),
                '{' | '}' | '[' | ']' | '=' | ',' | ';' => return Ok(Token::Sign(c)),
                '-' if self.chars.peek() == Some(&'>') => {
                    self.chars.next();
                    return Ok(Token::Arrow);
                }
                '"' => return self.quoted(),
                c if c == '-' || is_of_word(c) => {
                    let mut word = String::from(c);
                    while let Some(c) = self.chars.next_if(|c| is_of_word(*c)) {
                        word.push(c);
                    }
                    return Ok(Token::Id(word));
                }
                other => {
                    return Err(self.wrong(format!("`{other}` means nothing here")));
                }
            }
        }
        Ok(Token::End)
    }

    fn skip_line(&mut self) {
        while self.chars.next_if(|c| *c != '\n').is_some() {}
    }

    fn quoted(&mut self) -> Result<Token, DotError> {
        let mut text = String::new();
        let start = self.line;
        while let Some(c) = self.chars.next() {
            match c {
                '"' => return Ok(Token::Id(text)),
                '\\' => match self.chars.next() {
                    // Lines that Graphviz centres, or moves to a side.
                    Some('n' | 'l' | 'r') => text.push('\n'),
                    Some(c @ ('"' | '\\')) => text.push(c),
                    Some(c) => text.extend(['\\', c]),
                    None => break,
                },
                '\n' => {
                    self.line += 1;
                    text.push(c);
                }
                c => text.push(c),
            }
        }
        let why = "a text that begins here with `\"` has no end".to_owned();
        Err(DotError { line: start, why })
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_schedule_writes_is_read() {
        let text = "digraph schedule {\n  rankdir=TB;\n  node [fontname=\"monospace\" fontsize=10];\n  \
            i0 [shape=box label=\"0 kernel\\nt0 f32 [8]\\nb1 = \\\"b0\\\"\"];\n  n0 [shape=ellipse label=\"x\"];\n  \
            n0 -> i0;\n  n0 -> i0; i0 -> i1 [label=\"t0\"];\n}\n";
        let graph = parse(text).unwrap();
        let labels: Vec<&str> = graph.nodes.iter().map(|node| &node.label[..]).collect();
        assert_eq!(labels, ["0 kernel\nt0 f32 [8]\nb1 = \"b0\"", "x", "i1"]);
        assert_eq!(
            graph
                .nodes
                .iter()
                .map(|node| node.is_round)
                .collect::<Vec<_>>(),
            [false, true, true]
        );
        let edges: Vec<_> = graph
            .edges
            .iter()
            .map(|edge| (edge.from, edge.to, &edge.label[..]))
            .collect();
        assert_eq!(edges, [(1, 0, ""), (0, 2, "t0")]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let say = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            say(""),
            "line 1: a schedule begins with `digraph`, not with the end of the file"
        );
        assert_eq!(
            say("digraph {\n a -> ;\n}"),
            "line 2: here is `;` instead of a node"
        );
        assert_eq!(
            say("digraph {\n a [label=\"b\n"),
            "line 2: a text that begins here with `\"` has no end"
        );
        assert_eq!(say("digraph {\n\n a:b"), "line 3: `:` means nothing here");
        assert_eq!(
            say("digraph { a"),
            "line 1: here is the end of the file instead of a node, an edge or `}`"
        );
        assert_eq!(
            say("digraph { subgraph x {} }"),
            "line 1: subgraphs are not drawn"
        );
    }
}
