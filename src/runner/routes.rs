//! The choice of a command for a job, by its type.

use std::ffi::OsString;

use crate::config::values::exec::ExecRoute;
use ojs_wire::runner::template::{Template, command_name};

/// The commands, and the types that each accepts.
#[derive(Debug)]
pub struct JobCommands {
    /// The first route that accepts a type counts.
    routes: Vec<(ExecRoute, RouteCommand)>,
    /// The command for all other types.
    rest: Option<RouteCommand>,
}

/// A command, and its place in the configuration.
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

impl JobCommands {
    /// The routes, and the command for types that none accepts; an empty one means none.
    ///
    /// # Errors
    ///
    /// A command has an unknown placeholder; for a person.
    pub fn new(routes: &[ExecRoute], rest: &[OsString]) -> Result<Self, String> {
        let with_command = |route: &ExecRoute| {
            let words: Vec<OsString> = route.command.iter().map(OsString::from).collect();
            Ok((route.clone(), RouteCommand::new(Some(&route.pattern), &words)?))
        };
        let rest = (!rest.is_empty()).then(|| RouteCommand::new(None, rest));
        Ok(Self {
            routes: routes.iter().map(with_command).collect::<Result<_, String>>()?,
            rest: rest.transpose()?,
        })
    }

    /// The command for a job of this type; `None` if no command accepts it.
    pub fn find(&self, kind: &str) -> Option<&RouteCommand> {
        let taker = self.routes.iter().find(|(route, _)| route.takes(kind));
        taker.map(|(_, command)| command).or(self.rest.as_ref())
    }

    /// Every command.
    pub fn commands(&self) -> impl Iterator<Item = &RouteCommand> {
        self.routes.iter().map(|(_, command)| command).chain(&self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    fn routes(patterns: &[&str], rest: &[&str]) -> JobCommands {
        let texts: Vec<String> = patterns
            .iter()
            .map(|pattern| format!("{pattern}\0for {pattern}"))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let routes = crate::config::values::exec::ExecRoutes::read(&texts, &()).unwrap().0;
        let rest: Vec<OsString> = rest.iter().map(OsString::from).collect();
        JobCommands::new(&routes, &rest).unwrap()
    }

    fn taken(routes: &JobCommands, kind: &str) -> Option<String> {
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
