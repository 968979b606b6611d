"""What goes wrong between us and Redis."""


class Unreachable(Exception):
    """No connection, or it broke: nothing is known of what became of the command."""


class UnsupportedRedis(Unreachable):
    """This server or address will never do. Says why, without credentials."""
