"""Pages of HTML: sent with what they may load and run, and nothing more."""

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256

from service.delivery.headers import RawHeaders, raw

MEDIA_TYPE = "text/html"

_INLINE = {
    kind: re.compile(rf"<{kind}>(.*?)</{kind}>", re.DOTALL | re.IGNORECASE)
    for kind in ("script", "style")
}


def html_headers(page: str, cache_control: str, vary: str = "") -> RawHeaders:
    """Describe a page of HTML.

    Args:
        page: the page.
        cache_control: how long it may be kept.
        vary: the request headers that chose it, if any did.
    """
    headers = {
        "Content-Type": f"{MEDIA_TYPE}; charset=utf-8",
        "Cache-Control": cache_control,
        "Content-Security-Policy": content_policy(page),
        "Referrer-Policy": "no-referrer",
    }
    return raw(headers | ({"Vary": vary} if vary else {}))


def content_policy(page: str) -> str:
    """Allow a page what comes from its own server, and of what stands in it just those words.

    It frames nothing and is framed by nobody, sends no form, and moves no address.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_allowed(_INLINE['script'].findall(page))}",
            f"style-src {_allowed(_INLINE['style'].findall(page))}",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def _allowed(inline: Iterable[str]) -> str:
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in inline)
    return " ".join(["'self'", *(f"'sha256-{digest}'" for digest in digests)])
