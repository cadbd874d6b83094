//! IP addresses of nodes and pods.

use std::net::Ipv4Addr;

use rustc_hash::FxHashSet;

/// A network whose addresses are assigned to one holder at a time.
pub(crate) struct AddressPool {
    first: u32,
    n_addresses: u32,
    /// Offset of the next candidate: addresses are reused as late as possible.
    next: u32,
    taken: FxHashSet<u32>,
}

impl AddressPool {
    /// 10.0.0.0/8, without 10.0.0.0 and the broadcast address.
    pub(crate) fn of_pods() -> AddressPool {
        AddressPool::new(Ipv4Addr::new(10, 0, 0, 1), (1 << 24) - 2)
    }

    /// 172.16.0.0/12, without its first address and its broadcast address.
    pub(crate) fn of_nodes() -> AddressPool {
        AddressPool::new(Ipv4Addr::new(172, 16, 0, 1), (1 << 20) - 2)
    }

    fn new(first: Ipv4Addr, n_addresses: u32) -> AddressPool {
        AddressPool { first: first.into(), n_addresses, next: 0, taken: FxHashSet::default() }
    }

    /// Returns a free address; when all are taken, one that is shared.
    pub(crate) fn take(&mut self) -> Ipv4Addr {
        let mut address = self.first + self.next;
        for _ in 0..=self.taken.len().min(self.n_addresses as usize) {
            address = self.first + self.next;
            self.next = (self.next + 1) % self.n_addresses;
            if self.taken.insert(address) {
                break;
            }
        }
        address.into()
    }

    /// Marks an address as taken. Addresses outside the network are ignored.
    pub(crate) fn reserve(&mut self, address: Ipv4Addr) {
        let address = u32::from(address);
        if (self.first..self.first + self.n_addresses).contains(&address) {
            self.taken.insert(address);
        }
    }

    pub(crate) fn release(&mut self, address: Ipv4Addr) {
        self.taken.remove(&u32::from(address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_reused_late() {
        let mut pool = AddressPool::new(Ipv4Addr::new(10, 0, 0, 1), 4);
        pool.reserve(Ipv4Addr::new(10, 0, 0, 2));
        pool.reserve(Ipv4Addr::new(192, 168, 0, 1));
        let last = |pool: &mut AddressPool| pool.take().octets()[3];
        assert_eq!([last(&mut pool), last(&mut pool)], [1, 3]);
        pool.release(Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!([last(&mut pool), last(&mut pool)], [4, 1]);
        // All are taken: the address is shared.
        assert!((1..=4).contains(&last(&mut pool)));
    }
}
