//! A mutant: one small change of the source, with the name that reports use.

use std::ops::Range;

/// What kind of change a mutant is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// The function returns a value of its type at once.
    Value,
    /// Another binary operator.
    Operator,
    /// No `!` or no `-` before an operand.
    Unary,
    /// The guard of a match arm is always true or always false.
    Guard,
    /// A match arm is never taken, and the wildcard arm gets its values.
    Arm,
    /// A field comes from the base of a structure: `..Default::default()`.
    Field,
    /// A statement that only calls something is left out.
    Statement,
    /// An assignment is left out.
    Assignment,
    /// The condition of an `if` or a `while` is always true or always false.
    Condition,
}

impl Class {
    /// Every class, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Value,
        Self::Operator,
        Self::Unary,
        Self::Guard,
        Self::Arm,
        Self::Field,
        Self::Statement,
        Self::Assignment,
        Self::Condition,
    ];

    /// Returns the word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Operator => "operator",
            Self::Unary => "unary",
            Self::Guard => "guard",
            Self::Arm => "arm",
            Self::Field => "field",
            Self::Statement => "statement",
            Self::Assignment => "assignment",
            Self::Condition => "condition",
        }
    }

    /// Returns whether cargo-mutants makes mutants of this class.
    pub fn is_classic(self) -> bool {
        !matches!(self, Self::Statement | Self::Assignment | Self::Condition)
    }
}

/// What makes the mutant in the source: text before and text behind a piece of it. Both ask the switch.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The piece, as bytes of the file. It may be empty.
    pub range: Range<usize>,
    /// What stands before it. In `on(@)`, `@` is the number of the mutant.
    pub open: String,
    /// What stands behind it, likewise.
    pub close: String,
}

/// One mutant.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The number by which the switch knows it. It is 0 until all mutants are known.
    pub id: u32,
    /// The file, from the root of the repository.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The function with its module and type, as cargo-mutants writes it.
    pub function: String,
    /// The kind of change.
    pub class: Class,
    /// Whether cargo-mutants makes this mutant, too.
    pub classic: bool,
    /// What changes: `replace < with <=`.
    pub change: String,
    /// The line of the source, without the space around it.
    pub source: String,
    /// How the change is written into the source.
    pub edit: Edit,
    /// The body of the function, as bytes of the file.
    pub body: Range<usize>,
    /// The word `const` before the function, which can't ask the switch with it.
    pub constant: Option<Range<usize>>,
}

impl Mutant {
    /// Returns the name without the place, which stays the same when lines move.
    pub fn description(&self) -> String {
        match self.class {
            Class::Value => self.change.clone(),
            _ => format!("{} in {}", self.change, self.function),
        }
    }

    /// Returns the name with the place: `crates/flash/src/crypt.rs:123:17: replace < with <= in Foo::bar`.
    pub fn name(&self) -> String {
        format!("{}:{}:{}: {}", self.file, self.line, self.column, self.description())
    }
}
