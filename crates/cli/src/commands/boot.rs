//! `atrest unlock`.

use std::time::Duration;

use atrest_boot::config;
use atrest_boot::console::Console;
use atrest_boot::policy::Notice;
use atrest_boot::unlock::{Level, Opened, Outcome, Unlocker, select};
use serde_json::{Value, json};

use crate::args::unlock::BootUnlockArgs;
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};

pub fn unlock(args: &BootUnlockArgs, output: &Output) -> Result<u8, Failure> {
    let crypttab = (!args.no_crypttab).then_some(args.crypttab.as_path());
    if let Some(path) = crypttab.filter(|path| !path.exists()) {
        return Err(Failure::new(Code::Device, "there is no such file").at(path));
    }
    let policy = config::read(crypttab, args.cmdline.as_deref());
    for notice in &policy.notices {
        output.warn(notice);
    }
    let entries = select(&policy, &args.names)
        .map_err(|name| Failure::parameters(format!("no volume that can be opened is called {name}")))?;
    let console = match &args.terminal {
        _ if args.no_questions => None,
        Some(path) => Some(Console::terminal(path).map_err(|error| Failure::io(&error).at(path))?),
        None => Some(Console::best()),
    };
    let say = |level, text: &str| match level {
        Level::Info => output.note(text),
        Level::Warning | Level::Error => output.warn(text),
    };
    let mut unlocker = Unlocker::new(&say, console.as_ref());
    unlocker.device_timeout = (args.device_timeout > 0).then(|| Duration::from_secs(args.device_timeout));
    let outcomes = unlocker.open_all(entries);
    let report: Vec<Value> = outcomes.iter().map(described).collect();
    let text: String = outcomes.iter().filter_map(opened).map(|path| format!("{path}\n")).collect();
    output.report(&json!({ "volumes": report, "problems": notices(&policy.notices) }), &text)?;
    let needed = outcomes.iter().filter(|outcome| !outcome.nofail);
    let worst = needed.filter_map(|outcome| Some(outcome.result.as_ref().err()?.code())).max();
    // A line that makes no sense may have been about a volume that is missed now.
    let dropped = args.names.is_empty() && policy.notices.iter().any(Notice::drops_entry);
    Ok(worst.unwrap_or(if dropped { Code::Parameters as u8 } else { 0 }))
}

fn opened(outcome: &Outcome) -> Option<String> {
    outcome.result.as_ref().ok().map(|opened| path_text(opened.path()))
}

fn described(outcome: &Outcome) -> Value {
    let error = outcome.result.as_ref().err();
    json!({
        "name": outcome.name,
        "origin": outcome.origin.to_string(),
        "path": opened(outcome),
        "was_open": matches!(outcome.result, Ok(Opened::Before(_))),
        "nofail": outcome.nofail,
        "error": error.map(|error| json!({ "code": error.code(), "message": error.to_string() })),
    })
}

fn notices(notices: &[Notice]) -> Vec<Value> {
    let value = |notice: &Notice| {
        json!({
            "origin": notice.origin.to_string(),
            "message": notice.problem.to_string(),
            "drops_volume": notice.drops_entry(),
        })
    };
    notices.iter().map(value).collect()
}
