"""Addresses of private networks, to which no public server may redirect.

An address that is not globally routed counts as private: loopback, link-local, the private ranges
of IPv4 and IPv6, carrier-grade NAT, multicast; and an IPv6 address that contains such an IPv4 one.
"""

import ipaddress
import socket
from contextlib import suppress

from nbaudio.storage.network import RedirectError

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# IPv6 networks whose last 32 bits are the IPv4 address that is meant: compatible and translated.
_WITH_IPV4 = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
_REASON = "it redirects from a public server to a private address, which is refused"


def is_private(address: IpAddress) -> bool:
    """Return whether an address is not one of the public Internet."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _embedded_ipv4(address)
        if inner is not None:
            return is_private(inner)
        if address.is_site_local:
            return True
    return address.is_multicast or not address.is_global


def _embedded_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for, if any."""
    if any(address in network for network in _WITH_IPV4):
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour


def is_private_url(url: str, *, resolves: bool) -> bool:
    """Return whether a URL names a private host: all of its addresses are private.

    Without `resolves`, as behind a proxy, only addresses and localhost are recognized.
    """
    addresses = _addresses(url, resolves=resolves)
    return bool(addresses) and all(map(is_private, addresses))


def check_redirect(url: str, *, resolves: bool) -> None:
    """Raise RedirectError if any address of the host of a URL is private.

    Without `resolves`, as behind a proxy, only addresses and localhost are recognized.
    """
    if any(map(is_private, _addresses(url, resolves=resolves))):
        raise RedirectError(_REASON)


def check_peer(connection: socket.socket) -> None:
    """Close a connection and raise RedirectError if it leads to a private address.

    A name may have another address than when it was checked.
    """
    if is_private(_parse(connection.getpeername()[0])):
        connection.close()
        raise RedirectError(_REASON)


def _addresses(url: str, *, resolves: bool) -> list[IpAddress]:
    """Return the addresses of the host of a URL; none if it has none or they are not known."""
    from urllib3.util import parse_url  # the parser of the client: two may disagree

    host = (parse_url(url).host or "").strip("[]").rstrip(".")
    if literal := _literal(host):
        return [literal]
    if host == "localhost" or host.endswith(".localhost"):
        return [ipaddress.IPv4Address("127.0.0.1")]
    if not resolves:
        return []
    with suppress(OSError, UnicodeError):  # the request says so
        rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return [_parse(str(row[4][0])) for row in rows]
    return []


def _literal(host: str) -> IpAddress | None:
    """Return the address that a host is written as, also as one number, octal or shortened."""
    with suppress(ValueError):
        return _parse(host)
    with suppress(OSError, UnicodeError):
        return ipaddress.IPv4Address(socket.inet_aton(host))
    return None


def _parse(address: str) -> IpAddress:
    return ipaddress.ip_address(address.partition("%")[0])
