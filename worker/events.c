/* events: what stands in front of the audit hook of worker/tracer_plain.py.
 *
 * Python calls a hook for every event of the interpreter, and a second trace has thousands: each
 * look at a frame is two, and the tracer looks at frames to see who asks it. Here those are let
 * pass that the hook has no word for, in a tenth of the time that calling it takes. It hears of
 * every event that it may have to refuse. Part of libhone_sandbox.so, for the workers only: the
 * names of Python's that it calls are the interpreter's that loads it. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct python_object PyObject; /* Python's, of which only addresses are known here */
#define WEAK __attribute__((weak))     /* hone's own programs link these objects too, and have no Python */
PyObject *PyEval_GetFrame(void) WEAK;
PyObject *PyFrame_GetBack(PyObject *frame) WEAK;
PyObject *PyFrame_GetCode(PyObject *frame) WEAK;
PyObject *PyObject_GetAttr(PyObject *o, PyObject *name) WEAK;
PyObject *PyUnicode_InternFromString(const char *text) WEAK;
PyObject *PyObject_CallFunction(PyObject *o, const char *format, ...) WEAK;
PyObject *PyTuple_GetItem(PyObject *tuple, ptrdiff_t i) WEAK;
int PyUnicode_CompareWithASCIIString(PyObject *text, const char *ascii) WEAK;
int PySys_AddAuditHook(int (*hook)(const char *event, PyObject *args, void *data), void *data) WEAK;
void Py_IncRef(PyObject *o) WEAK;
void Py_DecRef(PyObject *o) WEAK;

int events_watch(PyObject *hook, const char *file);

static PyObject *hook_called;      /* (event, args), in Python */
static const char *candidate_file; /* the name of the file that the candidate's code is from */
static PyObject *co_filename;      /* this word, as a text of Python's */

/* How many callers the hook looks at, one of them behind a function that only stands between. */
#define CALLERS 3

/* Whether the candidate's code is among the nearest callers. */
static bool is_near(void)
{
	PyObject *frame = PyEval_GetFrame();
	bool found = false;
	if (frame) Py_IncRef(frame);
	for (int i = 0; frame && i < CALLERS && !found; i++) {
		PyObject *code = PyFrame_GetCode(frame), *file = PyObject_GetAttr(code, co_filename);
		found = !file || !PyUnicode_CompareWithASCIIString(file, candidate_file);
		PyObject *behind = PyFrame_GetBack(frame);
		if (file) Py_DecRef(file);
		Py_DecRef(code);
		Py_DecRef(frame);
		frame = behind;
	}
	if (frame) Py_DecRef(frame);
	return found;
}

/* Attributes that lead from an object to a frame or its code: the hook asks who looks. Of all
 * others it looks at the object. */
static bool is_frames(PyObject *args)
{
	static const char *const names[] = {
		"f_code", "tb_frame", "gi_frame", "cr_frame", "ag_frame", "gi_code", "cr_code", "ag_code"};
	PyObject *name = PyTuple_GetItem(args, 1);
	for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
		if (!PyUnicode_CompareWithASCIIString(name, names[i])) return true;
	return false;
}

static int pass_on(const char *event, PyObject *args, void *data)
{
	if (!strcmp(event, "builtins.id")) return 0;
	bool is_frame = !strcmp(event, "sys._getframe") || (!strcmp(event, "object.__getattr__") && is_frames(args));
	if (is_frame && !is_near()) return 0;
	PyObject *answer = PyObject_CallFunction(hook_called, "sO", event, args);
	if (!answer) return -1;
	Py_DecRef(answer);
	return 0;
}

/* From here on the hook hears of events, as one of sys.addaudithook does. 0, or -1 with an
 * exception set. */
int events_watch(PyObject *hook, const char *file)
{
	Py_IncRef(hook);
	hook_called = hook;
	candidate_file = strdup(file);
	co_filename = PyUnicode_InternFromString("co_filename");
	return PySys_AddAuditHook(pass_on, NULL);
}
