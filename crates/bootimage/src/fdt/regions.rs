//! The byte ranges that a signature is over, as U-Boot's `fdt_find_regions` has them.

use std::ops::Range;

use super::tokens::{Layout, Token};
use super::{FdtError, MAX_DEPTH};

/// How much of a node is signed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Nothing,
    /// That it is there: a node in a node that is in the list.
    Tags,
    All,
}

/// The ranges of `blob` that belong to the nodes at these paths: their properties but those in `without`, and the bare
/// names of the nodes in them; at the end the token that ends the structure. The block of names is not among them.
///
/// # Errors
/// [`FdtError`] if the header or a token is damaged, as in [`read`](super::read()).
pub fn regions(blob: &[u8], paths: &[&str], without: &[&str]) -> Result<Vec<Range<usize>>, FdtError> {
    let layout = Layout::read(blob)?;
    let mut found: Vec<Range<usize>> = Vec::new();
    // The way to the current node: the length of its parent's path, and what was wanted of the parent.
    let mut above: Vec<(usize, Want)> = Vec::new();
    let mut path = String::new();
    let mut want = Want::Nothing;
    let mut offset = layout.structure.start;
    loop {
        let (token, next) = layout.token(blob, offset)?;
        let wrong = |what| FdtError::Structure { offset, what };
        let include = match &token {
            Token::Property { name, .. } => want == Want::All && !without.contains(name),
            Token::Nop => want == Want::All,
            Token::Begin(name) => {
                if above.len() == MAX_DEPTH {
                    return Err(wrong("nodes are nested too deeply"));
                }
                above.push((path.len(), want));
                if path != "/" {
                    path.push('/');
                }
                path.push_str(name);
                want = match want {
                    _ if paths.contains(&path.as_str()) => Want::All,
                    Want::All => Want::Tags,
                    _ => Want::Nothing,
                };
                want != Want::Nothing
            }
            Token::EndNode => {
                let include = want != Want::Nothing;
                let (len, parent) = above.pop().ok_or_else(|| wrong("a node ends that has not begun"))?;
                path.truncate(len);
                want = parent;
                include
            }
            Token::End => true,
        };
        if include {
            match found.last_mut() {
                Some(last) if last.end == offset => last.end = next,
                _ => found.push(offset..next),
            }
        }
        if token == Token::End {
            return match above.is_empty() && next == layout.structure.end {
                true => Ok(found),
                false => Err(wrong("the structure ends where it should not")),
            };
        }
        offset = next;
    }
}
/// Where the block of names is.
///
/// # Errors
/// [`FdtError`], as for reading.
pub(crate) fn strings(blob: &[u8]) -> Result<Range<usize>, FdtError> {
    Ok(Layout::read(blob)?.strings)
}

/// Where the value of a property is; `node` is the path, `/images/kernel-1`.
///
/// # Errors
/// [`FdtError`], as for reading.
pub(crate) fn value_of(blob: &[u8], node: &str, property: &str) -> Result<Option<Range<usize>>, FdtError> {
    let layout = Layout::read(blob)?;
    let mut path: Vec<&str> = Vec::new();
    let mut offset = layout.structure.start;
    loop {
        let (token, next) = layout.token(blob, offset)?;
        match token {
            Token::Begin(name) => path.push(name),
            Token::EndNode => {
                path.pop();
            }
            Token::Property { name, value } if name == property && path.join("/") == node => {
                return Ok(Some(value));
            }
            Token::End => return Ok(None),
            _ => {}
        }
        offset = next;
    }
}
