"""What a release of a channel is: gates, artifacts, and which floating tag moves.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from attrs import frozen

from svc.errors import SvcError
from svc.model.release import SIGNATURE, SUMS, Channel, Version

FULL, REPRODUCIBLE = "full", "reproducibility"
_GATED = (FULL, REPRODUCIBLE)


@frozen
class ChannelRules:
    """What a channel demands.

    Attributes:
        gates: What has to pass before anything is published.
        floating: The container tag that it moves; empty: its releases are asked for by their own
            tag only.
    """

    gates: tuple[str, ...] = ()
    floating: str = ""


RULES: Mapping[Channel, ChannelRules] = MappingProxyType(
    {
        Channel.ALPHA: ChannelRules(),
        Channel.BETA: ChannelRules(),
        Channel.RC: ChannelRules(_GATED, "rc"),
        Channel.RELEASE: ChannelRules(_GATED, "latest"),
    }
)


class ReleaseRefused(SvcError):
    """Such a release is not made."""

    reason = "release"


@frozen
class ReleasePlan:
    """One release.

    Attributes:
        moves: Each floating tag that moves: from which tag (empty: none was there) to this one.
    """

    version: Version
    artifacts: tuple[str, ...]
    gates: tuple[str, ...]
    moves: Mapping[str, tuple[str, str]]

    def form(self) -> dict[str, object]:
        """As it is printed."""
        return {
            "tag": self.version.tag,
            "version": str(self.version),
            "channel": self.version.channel.word,
            "gates": list(self.gates),
            "artifacts": list(self.artifacts),
            "tag_moves": [
                {"floating": name, "from": old or None, "to": new}
                for name, (old, new) in self.moves.items()
            ],
            "tagged": True,
            "signed": True,
        }


def channel_named(word: str) -> Channel:
    """The channel of that name.

    Raises:
        ReleaseRefused: there are four, and this is none of them.
    """
    for channel in Channel:
        if channel.word == word:
            return channel
    raise ReleaseRefused(
        f"channel {word!r}: there is none; name one of {', '.join(one.word for one in Channel)}"
    )


def planned(
    version: Version,
    channel: Channel,
    programs: Iterable[str],
    published: Iterable[Version],
    *,
    force: bool = False,
) -> ReleasePlan:
    """The plan for a release of *version*.

    Args:
        programs: The file names of the artifacts that can be run or installed.
        published: Every version that has a tag.
        force: Let a floating tag move to an older version.

    Raises:
        ReleaseRefused: the version is of another channel, or a floating tag would go back.
    """
    if version.channel is not channel:
        raise ReleaseRefused(
            f"{version}: is a version of the channel {version.channel.word}, not of "
            f"{channel.word}; change __version__ in svc/__init__.py, or name its channel"
        )
    rules, moves = RULES[channel], {}
    if rules.floating:
        others = [one for one in published if one.channel is channel and one != version]
        newest = max(others, default=None)
        if newest is not None and newest > version and not force:
            raise ReleaseRefused(
                f"{version}: is older than {newest.tag}, to which :{rules.floating} points; a "
                "floating tag goes back only with --force"
            )
        moves[rules.floating] = ("" if newest is None else newest.tag, version.tag)
    return ReleasePlan(
        version=version,
        artifacts=(*programs, version.bill, SUMS, SIGNATURE),
        gates=rules.gates,
        moves=moves,
    )
