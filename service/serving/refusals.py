"""What is said of requests that do not come as far as an application."""

from service.errors import HeadersTooLarge, Overloaded, RequestTimeout, URLTooLong


def url_too_long(limit_bytes: int) -> URLTooLong:
    """Refuse a URL."""
    return URLTooLong(
        f"the URL is longer than {limit_bytes} bytes (POSREF_MAX_URL_BYTES): "
        "send long lists in the body of a POST"
    )


def head_too_long(limit_bytes: int) -> HeadersTooLarge:
    """Refuse a request line and headers."""
    return HeadersTooLarge(
        f"the request line and headers are longer than {limit_bytes} bytes (POSREF_MAX_HEAD_BYTES)"
    )


def head_too_slow(limit_seconds: int) -> RequestTimeout:
    """Refuse to wait for the end of a head."""
    return _too_slow("head", limit_seconds, "POSREF_HEADER_SECONDS")


def body_too_slow(limit_seconds: int) -> RequestTimeout:
    """Refuse to wait for the end of a body."""
    return _too_slow("body", limit_seconds, "POSREF_BODY_SECONDS")


def too_many_connections(limit: int) -> Overloaded:
    """Refuse what comes over one connection too many."""
    return Overloaded(f"more than {limit} connections at once (POSREF_MAX_CONNECTIONS)")


def _too_slow(part: str, limit_seconds: int, name: str) -> RequestTimeout:
    return RequestTimeout(
        f"the {part} of the request took longer than {limit_seconds} s to come ({name})"
    )
