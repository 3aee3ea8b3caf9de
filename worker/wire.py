"""wire: the framing of src/base/base.h (msg_send, msg_recv) for the Python workers.

u32 little-endian length, then the payload; descriptors travel by SCM_RIGHTS with the first byte.
Payloads are JSON objects. A closed peer raises EOFError, so that a worker whose supervisor vanished
ends instead of waiting.
"""
import array
import errno
import json
import socket
import struct
import time

FDS_MAX = 8
BYTES_MAX = 256 << 20
CROWDED_S = 60.0


def send_fds(sock, data, fds):
    """Sends bytes of one system call, with descriptors that stay open on this side. Those under way
    are counted by user, and refused where they are more than this process may have open, whoever
    sent them: many workers, or one that means it."""
    end = time.monotonic() + CROWDED_S
    while True:
        try:
            return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        except OSError as e:
            if e.errno != errno.ETOOMANYREFS or time.monotonic() >= end:
                raise
        time.sleep(0.002)


def send_bytes(sock, data, fds=()):
    """Sends one message. `fds` stay open on this side."""
    head = struct.pack("<I", len(data))
    # The header goes with the first piece of the payload: one system call for a small message.
    first = head + data[:65536]
    if fds:
        sent = send_fds(sock, first, fds)
    else:
        sent = sock.send(first)
    if sent < len(first):
        sock.sendall(memoryview(first)[sent:])
    if len(data) > 65536:
        sock.sendall(memoryview(data)[65536:])


def words(text):
    """Somebody's text as a message may hold it: half of a surrogate pair and a NUL are no text, and
    the reader refuses a message with one. Of an exception only its words would be lost."""
    return str.encode(text, "utf-8", "replace").decode().replace("\0", "\ufffd")


def send(sock, obj, fds=()):
    send_bytes(sock, json.dumps(obj, separators=(",", ":")).encode(), fds)


def _recv_exact(sock, count):
    out = bytearray(count)
    view = memoryview(out)
    have = 0
    while have < count:
        n = sock.recv_into(view[have:])
        if n == 0:
            raise EOFError("peer closed the connection inside a message")
        have += n
    return out


def recv_bytes(sock, bytes_max=BYTES_MAX):
    """Returns (payload, descriptors). The descriptors are close-on-exec and belong to the
    caller."""
    fds = array.array("i")
    head, anc, flags, _ = sock.recvmsg(4, socket.CMSG_LEN(FDS_MAX * fds.itemsize), socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in anc:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if not head:
        raise EOFError("peer closed the connection")
    if len(head) < 4:
        head += _recv_exact(sock, 4 - len(head))
    (length,) = struct.unpack("<I", head)
    if length > bytes_max:
        raise ValueError(f"message of {length} bytes, the limit is {bytes_max}")
    return _recv_exact(sock, length), list(fds)


def recv(sock, bytes_max=BYTES_MAX):
    data, fds = recv_bytes(sock, bytes_max)
    return json.loads(data), fds
