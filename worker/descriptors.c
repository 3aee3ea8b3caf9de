/* descriptors: methods and attributes of classes written in C, answered by functions of Python's.
 *
 * A second trace's tensors say of themselves what a GPU's would. An ordinary process has a method
 * of C's there, and a function of Python's in its place would tell host code that it is traced: by
 * its class, its code, the class that names it. So each stand-in is a descriptor as C's own are.
 * Part of libhone_sandbox.so, for the workers only: the names of Python's that it calls are the
 * interpreter's that loads it, and CPython's structures are written down here. */
#include <stddef.h>
#include <stdlib.h>

typedef struct python_object PyObject; /* Python's, of which only addresses are known here */
typedef PyObject *(*c_function)(PyObject *self, PyObject *args, PyObject *names);
#define WEAK __attribute__((weak)) /* hone's own programs link these objects too, and have no Python */

struct python_method { /* PyMethodDef */
	const char *name;
	c_function call;
	int flags;
	const char *doc;
};

struct python_attribute { /* PyGetSetDef */
	const char *name;
	PyObject *(*get)(PyObject *self, void *answer);
	int (*set)(PyObject *self, PyObject *value, void *answer);
	const char *doc;
	void *answer;
};

struct python_mapping { /* PyMappingMethods */
	ptrdiff_t (*length)(PyObject *self);
	PyObject *(*get)(PyObject *self, PyObject *key);
	int (*set)(PyObject *self, PyObject *key, PyObject *value);
};

PyObject *PyDescr_NewMethod(PyObject *type, struct python_method *method) WEAK;
PyObject *PyDescr_NewGetSet(PyObject *type, struct python_attribute *attribute) WEAK;
PyObject *PyObject_Call(PyObject *f, PyObject *args, PyObject *names) WEAK;
PyObject *PyObject_CallFunctionObjArgs(PyObject *f, ...) WEAK;
PyObject *PyTuple_New(ptrdiff_t n) WEAK;
ptrdiff_t PyTuple_Size(PyObject *tuple) WEAK;
PyObject *PyTuple_GetItem(PyObject *tuple, ptrdiff_t i) WEAK;
int PyTuple_SetItem(PyObject *tuple, ptrdiff_t i, PyObject *item) WEAK;
void Py_IncRef(PyObject *o) WEAK;
void Py_DecRef(PyObject *o) WEAK;

PyObject *descriptor_method(PyObject *type, const char *name, const char *doc, PyObject *answer);
PyObject *descriptor_attribute(PyObject *type, const char *name, const char *doc, PyObject *answer);
void descriptor_keys(struct python_mapping *mapping, PyObject *look);

/* ---- methods ---- */

#define METHODS_MAX 16
#define WITH_NAMES 3 /* METH_VARARGS | METH_KEYWORDS */

static PyObject *answers[METHODS_MAX]; /* by the number of the method */
static int nanswers;

/* The answer's function gets the object in front of what the method was called with. */
static PyObject *answered(int number, PyObject *self, PyObject *args, PyObject *names)
{
	ptrdiff_t n = PyTuple_Size(args);
	PyObject *all = PyTuple_New(n + 1), *out;
	if (!all) return NULL;
	for (ptrdiff_t i = 0; i <= n; i++) {
		PyObject *item = i ? PyTuple_GetItem(args, i - 1) : self;
		Py_IncRef(item);
		PyTuple_SetItem(all, i, item);
	}
	out = PyObject_Call(answers[number], all, names);
	Py_DecRef(all);
	return out;
}

/* A method of C's is told no more than its object, so each has a function of its own. */
#define METHOD(n) \
	static PyObject *method_##n(PyObject *self, PyObject *args, PyObject *names) \
	{ \
		return answered(n, self, args, names); \
	}
METHOD(0)
METHOD(1)
METHOD(2)
METHOD(3)
METHOD(4)
METHOD(5)
METHOD(6)
METHOD(7)
METHOD(8)
METHOD(9)
METHOD(10)
METHOD(11)
METHOD(12)
METHOD(13)
METHOD(14)
METHOD(15)
static const c_function METHODS[METHODS_MAX] = {method_0, method_1, method_2, method_3, method_4, method_5, method_6,
	method_7, method_8, method_9, method_10, method_11, method_12, method_13, method_14, method_15};

/* A method of the class that calls answer(object, ...); NULL: there are too many. Name, text and
 * answer are kept. */
PyObject *descriptor_method(PyObject *type, const char *name, const char *doc, PyObject *answer)
{
	struct python_method *m = nanswers < METHODS_MAX ? malloc(sizeof *m) : NULL;
	if (!m) return NULL;
	*m = (struct python_method){name, METHODS[nanswers], WITH_NAMES, doc};
	Py_IncRef(answer);
	answers[nanswers++] = answer;
	return PyDescr_NewMethod(type, m);
}

/* ---- attributes ---- */

static PyObject *attribute_get(PyObject *self, void *answer)
{
	return PyObject_CallFunctionObjArgs(answer, self, NULL);
}

/* An attribute of the class that is answer(object), and that nobody can set. */
PyObject *descriptor_attribute(PyObject *type, const char *name, const char *doc, PyObject *answer)
{
	struct python_attribute *a = malloc(sizeof *a);
	if (!a) return NULL;
	*a = (struct python_attribute){name, attribute_get, NULL, doc, answer};
	Py_IncRef(answer);
	return PyDescr_NewGetSet(type, a);
}

/* ---- keys ---- */

static PyObject *key_look;         /* look(key), which raises where the key may not be asked for */
static struct python_mapping of_c; /* what the classes had */

static int look(PyObject *key)
{
	PyObject *found = PyObject_CallFunctionObjArgs(key_look, key, NULL);
	if (found) Py_DecRef(found);
	return found ? 0 : -1;
}

static PyObject *keyed_get(PyObject *self, PyObject *key) { return look(key) ? NULL : of_c.get(self, key); }

static int keyed_set(PyObject *self, PyObject *key, PyObject *value)
{
	return look(key) ? -1 : of_c.set(self, key, value);
}

/* Keys of a class's objects are shown to `look` first. Classes that share C's functions share
 * these. */
void descriptor_keys(struct python_mapping *mapping, PyObject *look_at)
{
	if (!key_look) {
		Py_IncRef(look_at);
		key_look = look_at;
		of_c = *mapping;
	}
	if (mapping->get == of_c.get) mapping->get = keyed_get;
	if (mapping->set == of_c.set) mapping->set = keyed_set;
}
