"""tracer_memory: memory that torch's allocator hands on while another stream may still use it.

On a GPU a tensor's memory goes back to the stream on which it was made as soon as nothing holds the
tensor, and the next tensor that is made on that stream may get it: rows that were queued on another
stream read and write it later. On a tape every tensor has a buffer of its own, and such a race
would not show. So of a forward that uses several streams this file keeps what each stream knows
of the others (through events), when tensors end, and what is made behind that. Whoever has
called record_stream is safe.

What the caller had queued when it called forward may still run, too: it makes the inputs, and it
used the memory that its stream's allocator hands to forward's tensors. So that is the first row of
the caller's stream here, which another stream has to wait for before it uses either.
"""
import weakref

import tracer_cuda

BEGINS = ("{} is used on a stream that has not waited for the stream on which forward was called: what was queued "
          "there before may still {} (stream.wait_stream(torch.cuda.current_stream()) orders them)")
RACES = ("a tensor of forward ends while stream {} may still use it, and torch's allocator hands its memory on to what "
         "line {} uses: wait for that stream before the tensor ends, or call record_stream")


class Life:
    """Of one buffer: the stream it was made on, its last row on each stream, the streams that the
    allocator was told of, the tensors that show it, and the rows that its memory's last owner may
    have left."""

    __slots__ = ("stream", "uses", "told", "shown", "owed", "refs")

    def __init__(self, stream):
        self.stream, self.uses, self.told, self.shown, self.owed, self.refs = stream, {}, set(), 0, {}, []


class Memory:
    """Of one trace. Streams are known by their number."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.is_watched = False     # an earlier forward had rows on several streams
        self.caller = None          # the stream on which forward was called
        self.begin((), None)

    def begin(self, rows, caller):
        """The next forward; `rows` are the last one's."""
        self.is_watched |= any("stream" in row and row["stream"] is not caller for row in rows)
        self.caller = caller and caller.cuda_stream
        self.rows, self.known, self.ended, self.lives = {self.caller: 1}, {self.caller: {self.caller: 1}}, [], {}
        self.is_idle = False        # the host has waited for the caller's stream

    def made(self, buf):
        """A new buffer of forward's."""
        if self.is_watched:
            life = self.lives[id(buf)] = Life(tracer_cuda.CURRENT[0].cuda_stream)
            for stream, size, owed in self.ended:
                if stream == life.stream and buf.bytes <= size:
                    life.owed.update(owed)

    def show(self, tensor, buf):
        """A tensor that shows a buffer's memory."""
        life = self.lives.get(id(buf))
        if life is not None:
            life.shown += 1
            life.refs.append(weakref.ref(tensor, lambda ref: self.hide(buf, life)))

    def hide(self, buf, life):
        life.shown -= 1
        if life.shown == 0 and self.lives.get(id(buf)) is life:
            known = self.known.get(life.stream, {})
            owed = {s: n for s, n in life.uses.items()
                    if s != life.stream and s not in life.told and known.get(s, 0) < n}
            if owed:
                self.ended.append((life.stream, buf.bytes, owed))

    def tell(self, buf, stream):
        if id(buf) in self.lives:
            self.lives[id(buf)].told.add(stream.cuda_stream)

    def row(self, stream, buffers, line):
        stream = stream.cuda_stream
        self.rows[stream] = number = self.rows.get(stream, 0) + 1
        known = self.known.setdefault(stream, {})
        known[stream] = number
        if self.is_watched and not self.is_idle and not known.get(self.caller):
            self.check_begin(buffers)
        for life in [self.lives[id(b)] for b in buffers if id(b) in self.lives]:
            life.uses[stream] = number
            late = [s for s, n in life.owed.items() if known.get(s, 0) < n]
            if late:
                self.recorder.refuse(RACES.format(late[0] >> 12, line))

    def check_begin(self, buffers):
        """A row of a stream that knows nothing of the caller's. What the module keeps was made long
        before."""
        for buf in buffers:
            life = self.lives.get(id(buf))
            if buf.kind == "input":
                self.recorder.refuse(BEGINS.format("an input", "write it"))
            if life is not None and life.stream == self.caller:
                self.recorder.refuse(BEGINS.format("memory of that stream's", "use it for a tensor that is gone"))

    def host_waits(self, streams):
        """The host waits for streams (None: for all)."""
        self.is_idle |= streams is None or any(stream.cuda_stream == self.caller for stream in streams)

    def host_knows(self, event):
        """The host waits for an event."""
        self.is_idle |= self.caller in getattr(event, "known", {})

    def record(self, event, stream):
        event.known = dict(self.known.get(stream.cuda_stream, {}))

    def wait(self, event, stream):
        known = self.known.setdefault(stream.cuda_stream, {})
        for s, n in getattr(event, "known", {}).items():
            known[s] = max(known.get(s, 0), n)
