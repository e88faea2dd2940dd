//! Reads a FIT.

use crate::fdt::{self, Node, Tree};

use super::FitError;

/// A FIT that has been read.
#[derive(Debug)]
pub struct Fit<'a> {
    /// All of it.
    pub tree: Tree<'a>,
    file: &'a [u8],
}

/// An image in a FIT.
#[derive(Clone, Copy, Debug)]
pub struct Image<'f> {
    /// Its node.
    pub node: &'f Node<'f>,
    /// Its bytes.
    pub data: &'f [u8],
}

/// Whether a tree is a FIT.
pub fn is_fit(tree: &Tree<'_>) -> bool {
    tree.root.child("images").is_some_and(|images| !images.children.is_empty())
}

impl<'a> Fit<'a> {
    /// Reads the tree; images are looked for when they are asked for.
    ///
    /// # Errors
    /// [`FitError::Fdt`] if it is no device tree or a damaged one, [`FitError::NoImages`] if it is one
    /// without images.
    pub fn read(file: &'a [u8]) -> Result<Self, FitError> {
        let tree = fdt::read(file)?;
        if is_fit(&tree) { Ok(Self { tree, file }) } else { Err(FitError::NoImages) }
    }

    /// The bytes that it was read from.
    pub fn file(&self) -> &'a [u8] {
        self.file
    }

    /// The images, in order.
    pub fn images(&self) -> impl Iterator<Item = Result<Image<'_>, FitError>> {
        let nodes =
            // intended: a tree without such a node has none in it.
            self.tree.root.child("images").map(|images| images.children.as_slice()).unwrap_or_default();
        nodes.iter().map(|node| self.image(node))
    }

    /// The configurations, in order.
    pub fn configurations(&self) -> &[Node<'a>] {
        // intended: a tree without such a node has none in it.
        self.tree.root.child("configurations").map(|node| node.children.as_slice()).unwrap_or_default()
    }

    /// The name of the default configuration.
    pub fn default(&self) -> Option<&str> {
        self.tree.root.child("configurations")?.text("default")
    }

    /// Finds an image's data: in its node, or behind the tree.
    fn image<'f>(&'f self, node: &'f Node<'a>) -> Result<Image<'f>, FitError> {
        let wrong = |what| FitError::Data { image: node.name.clone(), what };
        let external = node.property("data-size").is_some();
        if let Some(data) = node.property("data") {
            return match external {
                false => Ok(Image { node, data }),
                true => Err(wrong("is there twice")),
            };
        }
        if !external {
            return Err(wrong("is not there"));
        }
        let number = |name| node.number(name).and_then(|number| usize::try_from(number).ok());
        let len = number("data-size").ok_or_else(|| wrong("has a size that is none"))?;
        let start = match (node.property("data-position"), node.property("data-offset")) {
            (Some(_), _) => number("data-position"),
            (None, Some(_)) => {
                number("data-offset").and_then(|offset| offset.checked_add(self.tree.len.next_multiple_of(4)))
            }
            (None, None) => None,
        };
        let start = start.ok_or_else(|| wrong("has no place"))?;
        let range = start.checked_add(len).map(|end| start..end);
        let data =
            range.and_then(|range| self.file.get(range)).ok_or_else(|| wrong("lies outside of the file"))?;
        Ok(Image { node, data })
    }
}
