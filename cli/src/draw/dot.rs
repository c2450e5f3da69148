//! Parses the part of Graphviz's DOT language that schedules use: directed graphs of nodes and edges with attributes.
//!
//! Subgraphs, ports and markup in labels are errors.

use std::collections::{HashMap, HashSet};
use std::iter::Peekable;
use std::str::Chars;

/// A parsed graph.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Node {
    /// The lines of text in the node.
    pub(crate) label: String,
    pub(crate) is_round: bool,
}

/// An edge between two nodes, given by their indices.
#[derive(Debug, PartialEq)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) label: String,
}

/// A syntax error.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(crate) struct DotError {
    pub(crate) line: usize,
    pub(crate) reason: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A word, a number or a quoted string.
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

/// Parses a graph.
pub(crate) fn parse(text: &str) -> Result<Graph, DotError> {
    let mut parser = Parser {
        chars: text.chars().peekable(),
        line: 1,
        token: Token::End,
        names: HashMap::new(),
        seen_edges: HashSet::new(),
        graph: Graph::default(),
    };
    parser.graph()?;
    Ok(parser.graph)
}

struct Parser<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
    /// The current token.
    token: Token,
    names: HashMap<String, usize>,
    /// The edges so far, to drop duplicates.
    seen_edges: HashSet<(usize, usize, String)>,
    graph: Graph,
}

impl Parser<'_> {
    fn graph(&mut self) -> Result<(), DotError> {
        self.next()?;
        if self.token == Token::Id("strict".to_owned()) {
            self.next()?;
        }
        if self.token != Token::Id("digraph".to_owned()) {
            return Err(self.unexpected("`digraph`"));
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
        Err(self.unexpected("the end of the file"))
    }

    /// Parses a node, an edge, an attribute, or default attributes.
    fn statement(&mut self) -> Result<(), DotError> {
        let id = self.id("a node, an edge or `}`")?;
        match (&id[..], &self.token) {
            (_, Token::Sign('=')) => {
                self.next()?;
                self.id("a value").map(drop)
            }
            ("graph" | "node" | "edge", Token::Sign('[')) => self.attributes().map(drop),
            ("subgraph", _) => Err(self.error(
                "subgraphs are not supported; draw a file that `Schedule::dot` wrote".to_owned(),
            )),
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
            // Duplicates are drawn once.
            if self.seen_edges.insert((from, to, edge.label.clone())) {
                self.graph.edges.push(edge);
            }
        }
        Ok(())
    }

    /// Parses any number of `[name=value ..]` lists.
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

    /// Returns the index of a node. A new node is labelled with its name.
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
            return Err(self.unexpected(expected));
        };
        self.next()?;
        Ok(id)
    }

    fn take(&mut self, sign: char) -> Result<(), DotError> {
        if self.token != Token::Sign(sign) {
            return Err(self.unexpected(&format!("`{sign}`")));
        }
        self.next()
    }

    fn unexpected(&self, expected: &str) -> DotError {
        let got = self.token.text();
        self.error(format!("expected {expected}, got {got}"))
    }

    fn error(&self, reason: String) -> DotError {
        let line = self.line;
        DotError { line, reason }
    }

    fn next(&mut self) -> Result<(), DotError> {
        self.token = self.read_token()?;
        Ok(())
    }

    fn read_token(&mut self) -> Result<Token, DotError> {
        while let Some(c) = self.chars.next() {
            match c {
                '\n' => self.line += 1,
                c if c.is_whitespace() => {}
                // A comment ends with the line.
                '#' => self.skip_line(),
                '/' if self.chars.peek() == Some(&'/') => self.skip_line(),
                '{' | '}' | '[' | ']' | '=' | ',' | ';' => return Ok(Token::Sign(c)),
                '-' if self.chars.peek() == Some(&'>') => {
                    self.chars.next();
                    return Ok(Token::Arrow);
                }
                '"' => return self.quoted(),
                c if c == '-' || is_word_char(c) => {
                    let mut word = String::from(c);
                    while let Some(c) = self.chars.next_if(|c| is_word_char(*c)) {
                        word.push(c);
                    }
                    return Ok(Token::Id(word));
                }
                other => {
                    return Err(self.error(format!("unexpected character `{other}`")));
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
                    // In Graphviz these end a centred, left-aligned or right-aligned line.
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
        let reason = "string without a closing `\"`".to_owned();
        Err(DotError {
            line: start,
            reason,
        })
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_text_of_a_schedule_is_parsed() {
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
    fn syntax_error_names_its_line() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            error(""),
            "line 1: expected `digraph`, got the end of the file"
        );
        assert_eq!(
            error("digraph {\n a -> ;\n}"),
            "line 2: expected a node, got `;`"
        );
        assert_eq!(
            error("digraph {\n a [label=\"b\n"),
            "line 2: string without a closing `\"`"
        );
        assert_eq!(
            error("digraph {\n\n a:b"),
            "line 3: unexpected character `:`"
        );
        assert_eq!(
            error("digraph { a"),
            "line 1: expected a node, an edge or `}`, got the end of the file"
        );
        assert_eq!(
            error("digraph { subgraph x {} }"),
            "line 1: subgraphs are not supported; draw a file that `Schedule::dot` wrote"
        );
    }
}
