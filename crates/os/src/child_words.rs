//! The paths of a child's program and the entries of its environment, as the kernel expects them.

use std::ffi::{CString, NulError, OsStr};
use std::os::unix::ffi::OsStrExt;

use crate::entry::value_of;

/// The search path of a command without a slash if the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The paths to try for `program`: itself when it contains a slash, else one for each directory of
/// PATH.
pub(crate) fn candidates(program: &OsStr, path: Option<&OsStr>) -> Result<Vec<CString>, NulError> {
    let program = program.as_bytes();
    if program.is_empty() {
        return Ok(Vec::new());
    }
    if program.contains(&b'/') {
        return Ok(vec![CString::new(program)?]);
    }
    let path = path.map_or(DEFAULT_PATH.as_bytes(), OsStr::as_bytes);
    path.split(|byte| *byte == b':')
        .map(|directory| {
            // An empty entry means the working directory.
            let separator: &[u8] = if directory.is_empty() { b"" } else { b"/" };
            CString::new([directory, separator, program].concat())
        })
        .collect()
}

/// These entries with the changes of [`ChildPlan::with_environment`].
pub(crate) fn changed<'a>(
    entries: impl Iterator<Item = &'a [u8]>,
    set: &[(&str, &OsStr)],
    remove: &[&str],
) -> Result<Vec<CString>, NulError> {
    let new = |(name, value): &(&str, &OsStr)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat());
    let mut result = Vec::new();
    let mut placed = vec![false; set.len()];
    for entry in entries {
        let mut names = set.iter().zip(&mut placed);
        if let Some((change, placed)) = names.find(|((name, _), _)| value_of(entry, name).is_some()) {
            if !std::mem::replace(placed, true) {
                result.push(new(change)?);
            }
        } else if !remove.iter().any(|name| value_of(entry, name).is_some()) {
            result.push(CString::new(entry)?);
        }
    }
    let missing = set.iter().zip(placed).filter(|(_, placed)| !placed);
    for (change, _) in missing {
        result.push(new(change)?);
    }
    Ok(result)
}
