//! The manifests of the copy: packages with mutants depend on the switch, and no lint stops a mutant.

/// Lints that are errors if nobody says otherwise, and that mutants trip over.
const ALLOWED: &str = r#"[workspace.lints.rust]
warnings = "allow"
arithmetic_overflow = "allow"
overflowing_literals = "allow"
unconditional_panic = "allow"
unconditional_recursion = "allow"
useless_deprecated = "allow"
"#;

/// Returns the manifest of a package with the switch among its dependencies.
pub fn with_switch(manifest: &str) -> String {
    let dependency = "atrest-mutant = { path = \"../../mutants/switch\" }\n";
    let heading = "\n[dependencies]\n";
    match manifest.contains(heading) {
        true => manifest.replacen(heading, &format!("{heading}{dependency}"), 1),
        false => format!("{manifest}{heading}{dependency}"),
    }
}

/// Returns the manifest of the workspace without its lints.
pub fn without_lints(manifest: &str) -> String {
    let mut sections = String::new();
    let mut kept = true;
    for line in manifest.lines() {
        if line.starts_with('[') {
            kept = !line.starts_with("[workspace.lints");
        }
        if kept {
            sections.push_str(line);
            sections.push('\n');
        }
    }
    // The switch belongs to this workspace, and not to the one that it is used in.
    sections.replace("exclude = [", "exclude = [\"mutants\", ") + "\n" + ALLOWED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_a_dependency() {
        let patched = with_switch("[package]\nname = \"a\"\n\n[dependencies]\nb = \"1\"\n");
        assert!(patched.contains("\n[dependencies]\natrest-mutant = "), "{patched}");
        assert!(with_switch("[package]\nname = \"a\"\n").contains("\n[dependencies]\natrest-mutant = "));
    }

    #[test]
    fn lints_are_left_out_and_nothing_else() {
        let manifest = "[workspace]\nexclude = [\"a\"]\n[workspace.lints.rust]\nb = 2\n[workspace.lints.clippy]\nc = 3\n[profile.dev]\n\
                        opt-level = 1\n";
        let patched = without_lints(manifest);
        let expected = "[workspace]\nexclude = [\"mutants\", \"a\"]\n[profile.dev]\nopt-level = 1\n";
        assert!(patched.starts_with(expected), "{patched}");
    }
}
