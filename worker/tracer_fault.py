"""tracer_fault: why a trace ended without a tape. The codes are listed in
docs/worker-protocol.md."""


class Fault(Exception):
    """Ends a trace. A recorder keeps the first one, so that a candidate that catches it is still
    told."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code
        self.text = text


class Unsupported(NotImplementedError):
    """Something that exists on a GPU machine and not on `hone vm`. An ordinary exception to the
    script, which may have another way."""
