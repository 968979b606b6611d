"""Who uses something in the tests of usage."""

from auth.holder import Holder
from auth.principal import Principal
from auth.record import DEFAULT_SCOPES, Limits


def caller(kid: str, project: str | None = None) -> Principal:
    return Principal(kid=kid, name=kid, scopes=DEFAULT_SCOPES, project=project)


def key(kid: str) -> Holder:
    return Holder("key", kid, Limits())


def project(name: str) -> Holder:
    return Holder("project", name, Limits())
