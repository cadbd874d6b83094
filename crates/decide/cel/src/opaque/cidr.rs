//! Networks: addresses with a prefix.

use core::net::IpAddr;

/// An address with the length of a network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    pub prefix: u32,
}

impl Cidr {
    pub fn parse(text: &str) -> Result<Cidr, String> {
        let problem = |reason: &str| {
            format!(
                "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {reason}"
            )
        };
        let (address, prefix) = text.rsplit_once('/').ok_or_else(|| problem("no '/'"))?;
        let address: IpAddr = address.parse().map_err(|_| problem("unable to parse IP"))?;
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit())
            && (prefix.len() == 1 || !prefix.starts_with('0'));
        let prefix = prefix.parse().ok().filter(|_| is_number);
        let prefix = prefix.ok_or_else(|| problem("bad bits after slash"))?;
        if prefix > bits(address) {
            return Err(problem("prefix length out of range"));
        }
        if is_mapped(address) {
            return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
        }
        Ok(Cidr { address, prefix })
    }

    pub fn masked(self) -> Cidr {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - self.prefix).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - self.prefix).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Cidr { address, ..self }
    }

    pub fn contains(self, address: IpAddr) -> bool {
        let other = Cidr { address, prefix: self.prefix };
        address.is_ipv4() == self.address.is_ipv4() && other.masked() == self.masked()
    }
}

fn bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

pub fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}
