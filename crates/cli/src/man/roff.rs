//! The few requests of man(7) that our pages need.

use std::fmt::Write as _;

/// A page that grows.
pub struct Page {
    /// What is written so far.
    pub text: String,
}

impl Page {
    /// Begins a page; `title` is what follows `.TH`.
    pub fn new(title: &str) -> Self {
        Self { text: format!(".TH {title}\n") }
    }

    /// A line of roff as it is.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Begins a section.
    pub fn section(&mut self, name: &str) {
        self.line(&format!(".SH {name}"));
    }

    /// Begins a group within a section.
    pub fn subsection(&mut self, name: &str) {
        self.line(&format!(".SS \"{}\"", escaped(name).replace('"', "")));
    }

    /// Begins a paragraph.
    pub fn paragraph_break(&mut self) {
        self.line(".PP");
    }

    /// Text, whose paragraphs an empty line parts.
    pub fn paragraphs(&mut self, text: &str) {
        for line in text.lines() {
            match line.trim() {
                "" => self.line(".PP"),
                line => self.line(&escaped(line)),
            }
        }
    }

    /// A word and what it means.
    pub fn item(&mut self, head: &str, text: &str) {
        self.line(".TP");
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "\\fB{}\\fR", escaped(head));
        match text.trim().is_empty() {
            true => self.line("\\&"),
            false => self.paragraphs(text),
        }
    }

    /// Lines that stay as they are.
    pub fn examples(&mut self, examples: &[String]) {
        self.line(".EX");
        for line in examples.iter().flat_map(|example| example.lines()) {
            self.line(&escaped(line));
        }
        self.line(".EE");
    }
}

/// Text that roff shows as it is, so that commands can be copied: a hyphen stays one.
pub fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_taken_for_a_request() {
        assert_eq!(escaped(".so x"), "\\&.so x");
        assert_eq!(escaped("'a' -b \\n"), "\\&'a' \\-b \\en");
        let mut page = Page::new("A 1");
        page.item("-x", "");
        page.examples(&["a \\\nb".to_owned()]);
        assert_eq!(page.text, ".TH A 1\n.TP\n\\fB\\-x\\fR\n\\&\n.EX\na \\e\nb\n.EE\n");
    }
}
