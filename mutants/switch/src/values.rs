//! The names that values of return types need. Crates without the standard library do not have them in scope.

pub use std::borrow::{Cow, ToOwned};
pub use std::boxed::Box;
pub use std::cell::{Cell, RefCell};
pub use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
pub use std::rc::Rc;
pub use std::string::String;
pub use std::sync::{Arc, Mutex};
pub use std::vec;
pub use std::vec::Vec;
