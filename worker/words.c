/* words: looks at many words of this process's memory at once, and at what dicts hold, for
 * worker/tracer_words.py.
 *
 * numpy would gather the words into an array of its own first: that is fresh memory at each look,
 * and a forked process pays a fault for every page of it. Python would count a reference to each
 * value of a dict, and so write to the page of each. Part of libhone_sandbox.so, for the workers
 * only: the names of Python's that it calls are the interpreter's that loads it. */
#include <stddef.h>
#include <stdint.h>

#define AHEAD 24 /* words that are asked for before they are looked at */

typedef struct python_object PyObject; /* Python's, of which only addresses are known here */
#define WEAK __attribute__((weak))     /* hone's own programs link these objects too, and have no Python */
int PyDict_Next(PyObject *dict, ptrdiff_t *at, PyObject **key, PyObject **value) WEAK;
PyObject *PyDict_GetItemWithError(PyObject *dict, PyObject *key) WEAK;
int PyList_Append(PyObject *list, PyObject *item) WEAK;

int64_t words_other(const uint64_t *memory, const int64_t *at, const uint64_t *then, int64_t from, int64_t n);
void words_others_in(PyObject *table, PyObject *then, PyObject *found);

/* The first i >= from, below n, for which memory[at[i]] is not then[i]; -1: there is none. */
int64_t words_other(const uint64_t *memory, const int64_t *at, const uint64_t *then, int64_t from, int64_t n)
{
	for (int64_t i = from; i < n; i++) {
		/* Hardly two of these words share a page, and the processor does not guess the next one. */
		if (i + AHEAD < n) __builtin_prefetch(memory + at[i + AHEAD]);
		if (memory[at[i]] != then[i]) return i;
	}
	return -1;
}

/* Appends to the list `found` each key of the dict `table` under which the dict `then` has another
 * object, or none. An exception that a key's own comparison raises is left to the caller. */
void words_others_in(PyObject *table, PyObject *then, PyObject *found)
{
	PyObject *key, *value;
	for (ptrdiff_t at = 0; PyDict_Next(table, &at, &key, &value);)
		if (PyDict_GetItemWithError(then, key) != value && PyList_Append(found, key)) return;
}
