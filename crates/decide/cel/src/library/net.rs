//! IP addresses and networks.

use core::net::IpAddr;

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::opaque::cidr::{Cidr, is_mapped};
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
    ("ip", "s:I", Cost::Text(0), |args, _| Ok(Value::Ip(parse_ip(text(args)?)?))),
    ("ip", "C.:I", Cost::One, address),
    ("isIP", "s:b", Cost::Text(0), |args, _| Ok(Value::Bool(parse_ip(text(args)?).is_ok()))),
    ("ip.isCanonical", "s:b", Cost::TextTwice(0), is_canonical),
    ("family", "I.:i", Cost::One, family),
    ("isUnspecified", "I.:b", Cost::One, |args, _| of_ip(args, |address| address.is_unspecified())),
    ("isLoopback", "I.:b", Cost::One, |args, _| of_ip(args, |address| address.is_loopback())),
    ("isLinkLocalMulticast", "I.:b", Cost::One, |args, _| of_ip(args, local_multicast)),
    ("isLinkLocalUnicast", "I.:b", Cost::One, |args, _| of_ip(args, local_unicast)),
    ("isGlobalUnicast", "I.:b", Cost::One, is_global_unicast),
    ("cidr", "s:C", Cost::Text(0), cidr),
    ("isCIDR", "s:b", Cost::Text(0), |args, _| Ok(Value::Bool(Cidr::parse(text(args)?).is_ok()))),
    ("containsIP", "C.s:b", Cost::StepsAndText(4), contains_ip),
    ("containsIP", "C.I:b", Cost::Steps(4), contains_ip),
    ("containsCIDR", "C.s:b", Cost::StepsAndText(7), contains_cidr),
    ("containsCIDR", "C.C:b", Cost::Steps(7), contains_cidr),
    ("prefixLength", "C.:i", Cost::One, |args, _| Ok(Value::Int(i64::from(network(args)?.prefix)))),
    ("masked", "C.:C", Cost::One, |args, _| Ok(Value::Cidr(network(args)?.masked()))),
    ("string", "I:s|C:s", Cost::One, to_string),
];

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') && text.split('%').next().is_some_and(|address| address.parse::<IpAddr>().is_ok()) {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        )
    })?;
    if is_mapped(address) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok(address)
}

fn text(arguments: &[Value]) -> Result<&str, Failure> {
    match arguments.first() {
        Some(Value::String(text)) => Ok(text),
        _ => Err("no such overload".into()),
    }
}

fn is_canonical(arguments: &[Value], _: &mut Budget) -> Outcome {
    let text = text(arguments)?;
    Ok(Value::Bool(parse_ip(text)?.to_string() == text))
}

fn cidr(arguments: &[Value], _: &mut Budget) -> Outcome {
    let parsed = Cidr::parse(text(arguments)?);
    let parsed = parsed
        .map_err(|reason| format!("network address parse error during conversion from string: {reason}"));
    Ok(Value::Cidr(parsed?))
}

fn of_ip(arguments: &[Value], property: impl Fn(IpAddr) -> bool) -> Outcome {
    match arguments {
        [Value::Ip(address)] => Ok(Value::Bool(property(*address))),
        _ => Err("no such overload".into()),
    }
}

fn family(arguments: &[Value], _: &mut Budget) -> Outcome {
    match arguments {
        [Value::Ip(address)] => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        _ => Err("no such overload".into()),
    }
}

fn local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(arguments: &[Value], _: &mut Budget) -> Outcome {
    of_ip(arguments, |address| {
        let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        !is_broadcast
            && !address.is_unspecified()
            && !address.is_loopback()
            && !address.is_multicast()
            && !local_unicast(address)
    })
}

fn network(arguments: &[Value]) -> Result<Cidr, Failure> {
    match arguments.first() {
        Some(Value::Cidr(cidr)) => Ok(*cidr),
        _ => Err("no such overload".into()),
    }
}

fn address(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Ip(network(arguments)?.address))
}

fn contains_ip(arguments: &[Value], _: &mut Budget) -> Outcome {
    let other = match arguments.get(1) {
        Some(Value::Ip(address)) => *address,
        Some(Value::String(text)) => parse_ip(text)?,
        _ => return Err("no such overload".into()),
    };
    Ok(Value::Bool(network(arguments)?.contains(other)))
}

fn contains_cidr(arguments: &[Value], _: &mut Budget) -> Outcome {
    let other = match arguments.get(1) {
        Some(Value::Cidr(other)) => *other,
        Some(Value::String(text)) => Cidr::parse(text)?,
        _ => return Err("no such overload".into()),
    };
    let network = network(arguments)?;
    Ok(Value::Bool(network.prefix <= other.prefix && network.contains(other.address)))
}

fn to_string(arguments: &[Value], _: &mut Budget) -> Outcome {
    match arguments {
        [Value::Ip(address)] => Ok(Value::string(address.to_string())),
        [Value::Cidr(cidr)] => Ok(Value::string(format!("{}/{}", cidr.address, cidr.prefix))),
        _ => Err("no such overload".into()),
    }
}
