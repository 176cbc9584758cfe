//! The C library's name look-up, one address family at a time: musl fails a look-up of both as a
//! whole if one half fails.

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::ptr;

use nix::sys::socket::{SockaddrLike, SockaddrStorage};

/// The kind of address that a name is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4: a record of type A.
    V4,
    /// IPv6: a record of type AAAA.
    V6,
}

/// Why a look-up found no address.
#[derive(Debug)]
pub enum NameError {
    /// The name does not exist.
    NoName,
    /// The name exists and has no address of this family.
    NoAddress,
    /// No answer can be relied on: the name server failed or did not answer, or the system could
    /// not ask it.
    Failed(String),
}

/// The addresses of this family that `host` has, with this port. Blocks for as long as the C
/// library's time-outs allow.
///
/// # Errors
///
/// The host has no address, or the lookup failed.
pub fn lookup(host: &str, port: u16, family: AddressFamily) -> Result<Vec<SocketAddr>, NameError> {
    let host = CString::new(host).map_err(|_| NameError::NoName)?;
    // SAFETY: all zeros is a valid addrinfo: no flags, no protocol, and null pointers.
    let mut hints: libc::addrinfo = unsafe { mem::zeroed() };
    hints.ai_family = match family {
        AddressFamily::V4 => libc::AF_INET,
        AddressFamily::V6 => libc::AF_INET6,
    };
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut list = ptr::null_mut();
    // SAFETY: the name ends with a NUL, the hints are valid, and the list is written only on
    // success.
    let code = unsafe { libc::getaddrinfo(host.as_ptr(), ptr::null(), &raw const hints, &raw mut list) };
    if code != 0 {
        return Err(error_of(code));
    }
    let mut addresses = Vec::new();
    let mut entry = list.cast_const();
    // SAFETY: getaddrinfo made the list; each entry is valid until it is freed below.
    while let Some(info) = unsafe { entry.as_ref() } {
        addresses.extend(address_of(info, port));
        entry = info.ai_next;
    }
    // SAFETY: the list came from getaddrinfo, is freed once, and nothing points into it any more.
    unsafe { libc::freeaddrinfo(list) };
    addresses.dedup();
    if addresses.is_empty() {
        return Err(NameError::NoAddress);
    }
    Ok(addresses)
}

/// The address with this port; `None` if it is of another family.
fn address_of(info: &libc::addrinfo, port: u16) -> Option<SocketAddr> {
    // SAFETY: null, or `ai_addrlen` bytes that the C library has filled with an address.
    let address = unsafe { SockaddrStorage::from_raw(info.ai_addr, Some(info.ai_addrlen)) }?;
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    let v6 = address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()));
    let mut address = v4.or(v6)?;
    address.set_port(port);
    Some(address)
}

fn error_of(code: libc::c_int) -> NameError {
    // The system's own error is only valid until the next call.
    let system = io::Error::last_os_error();
    match code {
        libc::EAI_NONAME => NameError::NoName,
        libc::EAI_NODATA | EAI_ADDRFAMILY | libc::EAI_FAMILY => NameError::NoAddress,
        libc::EAI_SYSTEM => NameError::Failed(system.to_string()),
        _ => {
            // SAFETY: gai_strerror returns a constant string for every code.
            let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
            NameError::Failed(text.to_string_lossy().into_owned())
        }
    }
}

/// glibc's code for a name without an address of the family; the libc crate does not have it.
const EAI_ADDRFAMILY: libc::c_int = -9;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its answer has failed")]
mod tests {
    use super::*;

    #[test]
    fn a_numeric_address_and_this_machine_are_found_by_family() {
        let found = |host, family| lookup(host, 80, family);
        assert_eq!(
            found("10.0.0.1", AddressFamily::V4).unwrap(),
            ["10.0.0.1:80".parse().unwrap()]
        );
        assert_eq!(found("::1", AddressFamily::V6).unwrap(), ["[::1]:80".parse().unwrap()]);
        assert!(matches!(
            found("10.0.0.1", AddressFamily::V6),
            Err(NameError::NoAddress | NameError::NoName)
        ));
        let localhost = found("localhost", AddressFamily::V4).unwrap();
        assert!(!localhost.is_empty() && localhost.iter().all(|address| address.ip().is_loopback()));
    }

    #[test]
    fn what_is_no_name_is_not_found_and_does_no_harm() {
        let long = "a".repeat(70_000);
        for host in ["", "a\0b", &long] {
            for family in [AddressFamily::V4, AddressFamily::V6] {
                assert!(lookup(host, 80, family).is_err(), "{host}");
            }
        }
    }
}
