"""No server is open to strangers by accident."""

import ipaddress

from auth.authenticator import Authenticator
from cli.settings import Settings
from observability.logs import get_logger


class Exposed(Exception):
    """A server that strangers can reach and that has no keys."""


def refuse_exposure(settings: Settings, authenticator: Authenticator) -> None:
    """Raises Exposed for an address beyond loopback without keys, unless told `--no-auth`."""
    if not authenticator.is_open:
        return
    if settings.no_auth or _is_loopback(settings.host):
        get_logger().warning("open", reason="no key exists: whoever reaches this port may call it")
        return
    raise Exposed(
        f"refusing to serve {settings.host} to strangers: make a key with "
        "`florilege keys create --name NAME`, or say --no-auth"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name that may resolve to anything
