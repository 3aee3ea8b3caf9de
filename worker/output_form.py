"""output_form: how the values that forward returns are put together, as a text of Python.

One tensor, and a list or tuple of tensors, are the usual forms and have no text. Of all others,
both what a candidate returns and what the reference does, the text has `t` for each tensor, `(...)`
for lists and tuples alike, dicts with their keys in order, and numbers, texts and None as they are,
floats with all their digits: what `--emit` writes returns them. Who compares two forms
(attempt_judge.c) takes floats as equal that begin with the same six digits.

A class's own methods could say anything: what is a number or a text is asked as one.
"""
import hashlib

TEXT_MAX = 4096
PLAIN = (bool, int, float, str, bytes, type(None))     # bool first: it is an int too


def form_of(out, is_tensor):
    """The text, or None for a usual form."""
    if is_tensor(out) or isinstance(out, (list, tuple)) and out and all(map(is_tensor, out)):
        return None
    text = text_of(out, is_tensor)
    if len(text) <= TEXT_MAX:
        return text
    # Two that differ behind the cut are two. What is cut is no expression of Python.
    return text[:TEXT_MAX] + " ... " + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def text_of(value, is_tensor):
    if is_tensor(value):
        return "t"
    if isinstance(value, (list, tuple)):
        return f"({''.join(text_of(v, is_tensor) + ', ' for v in value)})"
    if isinstance(value, dict):
        return f"{{{''.join(f'{text_of(key, is_tensor)}: {text_of(v, is_tensor)}, ' for key, v in value.items())}}}"
    for known in PLAIN:
        if isinstance(value, known):
            return known.__repr__(value)
    return repr(value)
