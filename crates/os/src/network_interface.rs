//! Network interfaces: the one with an address, and whether its card notes when packets leave and arrive.
//!
//! Invariant: nothing here changes the settings of an interface.

use std::{
    ffi::CStr,
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use crate::check;

/// A network interface of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NetworkInterface {
    name: [libc::c_char; libc::IFNAMSIZ],
    pub(crate) index: u32,
}

impl NetworkInterface {
    /// The interface with this address.
    ///
    /// # Errors
    /// No interface has it, or the system does not list them.
    pub(crate) fn with_address(address: IpAddr) -> io::Result<Self> {
        let mut list = ptr::null_mut();
        // SAFETY: the list is written to a live pointer, and is freed below.
        check(unsafe { libc::getifaddrs(&raw mut list) })?;
        let (mut next, mut found) = (list, None);
        // SAFETY: each entry is either null or lives until the list is freed.
        while let Some(entry) = unsafe { next.as_ref() } {
            next = entry.ifa_next;
            // SAFETY: the address is that of an entry of the list.
            if unsafe { ip_of(entry.ifa_addr) } == Some(address) {
                // SAFETY: the name ends with a zero and lives as long as its entry.
                found = Some(Self::named(unsafe { CStr::from_ptr(entry.ifa_name) }));
                break;
            }
        }
        // SAFETY: the list is the one from above, and no borrow of it is left.
        unsafe { libc::freeifaddrs(list) };
        found.filter(|found| found.index > 0).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                format!("no network interface has the address {address}"),
            )
        })
    }

    /// The interface with this name; its number is 0 if it does not exist.
    fn named(text: &CStr) -> Self {
        let mut name = [0; libc::IFNAMSIZ];
        // The last byte stays zero.
        for (to, from) in name.iter_mut().take(libc::IFNAMSIZ - 1).zip(text.to_bytes()) {
            *to = *from as libc::c_char;
        }
        // SAFETY: the name ends with a zero.
        Self { name, index: unsafe { libc::if_nametoindex(text.as_ptr()) } }
    }

    fn name(&self) -> String {
        self.name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
    }

    /// Checks that the card notes when every packet leaves and arrives; `socket` is any socket.
    ///
    /// # Errors
    /// The card does not; the text gives the reason and the remedy.
    pub(crate) fn check_packet_times(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: integers, for which all zeros is a value.
        let mut settings: libc::hwtstamp_config = unsafe { mem::zeroed() };
        // SAFETY: integers and pointers, for which all zeros is a value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_name = self.name;
        request.ifr_ifru.ifru_data = (&raw mut settings).cast();
        // SAFETY: the request is live, its name ends with a zero, and it points to live settings, which the kernel writes.
        let result =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGHWTSTAMP as _, &raw mut request) };
        check(result).map_err(|error| {
            let name = self.name();
            let text =
                format!("the card of {name} takes no times of packets (SIOCGHWTSTAMP): {error}");
            io::Error::new(error.kind(), text)
        })?;
        self.check_settings(&settings)
    }

    fn check_settings(&self, settings: &libc::hwtstamp_config) -> io::Result<()> {
        let lacks = match (settings.tx_type as u32, settings.rx_filter as u32) {
            (libc::HWTSTAMP_TX_OFF, _) => "packets that leave",
            (_, libc::HWTSTAMP_FILTER_ALL) => return Ok(()),
            _ => "all packets that arrive",
        };
        let name = self.name();
        Err(io::Error::other(format!(
            "the card of {name} does not take the times of {lacks}; as root: hwstamp_ctl -i {name} -t 1 -r 1"
        )))
    }
}

/// The address, if it is IPv4 or IPv6.
///
/// # Safety
/// The pointer is null or that of a socket address of the length that its family requires.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: by the caller's promise it is null or an address, each of which begins with its family.
    match libc::c_int::from(unsafe { address.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a `sockaddr_in`; it is copied, wherever it lies.
            let found = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(found.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, with a `sockaddr_in6`.
            let found = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(found.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interface is found by its address; an address that no interface has is named.
    #[test]
    fn an_interface_is_found_by_its_address() {
        let found = NetworkInterface::with_address(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!(found.name(), "lo");
        assert_eq!(found, NetworkInterface::named(c"lo"));
        let error = NetworkInterface::with_address(Ipv6Addr::UNSPECIFIED.into()).unwrap_err();
        assert_eq!(error.to_string(), "no network interface has the address ::");
        assert_eq!(NetworkInterface::named(c"no-such-interface").index, 0);
    }

    /// A card that takes the times of some packets only is refused, with the command that changes it.
    #[test]
    fn a_card_takes_the_times_of_all_packets() {
        let interface = NetworkInterface::named(c"eth7");
        let check = |tx_type: u32, rx_filter: u32| {
            let settings = libc::hwtstamp_config {
                flags: 0,
                tx_type: tx_type as libc::c_int,
                rx_filter: rx_filter as libc::c_int,
            };
            interface.check_settings(&settings).map_err(|error| error.to_string())
        };
        assert_eq!(check(libc::HWTSTAMP_TX_ON, libc::HWTSTAMP_FILTER_ALL), Ok(()));
        let remedy = "as root: hwstamp_ctl -i eth7 -t 1 -r 1";
        for (tx_type, rx_filter, lacks) in [
            (libc::HWTSTAMP_TX_OFF, libc::HWTSTAMP_FILTER_ALL, "packets that leave"),
            (libc::HWTSTAMP_TX_ON, libc::HWTSTAMP_FILTER_NONE, "all packets that arrive"),
            (libc::HWTSTAMP_TX_ON, libc::HWTSTAMP_FILTER_PTP_V2_EVENT, "all packets that arrive"),
        ] {
            let expected = format!("the card of eth7 does not take the times of {lacks}; {remedy}");
            assert_eq!(check(tx_type, rx_filter), Err(expected));
        }
    }
}
