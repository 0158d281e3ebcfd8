"""Can several filters select the same topic? Answered with an example, or with a proof that they cannot.

Needed where names are kept: two flows in opposite directions that share a topic would copy it for ever. Each
filter is a language, `include` without `exclude`; the search walks their intersection, shortest names first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .charset import TOPIC_CHARACTERS
from .filters import Filter
from .language import Language, Languages
from .reading import Undecidable, characters_told_apart, language_of

LONGEST_TOPIC_NAME = 249


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither an example nor a proof was found; `reason` says why, for a user."""

    reason: str


def common_name(
    filters: Iterable[Filter],
    accepts: Callable[[str], bool] = lambda _: True,
    *,
    most_states: int = 50_000,
    most_names: int = 50_000,
) -> str | Unknown | None:
    """One of the shortest topic names that all of `filters` select and `accepts` takes; None: there is none.

    `accepts` may turn examples down, internal topics for instance; after `most_names` of them the search
    gives up, as it does when there is more to walk through than `most_states`. An example is always a true one.
    """
    chosen = list(filters)
    if any(each.included is None for each in chosen):
        return None
    languages = Languages()
    wanted = []
    undecided = ""
    patterns = [(each.included, False) for each in chosen] + [(each.excluded, True) for each in chosen]
    trees = [(pattern.tree, is_exclude) for pattern, is_exclude in patterns if pattern is not None]
    for tree, is_exclude in trees:
        try:
            language = language_of(tree, languages)
        except Undecidable as undecidable:
            undecided = str(undecidable)  # left out, which only adds names; whether they are selected is tried
        else:
            wanted.append(languages.complement(language) if is_exclude else language)

    def fits(name: str) -> bool:
        return is_topic_name(name) and all(each.selects(name) for each in chosen) and accepts(name)

    walk = _Walk(languages, characters_told_apart([tree for tree, _ in trees]), most_states)
    answer = walk.first_name(languages.intersection(wanted), fits, most_names)
    if undecided and isinstance(answer, Unknown):
        return Unknown(f"a pattern has {undecided}, and which names it matches cannot be worked out")
    return answer


def is_topic_name(name: str) -> bool:
    """Whether Kafka lets a topic be called `name`."""
    in_range = 0 < len(name) <= LONGEST_TOPIC_NAME and name not in (".", "..")
    return in_range and all(character in TOPIC_CHARACTERS for character in name)


class _Walk:
    """Reads a language letter by letter."""

    def __init__(self, languages: Languages, alike: list[str], most_states: int) -> None:
        self._languages = languages
        self._alike = alike
        self._most_states = most_states
        self._steps: dict[Language, list[tuple[str, Language]]] = {}

    def first_name(self, start: Language, accepts: Callable[[str], bool], most_names: int) -> str | Unknown | None:
        """Looks at one name for each state; only if all of these are turned down, at every name there is."""
        names = {start: ""}
        queue = deque([start])
        found_any = False
        while queue:
            state = queue.popleft()
            name = names[state]
            if state.has_empty:
                found_any = True
                if accepts(name):
                    return name
            for letters, following in self._steps_from(state):
                if following not in names:
                    names[following] = name + letters[0]
                    queue.append(following)
            if len(names) > self._most_states:
                return Unknown("the patterns are too intricate to be compared")
        if not found_any:
            return None
        return self._first_of_all_names(start, accepts, most_names)

    def _steps_from(self, state: Language) -> list[tuple[str, Language]]:
        if state not in self._steps:
            derived = ((letters, self._languages.derivative(state, letters[0])) for letters in self._alike)
            self._steps[state] = [step for step in derived if step[1] is not self._languages.nothing]
        return self._steps[state]

    def _first_of_all_names(
        self, start: Language, accepts: Callable[[str], bool], most_names: int
    ) -> str | Unknown | None:
        missing = self._letters_missing()
        tried = 0
        for length in range(1, LONGEST_TOPIC_NAME + 1):
            for name in self._names(start, "", length, missing):
                if name is not None and accepts(name):
                    return name
                tried += 1
                if tried > most_names:
                    return Unknown(f"the first {most_names} names that all select are of a kind that is never copied")
        return None

    def _names(
        self, state: Language, prefix: str, letters_left: int, missing: dict[Language, int]
    ) -> Iterator[str | None]:
        """The names of exactly that length; None stands for effort without a name."""
        if letters_left == 0:
            yield prefix if state.has_empty else None
            return
        for letters, following in self._steps_from(state):
            if missing.get(following, letters_left) < letters_left:
                for letter in letters:
                    yield from self._names(following, prefix + letter, letters_left - 1, missing)

    def _letters_missing(self) -> dict[Language, int]:
        """For each state from which a name can still be completed: with how many letters at least."""
        before: dict[Language, list[Language]] = {}
        for state, steps in self._steps.items():
            for _, following in steps:
                before.setdefault(following, []).append(state)
        missing = {state: 0 for state in self._steps if state.has_empty}
        queue = deque(missing)
        while queue:
            state = queue.popleft()
            for earlier in before.get(state, ()):
                if earlier not in missing:
                    missing[earlier] = missing[state] + 1
                    queue.append(earlier)
        return missing
