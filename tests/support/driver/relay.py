"""A TCP relay that can fall silent without closing anything."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from types import TracebackType


class Relay:
    """Listens on `port` and passes bytes to and from another port of this machine."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._wake, self._waker = socket.socketpair()
        self._frozen = self._over = False
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over = True
        self._waker.send(b"x")
        self._thread.join()
        for one in (*self._sockets, self._listener, self._wake, self._waker):
            one.close()

    def freeze(self) -> None:
        """From now on nothing passes, in either direction; the connections stay open."""
        self._frozen = True
        self._waker.send(b"x")

    def _work(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._over:
                for key, _ in selector.select():
                    if key.fileobj is self._wake:
                        self._wake.recv(64)
                    elif key.fileobj is self._listener:
                        near, _address = self._listener.accept()
                        far = socket.create_connection(("127.0.0.1", self._to))
                        self._sockets += [near, far]
                        selector.register(near, selectors.EVENT_READ, far)
                        selector.register(far, selectors.EVENT_READ, near)
                    elif self._frozen:
                        selector.unregister(key.fileobj)
                    else:
                        self._pass(selector, key)

    def _pass(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        assert isinstance(key.fileobj, socket.socket)
        data = b""
        with contextlib.suppress(ConnectionError):
            data = key.fileobj.recv(65536)
        if data:
            with contextlib.suppress(ConnectionError):
                key.data.sendall(data)
            return
        selector.unregister(key.fileobj)
        with contextlib.suppress(OSError):
            key.data.shutdown(socket.SHUT_WR)
