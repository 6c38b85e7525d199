"""Documents that are too large for Redis: groups, advantages, continuations. Any fsspec address will do."""

import asyncio
from uuid import uuid4

import fsspec  # pyright: ignore[reportMissingTypeStubs]


class Blobs:
    """Named bytes below one address, such as "file:///var/lib/prover" or "s3://bucket/prover"."""

    def __init__(self, url: str) -> None:
        filesystem, root = fsspec.core.url_to_fs(url)
        self._filesystem = filesystem
        self._root = str(root).rstrip("/")

    async def write(self, name: str, content: bytes) -> None:
        """Stores or replaces. A reader sees the old bytes or the new ones, never a part."""
        await asyncio.to_thread(self._write, name, content)

    async def read(self, name: str) -> bytes | None:
        """The bytes, or None where nothing has that name."""
        return await asyncio.to_thread(self._read, name)

    async def delete_all(self, prefix: str) -> None:
        """Removes everything below `prefix`; nothing there is fine."""
        await asyncio.to_thread(self._delete_all, prefix)

    def _write(self, name: str, content: bytes) -> None:
        path = self._path(name)
        self._filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        draft = f"{path}.{uuid4().hex}"
        self._filesystem.pipe_file(draft, content)
        self._filesystem.mv(draft, path)

    def _read(self, name: str) -> bytes | None:
        try:
            return bytes(self._filesystem.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def _delete_all(self, prefix: str) -> None:
        try:
            self._filesystem.rm(self._path(prefix), recursive=True)
        except FileNotFoundError:
            return

    def _path(self, name: str) -> str:
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"blob name: was {name!r}; expected parts that stay below {self._root}")
        return f"{self._root}/{name}"
