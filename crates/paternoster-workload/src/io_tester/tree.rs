// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tree: a YAML document as nested values, each with its line.
//!
//! Only what io_tester's files have: lists, maps and plain words. Anchors, aliases and several
//! documents are refused. Invariant: no text makes it panic, or nest deeper than [`DEPTH_MAX`].

use saphyr_parser::{Event, Parser};

/// Lists and maps in each other: a list of jobs, a job, its `shard_info`, and room.
const DEPTH_MAX: usize = 8;

/// A value, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// Line in the file, from 1.
    pub(super) line: u32,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Word(String),
    List(Vec<Node>),
    /// Each key with its line, in their order.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// The text, if it is a word; otherwise its description for a message.
    pub(super) fn text(&self) -> &str {
        match &self.value {
            Value::Word(word) => word,
            Value::List(_) => "[…]",
            Value::Map(_) => "{…}",
        }
    }
}

/// What is wrong with a text, and in which line.
pub(super) type Wrong = (u32, String);

/// What has begun and not ended: a list, or a map with a key that waits for its value.
enum Open {
    List(u32, Vec<Node>),
    Map(u32, Vec<(Node, Node)>, Option<Node>),
}

/// Reads one document; `None` if there is nothing in it.
pub(super) fn read(text: &str) -> Result<Option<Node>, Wrong> {
    let (mut open, mut whole) = (Vec::new(), None);
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| (at(error.marker().line()), error.info().into()))?;
        let line = at(span.start.line());
        let done = match event {
            Event::SequenceStart(..) => {
                open.push(Open::List(line, Vec::new()));
                None
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(line, Vec::new(), None));
                None
            }
            Event::Scalar(word, ..) => Some(Node { line, value: Value::Word(word.into_owned()) }),
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|open| match open {
                Open::List(line, nodes) => Node { line, value: Value::List(nodes) },
                Open::Map(line, pairs, _) => Node { line, value: Value::Map(pairs) },
            }),
            Event::Alias(_) => return Err((line, "an alias; write the value out".to_owned())),
            _ => None,
        };
        if open.len() > DEPTH_MAX {
            return Err((line, format!("more than {DEPTH_MAX} lists and maps in each other")));
        }
        let Some(node) = done else { continue };
        match open.last_mut() {
            Some(Open::List(_, nodes)) => nodes.push(node),
            Some(Open::Map(_, pairs, key)) => match key.take() {
                Some(key) => pairs.push((key, node)),
                None => *key = Some(node),
            },
            None if whole.is_none() => whole = Some(node),
            None => return Err((line, "a second document".to_owned())),
        }
    }
    Ok(whole)
}

fn at(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}
