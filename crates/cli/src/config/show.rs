//! `atrest config`.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, json};

use super::{Config, Settings, Value, file};
use crate::failure::Failure;
use crate::output::{Output, path_text, plain};

/// Shows what holds, and where it is said.
pub fn show(named: Option<&Path>, output: &Output) -> Result<(), Failure> {
    let config = Config::load(named)?;
    let from = match (named, std::env::var_os(file::VARIABLE)) {
        (Some(_), _) => "--config",
        (None, Some(_)) => file::VARIABLE,
        (None, None) => "the usual place",
    };
    let mut text = String::new();
    // cannot fail: it goes into a string.
    let _ = match (&config.file, file::place(named)) {
        (Some(path), _) => writeln!(text, "{} ({from})", path.display()),
        (None, Some((path, _))) => writeln!(text, "no configuration; it would be {}", path.display()),
        (None, None) => writeln!(text, "no configuration is read"),
    };
    if config.file.is_some() {
        table(&mut text, "defaults", &config.defaults);
        config.volumes.iter().for_each(|(name, settings)| table(&mut text, name, settings));
        if config.volumes.is_empty() {
            text.push_str("no volume has a name\n");
        }
    }
    let volumes: Map<String, serde_json::Value> =
        config.volumes.iter().map(|(name, settings)| (name.clone(), values(settings))).collect();
    output.report(
        &json!({
            "file": config.file.as_deref().map(path_text),
            "from": config.file.is_some().then_some(from),
            "defaults": values(&config.defaults),
            "volumes": volumes,
        }),
        &text,
    )
}

fn table(text: &mut String, name: &str, settings: &Settings) {
    if settings.values.is_empty() {
        return;
    }
    // cannot fail: it goes into a string.
    let _ = writeln!(text, "{name}");
    for (key, setting) in &settings.values {
        let value = match &setting.value {
            Value::Text(value) => plain(value).to_string(),
            Value::Number(value) => value.to_string(),
            Value::Flag(value) => value.to_string(),
        };
        let _ = writeln!(text, "  {key:<16} {value}  (line {})", setting.line);
    }
}

fn values(settings: &Settings) -> serde_json::Value {
    let values = settings.values.iter().map(|(key, setting)| {
        let value = match &setting.value {
            Value::Text(value) => json!(value),
            Value::Number(value) => json!(value),
            Value::Flag(value) => json!(value),
        };
        ((*key).to_owned(), json!({ "value": value, "line": setting.line }))
    });
    serde_json::Value::Object(values.collect())
}
