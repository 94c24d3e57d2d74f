"""Failures of the library as exceptions; ASYNCMESH_AGAIN never is one."""
from . import _c


class Error(RuntimeError):
    """A call failed. `status` is the code of asyncmesh.h, the text is the library's own."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Timeout(Error, TimeoutError):
    """The deadline passed; state is consistent, the call may be repeated."""


class PeerLost(Error):
    """A peer died or was removed; the text names it."""


class InvalidArgument(Error, ValueError):
    pass


class InvalidState(Error):
    pass


class Refused(Error, PermissionError):
    """Wrong secret."""


class Mismatch(Error):
    """Ranks disagree: version, geometry or parameter table."""


class Canceled(Error):
    pass


_TYPES = {_c.TIMEOUT: Timeout, _c.PEER_LOST: PeerLost, _c.INVALID_ARGUMENT: InvalidArgument, _c.TOO_LARGE: InvalidArgument,
          _c.INVALID_STATE: InvalidState, _c.REFUSED: Refused, _c.MISMATCH: Mismatch, _c.CANCELED: Canceled}


def check(status):
    """Raises for every status but OK."""
    if status != _c.OK:
        name = _c.functions.status_name(status).decode()
        text = _c.functions.last_error().decode() or name
        raise _TYPES.get(status, Error)(status, f'{name}: {text}')


def check_again(status):
    """True for OK, False for AGAIN, raises otherwise."""
    if status == _c.AGAIN:
        return False
    check(status)
    return True
