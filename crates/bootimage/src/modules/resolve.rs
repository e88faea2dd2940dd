//! Which modules a set of names needs, in an order in which each finds those loaded that it needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use super::ModuleError;
use super::tables::{Tables, fits, module_name, normal_name};

/// What to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Paths as in `modules.dep`, each behind those that it needs.
    pub load: Vec<String>,
    /// Names that were asked for and that the kernel has built in.
    pub builtin: Vec<String>,
}

/// Finds what `wanted` needs, and of `optional` what is there. `directory` is for messages.
///
/// # Errors
/// [`ModuleError::Missing`] for a wanted name or a needed file that is not there, [`ModuleError::Cycle`] if
/// modules need each other.
pub fn resolve(
    tables: &Tables,
    wanted: &[String],
    optional: &[&str],
    directory: &Path,
) -> Result<Plan, ModuleError> {
    let mut walk =
        Walk { tables, directory, plan: Plan::default(), done: BTreeSet::new(), later: VecDeque::new() };
    for name in wanted {
        match lookup(tables, name) {
            Found::Modules(modules) => modules.iter().try_for_each(|module| walk.visit(module))?,
            Found::Builtin => walk.plan.builtin.push(name.clone()),
            Found::Nothing => {
                return Err(ModuleError::Missing { name: name.clone(), directory: directory.into() });
            }
        }
    }
    for name in optional {
        // An optional module is a file or nothing: its aliases would pull in whatever is called alike.
        if tables.modules.contains_key(&normal_name(name)) {
            walk.visit(&normal_name(name))?;
        }
    }
    while let Some(name) = walk.later.pop_front() {
        if let Found::Modules(modules) = lookup(tables, &name) {
            modules.iter().try_for_each(|module| walk.visit(module))?;
        }
    }
    Ok(walk.plan)
}

enum Found {
    Modules(Vec<String>),
    Builtin,
    Nothing,
}

/// What a name stands for, as modprobe has it: a module, something built in, or all modules with such an alias.
fn lookup(tables: &Tables, name: &str) -> Found {
    let normal = normal_name(name);
    if tables.modules.contains_key(&normal) {
        return Found::Modules(vec![normal]);
    }
    if tables.builtin.contains(&normal) {
        return Found::Builtin;
    }
    let called = tables.aliases.iter().filter(|(pattern, _)| fits(pattern, name));
    let modules: Vec<String> = called
        .map(|(_, module)| module.clone())
        .filter(|module| tables.modules.contains_key(module))
        .collect();
    match modules.is_empty() {
        false => Found::Modules(modules),
        true if tables.builtin_aliases.iter().any(|pattern| fits(pattern, name)) => Found::Builtin,
        true => Found::Nothing,
    }
}

struct Walk<'a> {
    tables: &'a Tables,
    directory: &'a Path,
    plan: Plan,
    done: BTreeSet<String>,
    /// What modules wish to be loaded behind them.
    later: VecDeque<String>,
}

/// A module on the way from a wanted one to what it needs.
struct Step {
    name: String,
    /// Whether the one before can't do without it.
    hard: bool,
    /// What it needs and has not been looked at, the next one last.
    before: Vec<(String, bool)>,
}

impl Walk<'_> {
    /// Adds a module behind all that it needs. A list of steps instead of recursion: a table may nest as deep as it likes.
    fn visit(&mut self, module: &str) -> Result<(), ModuleError> {
        let mut open: BTreeMap<String, usize> = BTreeMap::new();
        let mut steps = Vec::new();
        self.enter(module, true, &mut steps, &mut open)?;
        while let Some(step) = steps.last_mut() {
            if let Some((next, hard)) = step.before.pop() {
                if let Some(&at) = open.get(&next) {
                    // Wishes may go round in a circle, needs may not.
                    if hard && steps.iter().skip(at + 1).all(|step| step.hard) {
                        return Err(ModuleError::Cycle { name: next });
                    }
                } else {
                    self.enter(&next, hard, &mut steps, &mut open)?;
                }
            } else if let Some(step) = steps.pop() {
                open.remove(&step.name);
                self.leave(step.name);
            }
        }
        Ok(())
    }

    fn enter(
        &self,
        module: &str,
        hard: bool,
        steps: &mut Vec<Step>,
        open: &mut BTreeMap<String, usize>,
    ) -> Result<(), ModuleError> {
        if self.done.contains(module) {
            return Ok(());
        }
        let missing =
            |name: &str| ModuleError::Missing { name: name.into(), directory: self.directory.into() };
        let (_, needs) = self.tables.modules.get(module).ok_or_else(|| missing(module))?;
        // The last of a list is taken first, as modprobe does with what depmod wrote; wishes come before all of it.
        let mut before = Vec::new();
        for path in needs {
            before.push((module_name(path).ok_or_else(|| missing(path))?, true));
        }
        for name in self.tables.soft.get(module).map(|soft| soft.pre.iter().rev()).into_iter().flatten() {
            if let Found::Modules(modules) = lookup(self.tables, name) {
                before.extend(modules.into_iter().rev().map(|module| (module, false)));
            }
        }
        open.insert(module.into(), steps.len());
        steps.push(Step { name: module.into(), hard, before });
        Ok(())
    }

    fn leave(&mut self, module: String) {
        if let Some((path, _)) = self.tables.modules.get(&module) {
            self.plan.load.push(path.clone());
        }
        // intended: a module without soft dependencies.
        self.later.extend(self.tables.soft.get(&module).map(|soft| soft.post.clone()).unwrap_or_default());
        self.done.insert(module);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(dep: &str) -> Tables {
        let mut tables = Tables::default();
        tables.read_dep(dep).expect("well formed");
        tables
    }

    fn load(tables: &Tables, names: &[&str]) -> Result<Vec<String>, String> {
        let wanted: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
        let plan = resolve(tables, &wanted, &[], Path::new("/m")).map_err(|error| error.to_string())?;
        Ok(plan.load)
    }

    #[test]
    fn each_module_follows_what_it_needs() {
        let mut tables =
            tables("k/a.ko: k/b-b.ko k/c.ko\nk/b-b.ko: k/c.ko\nk/c.ko:\nk/d.ko: k/c.ko\nk/e.ko:\nk/f.ko:\n");
        tables.read_softdep("softdep d pre: the-e post: f\nsoftdep f pre: d\n");
        tables.read_alias("alias the_* e\n");
        assert_eq!(load(&tables, &["a"]).expect("resolved"), ["k/c.ko", "k/b-b.ko", "k/a.ko"]);
        assert_eq!(
            load(&tables, &["d", "b_b"]).expect("resolved"),
            ["k/e.ko", "k/c.ko", "k/d.ko", "k/b-b.ko", "k/f.ko"]
        );
        // Wishes that go round in a circle are no error.
        assert_eq!(load(&tables, &["f"]).expect("resolved"), ["k/e.ko", "k/c.ko", "k/d.ko", "k/f.ko"]);
    }

    #[test]
    fn what_is_missing_or_needs_itself_is_named() {
        let cyclic = tables("a.ko: b.ko\nb.ko: c.ko\nc.ko: a.ko\nd.ko: x.ko\n");
        assert_eq!(load(&cyclic, &["b"]).expect_err("a cycle"), "modules.dep: \"b\" needs itself");
        let missing = |name| format!("there is no module {name:?} in /m, and nothing built in or called so");
        assert_eq!(load(&cyclic, &["d"]).expect_err("missing"), missing("x"));
        assert_eq!(load(&cyclic, &["nonsense"]).expect_err("missing"), missing("nonsense"));
        let mut tables = Tables::default();
        let error = tables.read_dep("a.ko:\n\n/etc/x.ko:\n").expect_err("elsewhere").to_string();
        assert_eq!(error, "modules.dep, line 3: a path does not lie below the directory of the modules");
        assert_eq!(
            tables.read_dep("a.ko\n").expect_err("wrong").to_string(),
            "modules.dep, line 1: there is no colon"
        );
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_is_walked() {
        let dep: String = (0..100_000).map(|i| format!("m{i}.ko: m{}.ko\n", i + 1)).collect();
        let tables = tables(&(dep + "m100000.ko:\n"));
        assert_eq!(load(&tables, &["m0"]).expect("resolved").len(), 100_001);
    }
}
