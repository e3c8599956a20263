"""The tree that a client of sftp sees: rooms, their texts and their workspaces.

Every request asks again what the person may see and change: a membership may end meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from typing_extensions import override

from sshwarma.common.rate_limit import SlidingWindow
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.sftp_handles import NO_SPACE, OpenFile, TextFile, VersionFile, WrittenFile
from sshwarma.ssh.door.sftp_paths import (
    MEMORY,
    READ_ONLY_KINDS,
    TEXTS,
    THINGS,
    WORKSPACE,
    Place,
    parse_place,
    resolve_path,
)
from sshwarma.ssh.door.sftp_texts import RoomTexts
from sshwarma.ssh.door.sftp_workspace import RoomFiles
from sshwarma.ssh.transport.interfaces import (
    SftpAttributes,
    SftpChanges,
    SftpFile,
    SftpFiles,
    SftpOpenMode,
    SftpRefused,
    SftpSpace,
)
from sshwarma.verbs.dispatch import check_may_change_files
from sshwarma.world.access import Right
from sshwarma.world.audit import Origin
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Forbidden, NotFound, WorldError
from sshwarma.world.events import PersonalNotice
from sshwarma.world.memory import KeyEntry

FOLDER: Final = stat.S_IFDIR | 0o555
TEXT: Final = stat.S_IFREG | 0o444

MAX_MESSAGES: Final = 5
MESSAGE_SECONDS: Final = 10.0
"""A person's terminals show at most MAX_MESSAGES of this door in MESSAGE_SECONDS: a program that
goes on after a refusal is refused a thousand times."""


class _Quiet(Conflict):
    """A refusal that programs expect and ask for, such as a name that is taken."""


class ClientFiles(SftpFiles):
    """The files of one client."""

    def __init__(
        self,
        context: SshContext,
        agent_id: str,
        origin: Origin,
        write_error: Callable[[str], None],
    ) -> None:
        """Show an agent's rooms; `write_error` writes to the client's standard error."""
        self._context = context
        self._agent_id = agent_id
        self._origin = origin
        self._write_error = write_error
        self._workspaces = context.services.workspaces
        self._texts = RoomTexts(context)
        self._rooms: dict[str, RoomFiles] = {}
        self._opened: set[OpenFile] = set()
        self._messages = SlidingWindow(MAX_MESSAGES, MESSAGE_SECONDS, max_keys=1)
        self._began_at = int(time.time())

    async def end(self) -> None:
        """Drop what was not closed, and make a version of the rest in each room."""
        for opened in list(self._opened):
            opened.release()
        for files in self._rooms.values():
            files.discard()
        for files in list(self._rooms.values()):
            await files.commit()

    # Looking

    @override
    def resolve(self, path: bytes) -> bytes:
        with self.refusing(""):
            return resolve_path(path).encode()

    @override
    async def stat(self, path: bytes) -> SftpAttributes:
        with self.refusing(_show(path)):
            place = parse_place(path)
            if place.kind in ("top", "rooms"):
                await self._make_caller().readable_rooms()
                return self._folder
            caller = await self._enter(place)
            if place.kind == "value":
                for _, entry in await self._texts.list_values(caller, place.name):
                    return self._value_attributes(entry)
                raise NotFound("Session memory has no such key.")
            if place.kind in READ_ONLY_KINDS:
                return self._text_attributes(await self._texts.read(caller, place))
            if place.kind == "workspace":
                return (await self._files(caller)).stat(place.name)
            return self._folder

    @override
    async def list_folder(self, path: bytes) -> Mapping[bytes, SftpAttributes]:
        with self.refusing(_show(path)):
            place = parse_place(path)
            found: dict[str, SftpAttributes]
            if place.kind == "top":
                found = {"rooms": self._folder}
            elif place.kind == "rooms":
                rooms = await self._make_caller().readable_rooms()
                found = {room.name: self._folder for room in rooms}
            elif place.kind == "workspace":
                found = (await self._files(await self._enter(place))).list_folder(place.name)
            else:
                found = await self._list_texts(await self._enter(place), place)
            return {name.encode(): attributes for name, attributes in found.items()}

    async def _list_texts(self, caller: Caller, place: Place) -> dict[str, SftpAttributes]:
        names: Sequence[str] = TEXTS
        found: dict[str, SftpAttributes] = {}
        if place.kind == "memory":
            values = await self._texts.list_values(caller)
            return {name: self._value_attributes(entry) for name, entry in values}
        if place.kind == "things":
            names = await self._texts.list_things(caller)
            found[MEMORY] = self._folder
        elif place.kind != "room":
            raise NotFound("This is not a folder.")
        for name in names:
            text = (
                Place("text", place.room, name)
                if place.kind == "room"
                else Place("thing", place.room, name.removesuffix(".md"))
            )
            with contextlib.suppress(NotFound):  # a thing that was taken away meanwhile
                found[name] = self._text_attributes(await self._texts.read(caller, text))
        if place.kind == "room":
            writable = (await self._files(caller)).stat("")
            found |= {THINGS: self._folder, WORKSPACE: writable}
        return found

    @override
    async def space(self, path: bytes) -> SftpSpace:
        with self.refusing(_show(path)):
            place = parse_place(path)
            if place.kind in ("top", "rooms"):
                self._make_caller()
                return NO_SPACE
            caller = await self._enter(place)
            return (await self._files(caller)).space()

    # Opening

    @override
    async def open(self, path: bytes, mode: SftpOpenMode) -> SftpFile:
        with self.refusing(_show(path)):
            place = parse_place(path, changes=mode.writes)
            if place.kind in READ_ONLY_KINDS and not mode.writes:
                caller = await self._enter(place)
                text = await self._texts.read(caller, place)
                return TextFile(self, caller.room_id, text, self._text_attributes(text))
            if mode.writes:
                caller = await self._change_at(place)
                return await self._open_to_write(caller, place.name, mode)
            caller = await self._enter(place)
            if place.kind != "workspace":
                raise Conflict("This is a folder.")
            return await self._open_to_read(caller, place.name, mode)

    async def _open_to_read(self, caller: Caller, path: str, mode: SftpOpenMode) -> SftpFile:
        files = await self._files(caller)
        working = files.find_working(path)
        if working is not None:
            return WrittenFile(self, caller.room_id, files, working, mode)
        entry = files.find_file(path)
        blob = await asyncio.to_thread(self._workspaces.blobs.check, entry.sha256)
        return VersionFile(self, caller.room_id, blob, files.stat(path))

    async def _open_to_write(self, caller: Caller, path: str, mode: SftpOpenMode) -> SftpFile:
        files = await self._files(caller)
        if mode.exclusive and mode.creates and files.exists(path):
            raise _Quiet("The file already exists.")
        working = files.open_to_write(path, mode)
        if mode.truncates and working.size:
            await files.truncate(working, 0)
        return WrittenFile(self, caller.room_id, files, working, mode)

    # Changing

    @override
    async def set_attributes(self, path: bytes, changes: SftpChanges) -> None:
        with self.refusing(_show(path)):
            place = parse_place(path, changes=True)
            if changes.owner is not None:
                raise Conflict("Files of a room have no owner that could be changed.")
            caller = await self._change_at(place)
            files = await self._files(caller)
            files.stat(place.name)
            await files.set_attributes(place.name, changes, caller)

    @override
    async def make_folder(self, path: bytes) -> None:
        with self.refusing(_show(path)):
            place = parse_place(path, changes=True)
            if place.kind != "workspace":
                await self._refuse_taken(place)
            files = await self._files(await self._change_at(place))
            if files.exists(place.name):
                raise _Quiet("The folder already exists.")
            files.make_folder(place.name)

    async def _refuse_taken(self, place: Place) -> None:
        """Raise what a folder that exists is refused with, if one is there."""
        if place.kind in ("top", "rooms"):
            raise _Quiet("The folder already exists.")
        await self._enter(place)
        if place.kind in ("room", "things", "memory"):
            raise _Quiet("The folder already exists.")

    @override
    async def remove_folder(self, path: bytes) -> None:
        with self.refusing(_show(path)):
            place = parse_place(path, changes=True)
            (await self._files(await self._change_at(place))).remove_folder(place.name)

    @override
    async def remove(self, path: bytes) -> None:
        with self.refusing(_show(path)):
            place = parse_place(path, changes=True)
            (await self._files(await self._change_at(place))).remove(place.name)

    @override
    async def rename(self, old: bytes, new: bytes, *, replaces: bool) -> None:
        with self.refusing(_show(old)):
            source = parse_place(old, changes=True)
            target = parse_place(new, changes=True)
            caller = await self._change_at(source)
            if target.kind != "workspace":
                raise Forbidden("Only the files in workspace/ can be changed.")
            if source.room != target.room:
                raise Conflict("A file cannot be moved into another room; copy it.")
            (await self._files(caller)).rename(source.name, target.name, replaces=replaces)

    # Rights

    def on_opened(self, opened: OpenFile) -> None:
        """Take note that a file is open, and must be released."""
        self._opened.add(opened)

    def on_closed(self, opened: OpenFile) -> None:
        """Take note that a file is closed."""
        self._opened.discard(opened)

    async def check(self, room_id: str, *, changes: bool) -> Caller:
        """Return who acts in a room now, if that is allowed.

        Raises:
            WorldError: if the account is disabled, the room is gone or a right is missing.
        """
        caller = self._make_caller().with_room(room_id)
        await caller.require(Right.ENTER)
        if changes:
            await check_may_change_files(caller)
        return caller

    async def _enter(self, place: Place) -> Caller:
        """Return who acts in the room of a place.

        Raises:
            WorldError: if there is no such room for this person.
        """
        caller = await self._make_caller().in_room(place.room)
        if (await caller.room()).name != place.room:  # other case
            raise NotFound(f"Unknown room {place.room}.")
        return caller

    async def _change_at(self, place: Place) -> Caller:
        """Return who changes files at a place, with the rights of `file put`.

        Raises:
            WorldError: if they may not, or the place is no workspace.
        """
        if place.kind in ("top", "rooms"):
            raise Forbidden("Only the files in workspace/ of a room can be changed.")
        caller = await self._enter(place)
        if place.kind != "workspace":
            raise Forbidden("Only the files in workspace/ can be changed.")
        await check_may_change_files(caller)
        return caller

    def _make_caller(self) -> Caller:
        return self._context.make_caller(self._agent_id, "sftp", self._origin)

    # What the rest is made of

    async def _files(self, caller: Caller) -> RoomFiles:
        """Return the files of the caller's room, as they are now."""
        room_id = caller.room_id
        files = self._rooms.get(room_id)
        if files is None:
            files = self._rooms[room_id] = RoomFiles(
                self._workspaces,
                room_id,
                lambda: self.check(room_id, changes=True),
                self.tell,
                self._context.background,
            )
        await files.refresh()
        return files

    @property
    def _folder(self) -> SftpAttributes:
        return SftpAttributes(FOLDER, 0, self._began_at)

    def _text_attributes(self, text: bytes) -> SftpAttributes:
        return SftpAttributes(TEXT, len(text), int(time.time()))

    def _value_attributes(self, value: KeyEntry) -> SftpAttributes:
        return SftpAttributes(TEXT, value.size, value.set_at // 1000)

    @contextlib.contextmanager
    def refusing(self, where: str) -> Iterator[None]:
        """Refuse to the client what the world refuses, and tell the person why.

        OpenSSH shows no text of ours: without these lines a person reads "Failure" and no more.
        """
        try:
            yield
        except NotFound as error:
            raise SftpRefused("missing", str(error)) from error
        except WorldError as error:
            if not isinstance(error, _Quiet):
                self.tell(f"{where}: {error}")
            if isinstance(error, Forbidden):
                raise SftpRefused("denied", str(error)) from error
            raise SftpRefused("failure", str(error)) from error

    def tell(self, text: str) -> None:
        """Tell the person something: on standard error, and in their terminals."""
        self._write_error(text)
        if self._messages.hit(self._agent_id) <= 0:
            self._context.world.bus.publish(PersonalNotice(self._agent_id, "sftp", text, ""))


def _show(path: bytes) -> str:
    return path.decode(errors="replace")[-200:]
