//! What is wrong, as one kind of file system says it.

use core::any::Any;
use core::error::Error;
use core::fmt;
use std::sync::Arc;

/// What is wrong, in the words of the filesystem that it is wrong with.
///
/// This crate knows no filesystem. The crate that reads one has an error type for it, with the numbers that a person needs, and
/// puts it in here. The text of a fault is that error's. Two faults are equal if they hold equal errors of one type.
#[derive(Clone)]
pub struct Fault(Arc<dyn Comparable>);

impl Fault {
    /// A fault that says what `error` says.
    pub fn new(error: impl Error + Eq + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// Returns the filesystem's own error, if it is of this type.
    pub fn downcast_ref<T: Error + 'static>(&self) -> Option<&T> {
        self.as_error().downcast_ref()
    }

    /// Returns the filesystem's own error.
    pub fn as_error(&self) -> &(dyn Error + 'static) {
        &*self.0
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Shows the filesystem's own error, without a name of ours around it.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq for Fault {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_equal_to(&*other.0)
    }
}

impl Eq for Fault {}

/// An error that can be compared with others whose types are not known.
trait Comparable: Error + Any + Send + Sync {
    fn is_equal_to(&self, other: &dyn Any) -> bool;
}

impl<T: Error + Eq + Send + Sync + 'static> Comparable for T {
    fn is_equal_to(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Block(u32);

    #[derive(Debug, PartialEq, Eq)]
    struct Inode(u32);

    impl fmt::Display for Block {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "block {} is lost", self.0)
        }
    }

    impl fmt::Display for Inode {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "inode {} is lost", self.0)
        }
    }

    impl Error for Block {}
    impl Error for Inode {}

    #[test]
    fn faults_are_equal_if_type_and_numbers_are() {
        assert_eq!(Fault::new(Block(7)), Fault::new(Block(7)).clone());
        assert_ne!(Fault::new(Block(7)), Fault::new(Block(8)));
        assert_ne!(Fault::new(Block(7)), Fault::new(Inode(7)));
    }

    #[test]
    fn a_fault_says_what_the_error_in_it_says_and_gives_it_back() {
        let fault = Fault::new(Block(7));
        assert_eq!((fault.to_string(), format!("{fault:?}")), ("block 7 is lost".into(), "Block(7)".into()));
        assert_eq!(fault.downcast_ref(), Some(&Block(7)));
        assert_eq!(fault.downcast_ref::<Inode>(), None);
    }
}
