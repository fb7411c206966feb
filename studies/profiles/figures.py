"""Bars of what the warps of kernels wait for, as Nsight Compute sampled it."""

from collections.abc import Sequence

from tilewright.tools.bench.profile import Profile
from tilewright.tools.report.figures.palette import OWNERS, ink_on
from tilewright.tools.report.figures.svg import FAINT, SOFT, Drawing, text_width

REASONS = {
    "selected": "issues",
    "not_selected": "ready, another warp issues",
    "long_scoreboard": "global memory (long scoreboard)",
    "lg_throttle": "queue of global loads is full (LG throttle)",
    "mio_throttle": "queue of shared memory is full (MIO throttle)",
    "short_scoreboard": "shared memory (short scoreboard)",
    "barrier": "barrier",
    "wait": "fixed latency (wait)",
    "math_pipe_throttle": "arithmetic unit is busy (math pipe)",
    "gmma": "wgmma",
    "dispatch_stall": "the dispatcher holds it back (dispatch)",
}
"""The profiler's reasons, and what they say; the others are drawn together."""
_OTHERS = "others"
_COLORS = dict(zip((*REASONS.values(), _OTHERS), (*OWNERS, "#2f4b7c", "#a3d16f", "#f4b6c2", FAINT), strict=True))
_LEAST = 0.02
"""Share from which on a reason has a place of its own."""
_NAME, _WIDTH, _BAR, _SIZE = 150.0, 868.0, 34.0, 15.0


def stalls(profiles: Sequence[Profile]) -> str:
    """One bar a kernel, of what a warp's time goes to, and what the colours mean; as SVG."""
    shares = [_shown(one) for one in profiles]
    reasons = [one for one in (*REASONS.values(), _OTHERS) if any(one in of for of in shares)]
    drawing = Drawing()
    for number, (profile, of) in enumerate(zip(profiles, shares, strict=True)):
        y, x = number * (_BAR + 12), _NAME
        drawing.text(0, y + 22, f"{profile.rung or ''} {profile.kernel}".strip(), _SIZE, bold=True)
        for reason in reasons:
            width = of.get(reason, 0.0) * (_WIDTH - _NAME)
            drawing.rect(x, y, width, _BAR, _COLORS[reason], title=f"{reason}: {of.get(reason, 0.0):.0%}")
            label = f"{of.get(reason, 0.0):.0%}"
            if width > text_width(label, _SIZE) + 6:
                drawing.text(x + width / 2, y + 22, label, _SIZE, fill=ink_on(_COLORS[reason]), anchor="middle")
            x += width
    x, y = 0.0, len(profiles) * (_BAR + 12) + 14
    for reason in reasons:
        if x and x + 22 + text_width(reason, _SIZE) > _WIDTH:
            x, y = 0.0, y + 24
        drawing.rect(x, y - 12, 14, 14, _COLORS[reason])
        drawing.text(x + 20, y, reason, _SIZE, fill=SOFT)
        x += 44 + text_width(reason, _SIZE)
    return drawing.render(f"What warps wait for: {', '.join(one.kernel for one in profiles)}")


def _shown(profile: Profile) -> dict[str, float]:
    """Shares by what is drawn."""
    found: dict[str, float] = {}
    for reason, share in profile.stalls.items():
        name = REASONS.get(reason, _OTHERS) if share >= _LEAST else _OTHERS
        found[name] = found.get(name, 0.0) + share
    return found
