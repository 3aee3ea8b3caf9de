"""output_form: how the values that forward returns are put together, as a text of Python.

One tensor, and a list or tuple of tensors, are the usual forms and have no text. Of all others,
both what a candidate returns and what the reference does, the text has `t` for each tensor, `(...)`
for lists and tuples alike, dicts with their keys in order, and numbers, texts and None as they are.
"""
TEXT_MAX = 4096


def form_of(out, is_tensor):
    """The text, or None for a usual form."""
    if is_tensor(out) or isinstance(out, (list, tuple)) and out and all(map(is_tensor, out)):
        return None
    return text_of(out, is_tensor)[:TEXT_MAX]


def text_of(value, is_tensor):
    if is_tensor(value):
        return "t"
    if isinstance(value, (list, tuple)):
        return f"({''.join(text_of(v, is_tensor) + ', ' for v in value)})"
    if isinstance(value, dict):
        return f"{{{''.join(f'{key!r}: {text_of(v, is_tensor)}, ' for key, v in value.items())}}}"
    if isinstance(value, float):
        return f"{value:.6g}"      # other ways to compute a constant end in other last digits
    return repr(value)
