//! From a blob to a tree.

use std::borrow::Cow;
use std::collections::HashSet;

use atrest_codec::{Be, Reader};

use super::tokens::{Layout, Token};
use super::{FdtError, MAX_DEPTH};

/// A node: its properties and the nodes in it, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node<'a> {
    /// The name; the root's is empty.
    pub name: String,
    /// Names and values.
    pub properties: Vec<(String, Cow<'a, [u8]>)>,
    /// The nodes in it.
    pub children: Vec<Node<'a>>,
}

/// A device tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree<'a> {
    /// The root node.
    pub root: Node<'a>,
    /// Reserved memory: address and size.
    pub reservations: Vec<(u64, u64)>,
    /// The CPU that boots.
    pub boot_cpu: u32,
    /// Length of the blob that it was read from.
    pub len: usize,
}

impl<'a> Node<'a> {
    /// A node without properties.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The value of a property.
    pub fn property(&self, name: &str) -> Option<&[u8]> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }

    /// A property that is one text.
    pub fn text(&self, name: &str) -> Option<&str> {
        let [text] = self.texts(name)?.try_into().ok()?;
        Some(text)
    }

    /// A property that is a list of texts, each with its zero; `None` if it is absent or something else.
    pub fn texts(&self, name: &str) -> Option<Vec<&str>> {
        let list = self.property(name)?.strip_suffix(&[0])?;
        list.split(|&byte| byte == 0).map(|text| std::str::from_utf8(text).ok()).collect()
    }

    /// A property that is a number of 32 or 64 bits.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.property(name)? {
            value if value.len() == 4 => Some(u64::from(u32::from_be_bytes(value.try_into().ok()?))),
            value => Some(u64::from_be_bytes(value.try_into().ok()?)),
        }
    }

    /// A node in this one.
    pub fn child(&self, name: &str) -> Option<&Node<'a>> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Sets a property: in its place if it is there, else behind the others.
    pub fn set(&mut self, name: &str, value: impl Into<Cow<'a, [u8]>>) {
        match self.properties.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.into(),
            None => self.properties.push((name.into(), value.into())),
        }
    }

    /// Sets a property to a text.
    pub fn set_text(&mut self, name: &str, text: &str) {
        self.set(name, [text.as_bytes(), &[0]].concat());
    }

    /// Sets a property to a list of texts.
    pub fn set_texts<T: AsRef<str>>(&mut self, name: &str, texts: &[T]) {
        self.set(
            name,
            texts.iter().flat_map(|text| [text.as_ref().as_bytes(), &[0]].concat()).collect::<Vec<u8>>(),
        );
    }

    /// Sets a property to a number of 32 bits.
    pub fn set_u32(&mut self, name: &str, number: u32) {
        self.set(name, number.to_be_bytes().to_vec());
    }

    /// The node of this name in this one, made if need be.
    pub fn child_mut(&mut self, name: &str) -> &mut Self {
        let found = self.children.iter().position(|child| child.name == name);
        let at = found.unwrap_or_else(|| {
            self.children.push(Node::new(name));
            self.children.len() - 1
        });
        // `at` was found or is the last.
        #[allow(clippy::indexing_slicing)]
        &mut self.children[at]
    }
}

/// A node whose end has not been met, and the names that it has used up.
struct Open<'a> {
    node: Node<'a>,
    properties: HashSet<&'a str>,
    children: HashSet<&'a str>,
}

/// Reads the device tree that `blob` begins with; what follows it is left alone.
///
/// # Errors
/// [`FdtError::Magic`] or [`FdtError::Version`] if it is no device tree that is known,
/// [`FdtError::Truncated`] if it is cut off. The others say where it is damaged. Nodes that are nested deeper
/// than [`MAX_DEPTH`], and names that are there twice, are damage too.
pub fn read(blob: &[u8]) -> Result<Tree<'_>, FdtError> {
    let layout = Layout::read(blob)?;
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut offset = layout.structure.start;
    let root = loop {
        let wrong = |what| FdtError::Structure { offset, what };
        let twice = |name: &str| FdtError::Twice { offset, name: name.into() };
        let (token, next) = layout.token(blob, offset)?;
        match token {
            Token::Begin(name) => {
                if open.len() == MAX_DEPTH {
                    return Err(wrong("nodes are nested too deeply"));
                }
                if name.is_empty() != open.is_empty() || name.contains('/') {
                    return Err(wrong("a node's name is none"));
                }
                if open.last_mut().is_some_and(|parent| !parent.children.insert(name)) {
                    return Err(twice(name));
                }
                open.push(Open {
                    node: Node::new(name),
                    properties: HashSet::new(),
                    children: HashSet::new(),
                });
            }
            Token::Property { name, value } => {
                let parent = open.last_mut().ok_or_else(|| wrong("a property outside of all nodes"))?;
                if !parent.children.is_empty() {
                    return Err(wrong("a property behind a node"));
                }
                if !parent.properties.insert(name) {
                    return Err(twice(name));
                }
                let value = blob.get(value).ok_or_else(|| wrong("a property ends early"))?;
                parent.node.properties.push((name.into(), Cow::Borrowed(value)));
            }
            Token::Nop => {}
            Token::EndNode => {
                let Open { node, .. } = open.pop().ok_or_else(|| wrong("a node ends that has not begun"))?;
                match open.last_mut() {
                    Some(parent) => parent.node.children.push(node),
                    None => {
                        offset = next;
                        break node;
                    }
                }
            }
            Token::End => return Err(wrong("the structure ends inside a node")),
        }
        offset = next;
    };
    match layout.token(blob, offset)? {
        (Token::End, _) => {}
        _ => return Err(FdtError::Structure { offset, what: "something follows the root node" }),
    }
    let reservations = reservations(blob, &layout)?;
    Ok(Tree { root, reservations, boot_cpu: layout.boot_cpu, len: layout.total })
}

fn reservations(blob: &[u8], layout: &Layout) -> Result<Vec<(u64, u64)>, FdtError> {
    let end = |_| FdtError::Layout { block: "list of reserved memory" };
    let block = blob.get(..layout.total).unwrap_or(blob);
    let mut reader = Reader::at(block, layout.reservations).map_err(end)?;
    let mut found = Vec::new();
    loop {
        match reader.field().map_err(end)? {
            (Be(0), Be(0)) => return Ok(found),
            (Be(address), Be(size)) => found.push((address, size)),
        }
    }
}
