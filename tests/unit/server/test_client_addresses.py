"""Whom a client address stands for."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattveil.server.client_addresses import counted_source


@given(st.ip_addresses(v=4))
def test_ipv4_addresses_count_singly(address: ipaddress.IPv4Address) -> None:
    """Also where a socket of IPv6 has accepted them, or NAT64 has translated them."""
    assert counted_source(str(address)) == str(address)
    assert counted_source(f"::ffff:{address}") == str(address)
    assert counted_source(f"64:ff9b::{address}") == str(address)


@given(st.ip_addresses(v=6, network="2000::/3"), st.integers(0, 2**128 - 1))
def test_ipv6_addresses_count_by_network(address: ipaddress.IPv6Address, other: int) -> None:
    """Equal for the same first 64 bits, different for others."""
    second = ipaddress.IPv6Address((int(address) >> 64 << 64) | other % 2**64)
    third = ipaddress.IPv6Address(int(address) ^ (1 << 64))
    assert counted_source(str(address)) == counted_source(str(second))
    assert counted_source(str(address)) != counted_source(str(third))


@pytest.mark.parametrize("address", ["", "::1", "somewhere", "127.0.0.1"])
def test_other_sources_are_kept(address: str) -> None:
    """The loopback interface, a Unix socket, no address."""
    assert counted_source(address) == address
