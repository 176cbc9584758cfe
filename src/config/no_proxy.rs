//! `NO_PROXY`: the hosts that are reached without a proxy, in the notation of curl and Go.

use std::net::IpAddr;

/// Whether this list exempts a host at a port. The host has no brackets.
pub(super) fn exempts(list: &str, host: &str, port: u16) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok();
    let mut entries = list.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
    entries.any(|entry| is_meant(&entry.to_ascii_lowercase(), &host, address, port))
}

fn is_meant(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    let (name, only_port) = without_port(entry);
    if only_port.is_some_and(|only| only.parse() != Ok(port)) {
        return false;
    }
    let Some(address) = address else {
        let name = name.strip_prefix('*').unwrap_or(name);
        let domain = name.trim_start_matches('.').trim_end_matches('.');
        let is_below = |host: &str| host.strip_suffix(domain).is_some_and(|start| start.ends_with('.'));
        return !domain.is_empty() && (host == domain || is_below(host));
    };
    match name.split_once('/') {
        Some((network, bits)) => network
            .parse()
            .is_ok_and(|network| bits.parse().is_ok_and(|bits| is_in(address, network, bits))),
        None => name.parse() == Ok(address),
    }
}

/// An entry's name without brackets, and its port if it names one.
fn without_port(entry: &str) -> (&str, Option<&str>) {
    if let Some((address, rest)) = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':'));
    }
    match entry.split_once(':') {
        // More than one colon: an IPv6 address.
        Some((name, port)) if !port.contains(':') => (name, Some(port)),
        Some(_) | None => (entry, None),
    }
}

/// True if an address is in a network whose first bits are these.
fn is_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let same = |address: u128, network: u128, width: u32| {
        bits <= width && (address ^ network).checked_shr(width - bits).unwrap_or(0) == 0
    };
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => same(address.to_bits().into(), network.to_bits().into(), 32),
        (IpAddr::V6(address), IpAddr::V6(network)) => same(address.to_bits(), network.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_exempts_the_hosts_that_curl_and_go_exempt() {
        let cases = [
            ("*", "b", true),
            ("a,*", "b", true),
            ("", "b", false),
            (",", "b", false),
            (".", "b", false),
            ("b", "b", true),
            ("B", "b.", true),
            ("b.", "B", true),
            ("b", "a.b", true),
            (".b", "a.b", true),
            (".b", "b", true),
            ("*.b", "a.b", true),
            ("b", "ab", false),
            ("a.b", "b", false),
            ("x, b", "b", true),
            ("x b", "b", true),
            ("svc.cluster.local", "backend.jobs.svc.cluster.local", true),
            ("b:8080", "b", true),
            ("b:8081", "b", false),
            ("b:x", "b", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1:8080", "10.0.0.1", true),
            ("10.0.0.1:1", "10.0.0.1", false),
            ("10.0.0.1", "10.0.0.10", false),
            ("0.0.1", "10.0.0.1", false),
            ("10.0.0.0/8", "10.9.8.7", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "11.0.0.1", true),
            ("10.0.0.0/33", "10.0.0.1", false),
            ("10.0.0.0/8", "b", false),
            ("::1", "::1", true),
            ("[::1]", "::1", true),
            ("[::1]:8080", "::1", true),
            ("[::1]:1", "::1", false),
            ("0:0::1", "::1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "10.0.0.1", false),
        ];
        for (list, host, expected) in cases {
            assert_eq!(exempts(list, host, 8080), expected, "{list} {host}");
        }
    }
}
