//! The collector of traces that OpenTelemetry's variable for all signals names, if no variable is
//! about traces alone.

use super::keys::{OTEL_ALL, OTEL_ENDPOINT};
use super::settings::Settings;

/// Sets `otel.endpoint` to the path for traces at the address for everything, unless the command
/// line or the variable for traces has set it. `off` counts wherever it stands.
pub(super) fn apply(settings: &mut Settings) {
    let source = settings.source(&OTEL_ALL).clone();
    let is_off = settings
        .value(&OTEL_ENDPOINT)
        .is_some_and(|endpoint| endpoint.0.is_none());
    let is_nearer = settings.source(&OTEL_ENDPOINT).rank() <= source.rank();
    let is_set_nearer = settings.is_set(&OTEL_ENDPOINT) && (is_nearer || is_off);
    if let Some(all) = settings.value(&OTEL_ALL).filter(|_| !is_set_nearer) {
        settings.replace(&OTEL_ENDPOINT, Some(all.for_traces()), source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::show;
    use crate::config::test_support::Given;

    fn endpoint(given: Given) -> Option<String> {
        let url = given.config().otel.endpoint;
        url.map(|url| url.as_str().to_owned())
    }

    #[test]
    fn the_variable_for_traces_goes_before_that_for_everything_and_the_command_line_before_both() {
        let all = || Given::agent().variable("OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/");
        assert_eq!(endpoint(Given::agent()), None);
        assert_eq!(endpoint(all()).as_deref(), Some("http://c:4318/v1/traces"));
        let both = || all().variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/x");
        assert_eq!(endpoint(both()).as_deref(), Some("http://t/x"));
        assert_eq!(both().config().warnings, [""; 0]);
        assert_eq!(endpoint(both().flag(&OTEL_ENDPOINT, "off")), None);
        assert_eq!(endpoint(all().variable("OTEL_SDK_DISABLED=true")), None);
        assert_eq!(endpoint(all().file("[otel]\nendpoint = \"off\"")), None);
        let in_file = all().file("[otel]\nendpoint = \"http://f/x\"");
        assert_eq!(endpoint(in_file).as_deref(), Some("http://c:4318/v1/traces"));
    }

    #[test]
    fn a_variable_that_only_other_programs_understand_is_a_warning() {
        let given = Given::agent().variable("OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317");
        let warnings = given.config().warnings;
        let [warning] = warnings.as_slice() else {
            panic!("{warnings:?}")
        };
        assert!(
            warning.contains("collector:4317") && warning.contains("COMMAND"),
            "{warning}"
        );
    }

    #[test]
    fn the_values_of_headers_are_shown_nowhere() {
        let given = Given::agent()
            .variable("OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318")
            .variable("OTEL_EXPORTER_OTLP_HEADERS=x-api-key=hunter2");
        let config = given.config();
        assert_eq!(config.otel.headers[0].value, "hunter2");
        assert!(!show(&config).contains("hunter2") && !format!("{config:?}").contains("hunter2"));
        assert!(show(&config).contains("x-api-key: (not shown)"));
        let refused = Given::agent().variable("OTEL_EXPORTER_OTLP_HEADERS=hunter2").config();
        assert!(!refused.warnings[0].contains("hunter2"), "{:?}", refused.warnings);
    }

    #[test]
    fn the_name_of_the_service_goes_before_the_attribute() {
        let resource = |given: Given| given.config().otel.resource;
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let name = "service.name";
        assert_eq!(resource(Given::agent()), [pair(name, "unknown_service:ojs-init")]);
        let attributes = || Given::agent().variable("OTEL_RESOURCE_ATTRIBUTES=team=mail,service.name=a");
        assert_eq!(resource(attributes()), [pair("team", "mail"), pair(name, "a")]);
        let named = attributes().variable("OTEL_SERVICE_NAME=b");
        assert_eq!(resource(named), [pair(name, "b"), pair("team", "mail")]);
    }
}
