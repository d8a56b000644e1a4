"""Whom a client address stands for, where connections, failures and log lines are counted."""

import ipaddress

_IPV6_PREFIX = 64
"""A subscriber has at least so many addresses: bits of a network that count as one."""

_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""Prefix of NAT64 (RFC 6052): the last 32 bits are the IPv4 address of the client."""


def counted_source(address: str) -> str:
    """Return what is counted for an address: itself, or the network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # a Unix socket, or no address
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    if found in _TRANSLATED:
        return str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF))
    if found.is_loopback:
        return address
    return str(ipaddress.ip_network((int(found), _IPV6_PREFIX), strict=False))
