"""A network namespace of the test's own: the loopback device and nothing else, every port free. Root only."""
import ctypes
import fcntl
import os
import socket
import struct

import pytest

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def check(result):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@pytest.fixture
def own_network():
    """This process, and what it starts meanwhile, live in the new network until the test has ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open('/proc/self/ns/net', os.O_RDONLY | os.O_CLOEXEC)
    try:
        check(libc.unshare(CLONE_NEWNET))
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
                request = fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack('16sH22x', b'lo', 0))
                flags = struct.unpack('16sH22x', request)[1]
                fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack('16sH22x', b'lo', flags | IFF_UP))
            yield
        finally:
            check(libc.setns(before, CLONE_NEWNET))
    finally:
        os.close(before)
