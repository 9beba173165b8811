"""A file system that can be told to stop answering, as a dead disk or file server does.

Speaks the kernel's FUSE protocol (linux/fuse.h, 7.31) itself, so that it needs no package: root and /dev/fuse are enough. Flat: files in
one directory. Nothing is cached by the kernel, so each look at a file asks us.
"""
import ctypes
import os
import stat
import struct
import threading
import time

LOOKUP, GETATTR, STATFS, OPEN, READ, RELEASE, INIT, OPENDIR, READDIR, RELEASEDIR = 1, 3, 17, 14, 15, 18, 26, 27, 28, 29
FORGET, FLUSH, INTERRUPT, BATCH_FORGET = 2, 25, 36, 42
ENOENT, ENOSYS = 2, 38
MNT_DETACH = 2

libc = ctypes.CDLL(None, use_errno=True)


class Unavailable(Exception):
    """No FUSE here: the test is to be skipped."""


class StallingFs:
    """files: name -> bytes, may be changed at any time. hold(READ…) lets requests of these kinds wait until release()."""

    def __init__(self, mountpoint, files):
        self.mountpoint, self.files = str(mountpoint), dict(files)
        self.held_kinds, self.held, self.lock = set(), [], threading.Lock()
        self.mtime = int(time.time()) - 3600
        try:
            self.fd = os.open('/dev/fuse', os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise Unavailable(f'/dev/fuse: {error}')
        options = f'fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other'
        if libc.mount(b'stalling', self.mountpoint.encode(), b'fuse', 0, options.encode()) != 0:
            os.close(self.fd)
            raise Unavailable(f'mount: {os.strerror(ctypes.get_errno())}')
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def hold(self, *kinds):
        with self.lock:
            self.held_kinds = set(kinds)

    def waiting(self):
        with self.lock:
            return len(self.held)

    def release(self):
        with self.lock:
            self.held_kinds, held, self.held = set(), self.held, []
        for request in held:
            self._answer(*request)

    def close(self):
        self.hold()
        self.release()
        libc.umount2(self.mountpoint.encode(), MNT_DETACH)
        self.thread.join(10)
        os.close(self.fd)

    def _serve(self):
        while True:
            try:
                data = os.read(self.fd, 1 << 20)
            except InterruptedError:
                continue
            except OSError:  # ENODEV: unmounted.
                return
            _, kind, unique, node = struct.unpack_from('<IIQQ', data)
            with self.lock:
                if kind in self.held_kinds:
                    self.held.append((kind, unique, node, data[40:]))
                    continue
            self._answer(kind, unique, node, data[40:])

    def _reply(self, unique, payload=b'', error=0):
        try:
            os.write(self.fd, struct.pack('<IiQ', 16 + len(payload), -error, unique) + payload)
        except OSError:
            pass  # The one who asked has gone.

    def _names(self):
        return sorted(self.files)

    def _attributes(self, node):
        if node == 1:
            size, mode = 0, stat.S_IFDIR | 0o755
        else:
            size, mode = len(self.files[self._names()[node - 2]]), stat.S_IFREG | 0o644
        return struct.pack('<QQQQQQIIIIIIIIII', node, size, 0, self.mtime, self.mtime, self.mtime, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _answer(self, kind, unique, node, body):
        if kind in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        if kind == INIT:
            self._reply(unique, struct.pack('<IIIIHHIIHHI28x', 7, 31, 1 << 17, 0, 16, 12, 1 << 17, 1, 32, 0, 0))
        elif kind == LOOKUP:
            name = body.rstrip(b'\0').decode()
            if name not in self.files:
                return self._reply(unique, error=ENOENT)
            node = self._names().index(name) + 2
            self._reply(unique, struct.pack('<QQQQII', node, 0, 0, 0, 0, 0) + self._attributes(node))
        elif kind == GETATTR:
            self._reply(unique, struct.pack('<QII', 0, 0, 0) + self._attributes(node))
        elif kind in (OPEN, OPENDIR):
            self._reply(unique, struct.pack('<QII', 0, 0, 0))
        elif kind == READ:
            _, offset, size = struct.unpack_from('<QQI', body)
            self._reply(unique, self.files[self._names()[node - 2]][offset:offset + size])
        elif kind == READDIR:
            _, offset, size = struct.unpack_from('<QQI', body)
            out = b''
            for i, name in enumerate(self._names()):
                entry = struct.pack('<QQII', i + 2, i + 1, len(name), stat.S_IFREG >> 12) + name.encode()
                entry += b'\0' * (-len(entry) % 8)
                if i >= offset and len(out) + len(entry) <= size:
                    out += entry
            self._reply(unique, out)
        elif kind == STATFS:
            self._reply(unique, struct.pack('<QQQQQIIII24x', 1000, 500, 500, 100, 50, 4096, 255, 4096, 0))
        elif kind in (RELEASE, RELEASEDIR, FLUSH):
            self._reply(unique)
        else:
            self._reply(unique, error=ENOSYS)
