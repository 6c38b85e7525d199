"""Keys and values of finished sequences, kept so that whoever continues one only computes what is new."""

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from services.engine.transformer import KeyValues


class PrefixCache:
    """Least recently used sequences go first once all of them hold more than `max_bytes`.

    What it holds is good for one version of the weights; whoever changes those clears it.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[int, KeyValues] = OrderedDict()
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, cache: KeyValues) -> None:
        """Keeps a sequence that nobody extends any more, and lets go of old ones where there is no room."""
        if cache.length == 0 or cache.num_bytes > self._max_bytes:
            return
        self._entries[id(cache)] = cache
        self.num_bytes += cache.num_bytes
        while self.num_bytes > self._max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.num_bytes -= oldest.num_bytes

    def longest(self, token_ids: NDArray[np.int32]) -> tuple[KeyValues | None, int]:
        """The sequence that shares most leading tokens, and how many; (None, 0) where none shares any."""
        best, shared = None, 0
        for entry in reversed(self._entries.values()):
            same = entry.common_prefix(token_ids, beyond=shared)
            if same > shared:
                best, shared = entry, same
        return best, shared

    def use(self, entry: KeyValues, length: int, *, room: int) -> KeyValues:
        """The first `length` tokens of an entry, for somebody to extend: the entry itself where that is all of it
        (it leaves the cache), else a copy."""
        if length == entry.length:
            del self._entries[id(entry)]
            self.num_bytes -= entry.num_bytes
            return entry
        self._entries.move_to_end(id(entry))
        return entry.prefix(length, room=room)

    def clear(self) -> None:
        """Forgets everything."""
        self._entries.clear()
        self.num_bytes = 0
