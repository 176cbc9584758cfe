//! Which command takes a job, by its type.

use std::collections::BTreeMap;
use std::ffi::OsString;

use ojs_wire::runner::settings::RouteSetting;
use ojs_wire::runner::template::{Template, command_name};

/// The commands, and which types each of them takes.
#[derive(Debug)]
pub struct Routes {
    exact: BTreeMap<String, usize>,
    /// Beginnings of types, the longest first.
    beginnings: Vec<(String, usize)>,
    /// The one that takes the rest.
    rest: Option<usize>,
    commands: Vec<RouteCommand>,
}

/// A command, and where it stands in the configuration.
#[derive(Debug)]
pub struct RouteCommand {
    pub name: String,
    pub template: Template,
}

impl RouteCommand {
    fn new(pattern: Option<&str>, words: &[OsString]) -> Result<Self, String> {
        let name = command_name(pattern);
        let template = Template::read(words).map_err(|problem| format!("{name}: {problem}"))?;
        Ok(Self { name, template })
    }
}

impl Routes {
    /// The routes, and the command for what none of them takes; an empty one is none.
    ///
    /// # Errors
    ///
    /// A command has a placeholder that is none; for a person.
    pub fn new(routes: &[RouteSetting], rest: &[OsString]) -> Result<Self, String> {
        let (mut exact, mut beginnings, mut commands) = (BTreeMap::new(), Vec::new(), Vec::new());
        for route in routes {
            match route.pattern.strip_suffix('*') {
                Some(beginning) => beginnings.push((beginning.to_owned(), commands.len())),
                None => {
                    exact.insert(route.pattern.clone(), commands.len());
                }
            }
            let words: Vec<OsString> = route.command.iter().map(OsString::from).collect();
            commands.push(RouteCommand::new(Some(&route.pattern), &words)?);
        }
        beginnings.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        let has_rest = !rest.is_empty();
        let rest_index = commands.len();
        if has_rest {
            commands.push(RouteCommand::new(None, rest)?);
        }
        Ok(Self {
            exact,
            beginnings,
            rest: has_rest.then_some(rest_index),
            commands,
        })
    }

    /// The command for a job of this type; none: nobody takes it.
    pub fn find(&self, kind: &str) -> Option<&RouteCommand> {
        let by_beginning = || {
            let mut fitting = self.beginnings.iter();
            fitting.find(|(beginning, _)| kind.starts_with(beginning.as_str()))
        };
        let index = self.exact.get(kind).copied();
        let index = index
            .or_else(|| by_beginning().map(|(_, index)| *index))
            .or(self.rest)?;
        self.commands.get(index)
    }

    /// Every command.
    pub fn commands(&self) -> impl Iterator<Item = &RouteCommand> {
        self.commands.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(patterns: &[&str], rest: &[&str]) -> Routes {
        let route = |pattern: &&str| RouteSetting {
            pattern: (*pattern).to_owned(),
            command: vec![format!("for {pattern}")],
        };
        let routes: Vec<_> = patterns.iter().map(route).collect();
        let rest: Vec<OsString> = rest.iter().map(OsString::from).collect();
        Routes::new(&routes, &rest).unwrap()
    }

    fn taken(routes: &Routes, kind: &str) -> Option<String> {
        Some(routes.find(kind)?.template.program().into_string().unwrap())
    }

    #[test]
    fn the_longest_pattern_that_fits_decides_and_the_command_takes_the_rest() {
        let routes = routes(&["video.*", "video.encode", "video.encode*", "*"], &["rest"]);
        for (kind, expected) in [
            ("video.encode", "for video.encode"),
            ("video.encode.hd", "for video.encode*"),
            ("video.", "for video.*"),
            ("video.cut", "for video.*"),
            ("video", "for *"),
            ("", "for *"),
        ] {
            assert_eq!(taken(&routes, kind).as_deref(), Some(expected), "{kind}");
        }
    }

    #[test]
    fn without_a_command_for_the_rest_the_rest_is_nobodys() {
        let routes = routes(&["mail.send"], &[]);
        assert_eq!(taken(&routes, "mail.send").as_deref(), Some("for mail.send"));
        assert_eq!(taken(&routes, "mail.sent"), None);
        assert_eq!(taken(&self::routes(&[], &["rest"]), "any").as_deref(), Some("rest"));
    }
}
