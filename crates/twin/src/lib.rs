//! One source for blocking and asynchronous code.
//!
//! A module that waits for a device is written once, with `async fn` and `.await`, and compiled twice by `#[path]`: in a parent
//! that imports [`asynchronous`] as `twin`, and in one that imports [`blocking`] as `twin`. Its items carry `#[twin]`. What else
//! differs, the traits of the devices, the module takes from its parent, too.
//!
//! ```ignore
//! // blocking.rs                             // asynchronous.rs
//! use atrest_twin::blocking as twin;         use atrest_twin::asynchronous as twin;
//! use atrest_device::FlashDevice;            use atrest_device::asynchronous::FlashDevice;
//! #[path = "crypt.rs"]                       #[path = "crypt.rs"]
//! mod crypt;                                 mod crypt;
//!
//! // crypt.rs
//! use super::{FlashDevice, twin};
//!
//! #[twin]
//! impl<D: FlashDevice> CryptFlash<D> {
//!     pub async fn sync(&mut self) -> Result<(), FlashError> {
//!         self.device.sync().await
//!     }
//! }
//! ```
//!
//! Tokens keep their places in the source, so that errors and lints name the line that was written.
#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// Leaves an item as it is written.
#[proc_macro_attribute]
pub fn asynchronous(arguments: TokenStream, item: TokenStream) -> TokenStream {
    refuse(arguments).unwrap_or(item)
}

/// Leaves `async` and `.await` out of an item: what it calls is then done when the call returns.
///
/// Neither attribute takes arguments:
///
/// ```compile_fail
/// #[atrest_twin::blocking(always)]
/// fn f() {}
/// ```
#[proc_macro_attribute]
pub fn blocking(arguments: TokenStream, item: TokenStream) -> TokenStream {
    refuse(arguments).unwrap_or_else(|| without_awaiting(item))
}

fn without_awaiting(tokens: TokenStream) -> TokenStream {
    let mut kept = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word.to_string() == "async" => {}
            TokenTree::Punct(dot) if dot.as_char() == '.' && tokens.peek().is_some_and(is_await) => {
                tokens.next();
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_awaiting(group.stream()));
                inner.set_span(group.span());
                kept.extend([TokenTree::Group(inner)]);
            }
            other => kept.extend([other]),
        }
    }
    kept
}

fn is_await(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(word) if word.to_string() == "await")
}

/// The attributes take no arguments: what somebody meant by one would not happen.
fn refuse(arguments: TokenStream) -> Option<TokenStream> {
    let message = TokenTree::from(Literal::string("this attribute takes no arguments"));
    let error: [TokenTree; 3] = [
        Ident::new("compile_error", Span::call_site()).into(),
        Punct::new('!', Spacing::Alone).into(),
        Group::new(Delimiter::Brace, message.into()).into(),
    ];
    (!arguments.is_empty()).then(|| error.into_iter().collect())
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
