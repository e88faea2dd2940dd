//! The files that S3's tools share: `~/.aws/credentials` and `~/.aws/config` ("Configuration and credential file settings", reference
//! guide of the AWS SDKs and tools).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use atrest_secret::wipe;

use crate::CloudError;

/// Longest file.
const MOST: u64 = 1 << 20;

/// The settings of one profile. Those of a group, such as `s3`, have its name and a dot before theirs.
#[derive(Default)]
pub(crate) struct Profile(BTreeMap<String, String>);

impl Drop for Profile {
    fn drop(&mut self) {
        self.0.values_mut().for_each(|value| wipe(&mut std::mem::take(value).into_bytes()));
    }
}

impl Profile {
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// The profile of a file that has one of these headings; `None` if there is none, or no such file.
pub(crate) fn read(path: &Path, headings: &[String]) -> Result<Option<Profile>, CloudError> {
    let unreadable = || CloudError::File { path: path.into() };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(unreadable()),
    };
    // It never grows: what it had grown out of would keep secrets.
    let mut text = String::with_capacity(MOST as usize + 1);
    let len = file.take(MOST + 1).read_to_string(&mut text).map_err(|_| unreadable())?;
    if len as u64 > MOST {
        return Err(unreadable());
    }
    let section = section(&text, headings);
    wipe(&mut text.into_bytes());
    Ok(section)
}

/// Of several sections with the heading a later setting counts.
fn section(text: &str, headings: &[String]) -> Option<Profile> {
    let mut profile: Option<Profile> = None;
    let (mut here, mut group) = (false, String::new());
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(heading) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let heading = heading.split_whitespace().collect::<Vec<_>>().join(" ");
            here = headings.contains(&heading);
            group.clear();
            if here {
                profile.get_or_insert_default();
            }
            continue;
        }
        let (Some(profile), true) = (&mut profile, here) else { continue };
        let Some((name, value)) = trimmed.split_once('=') else { continue };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if line.starts_with([' ', '\t']) {
            if !group.is_empty() {
                profile.0.insert(format!("{group}.{name}"), value.into());
            }
            continue;
        }
        group = if value.is_empty() { name.clone() } else { String::new() };
        profile.0.insert(name, value.into());
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_its_sections_and_the_groups_in_them() {
        let text = "# mine\n[default]\nregion = eu-west-1\n[ profile  work ]\nregion=eu-central-1 \n  x = ignored\ns3 =\n  addressing_style = path\n\
                    output = json\n  y = ignored\n[other]\nregion = us-east-2\n[profile work]\nRegion = eu-north-1\n";
        let of = |heading: &str| section(text, &[heading.into()]);
        assert_eq!(of("default").expect("it").setting("region"), Some("eu-west-1"));
        let work = of("profile work").expect("it");
        assert_eq!(
            (work.setting("region"), work.setting("s3.addressing_style")),
            (Some("eu-north-1"), Some("path"))
        );
        assert_eq!(
            (work.setting("x"), work.setting("s3.y"), work.setting("output")),
            (None, None, Some("json"))
        );
        assert!(of("work").is_none());
    }
}
