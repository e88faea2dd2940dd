//! Writes mutants into the text of a file, all of them side by side, and remembers where each went.

use std::ops::Range;

use crate::mutant::Mutant;

/// The text of a file with mutants in it.
pub struct Instrumented {
    /// The text.
    pub text: String,
    /// For each mutant where its own text is, and all of the text that it surrounds.
    pub places: Vec<Place>,
}

/// Where a mutant is in the new text.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The number of the mutant.
    pub id: u32,
    /// The text before the original.
    pub open: Range<usize>,
    /// The text behind the original.
    pub close: Range<usize>,
    /// The body of the function that it is in.
    pub body: Range<usize>,
}

impl Place {
    /// Returns whether text of this mutant alone overlaps `span`.
    pub fn owns(&self, span: &Range<usize>) -> bool {
        overlap(&self.open, span) || overlap(&self.close, span)
    }

    /// Returns whether `span` lies between the beginning and the end of this mutant.
    pub fn surrounds(&self, span: &Range<usize>) -> bool {
        self.open.start <= span.start && span.end <= self.close.end
    }
}

fn overlap(own: &Range<usize>, span: &Range<usize>) -> bool {
    own.start < span.end && span.start < own.end
}

/// Writes `mutants`, which are those of one file in the order of the search, into its text.
pub fn instrument(source: &str, mutants: &[&Mutant]) -> Instrumented {
    let mut source = source.to_owned();
    for constant in mutants.iter().filter_map(|mutant| mutant.constant.clone()) {
        let spaces = " ".repeat(constant.len());
        source.replace_range(constant, &spaces);
    }
    // What ends at a byte comes before what begins there. Of several, the outer one begins first and ends last.
    let begins =
        mutants.iter().enumerate().map(|(index, mutant)| (mutant.edit.range.start, 1, index as isize));
    let ends = mutants.iter().enumerate().map(|(index, mutant)| {
        let empty = mutant.edit.range.is_empty();
        (
            mutant.edit.range.end,
            if empty { 1 } else { 0 },
            if empty { index as isize } else { -(index as isize) },
        )
    });
    let mut events: Vec<_> =
        begins.map(|event| (event, true)).chain(ends.map(|event| (event, false))).collect();
    events.sort_by_key(|((at, kind, order), is_begin)| (*at, *kind, *order, !is_begin));

    let mut text = String::with_capacity(source.len() * 4);
    let mut places = vec![Place::default(); mutants.len()];
    let mut copied = 0;
    let mut moved: Vec<(usize, usize)> = Vec::new();
    for ((at, _, order), is_begin) in events {
        text.push_str(&source[copied..at]);
        copied = at;
        let index = order.unsigned_abs();
        let edit = &mutants[index].edit;
        let piece = if is_begin { &edit.open } else { &edit.close };
        let start = text.len();
        text.push_str(&piece.replace("::on(@)", &format!("::on({})", mutants[index].id)));
        let range = start..text.len();
        moved.push((at, text.len() - at));
        match is_begin {
            true => places[index].open = range,
            false => places[index].close = range,
        }
    }
    text.push_str(&source[copied..]);

    for (place, mutant) in places.iter_mut().zip(mutants) {
        place.id = mutant.id;
        place.body = shifted(&moved, mutant.body.start)..shifted(&moved, mutant.body.end);
    }
    Instrumented { text, places }
}

/// Returns where the byte `at` of the source is in the new text.
fn shifted(moved: &[(usize, usize)], at: usize) -> usize {
    let before = moved.partition_point(|(byte, _)| *byte <= at);
    at + before.checked_sub(1).map_or(0, |last| moved[last].1)
}
