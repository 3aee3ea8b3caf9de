/* One element's access: checked against the buffer that the pointer's high bits name, and reported
 * where it may not be. */
#include "vm/check/check.h"
#include "tape/tape.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/exec/exec.h"

#define BELOW_MAX ((int64_t)1 << 36)   /* an address this little below a buffer is a negative offset of it */

static const char *access_name(const struct vm_instr *in)
{
	return in->op == OP_STORE ? "store" : in->op == OP_LOAD ? "load" : "access";
}

/* What an address means: the buffer that its high bits name or, a little below one, a negative
 * offset of that. buffer NULL: none. */
struct place {
	const struct vm_buffer *buffer;
	uint64_t index;
	int64_t offset;
};

static struct place place_of(const struct vm_ctx *c, int64_t address)
{
	uint64_t index = (uint64_t)address >> TAPE_ADDRESS_SHIFT;
	int64_t below = (int64_t)((uint64_t)address - ((index + 1) << TAPE_ADDRESS_SHIFT)); /* hostile addresses wrap */
	/* nearer to the next buffer's start than to this one's end: before that one */
	const struct vm_buffer *b = vm_buffer_at(c->memory, index), *next = vm_buffer_at(c->memory, index + 1);
	int64_t beyond = b ? (int64_t)((uint64_t)address - (index << TAPE_ADDRESS_SHIFT)) - b->bytes : INT64_MAX;
	if (next && below > -BELOW_MAX && beyond >= 0 && -below < beyond) index++;
	return (struct place){
		vm_buffer_at(c->memory, index), index, (int64_t)((uint64_t)address - (index << TAPE_ADDRESS_SHIFT))};
}

/* Says where an address is, for messages. */
static void describe(const struct vm_ctx *c, int64_t address, char *text, size_t len)
{
	struct place p = place_of(c, address);
	char name[96];
	if (!p.buffer) {
		snprintf(text, len, "address 0x%llx, which is in no buffer", (unsigned long long)address);
		return;
	}
	int n = snprintf(text, len, "offset %lld of %s", (long long)p.offset, vm_buffer_name(c, p.index, name));
	if (p.offset >= 0 && n >= 0 && (size_t)n < len)
		snprintf(text + n, len - (size_t)n, ", which has %lld bytes", (long long)p.buffer->bytes);
}

int64_t vm_address(const struct vm_ctx *c, int64_t address)
{
	const struct vm_memory *m = c->memory;
	if (!m->has_host_pointers || vm_buffer_at(m, (uint64_t)address >> TAPE_ADDRESS_SHIFT)) return address;
	int low = 0, high = m->nbuffers;
	while (low < high) {
		int mid = (low + high) / 2;
		if ((uint64_t)address < (uint64_t)(uintptr_t)m->buffers[mid].data + (uint64_t)m->buffers[mid].bytes) high = mid;
		else low = mid + 1;
	}
	if (low == m->nbuffers || (uint64_t)address < (uint64_t)(uintptr_t)m->buffers[low].data) return address;
	return (int64_t)m->buffers[low].address + (address - (int64_t)(uintptr_t)m->buffers[low].data);
}

/* The report's facts beside its text. */
static void report_access(const struct vm_ctx *c, const struct vm_instr *in, int64_t address, size_t size)
{
	struct place p = place_of(c, address);
	struct vm_report *r = c->report;
	r->access = access_name(in);
	r->buffer = p.buffer ? (int)(p.buffer - c->memory->buffers) : -1;
	r->offset = p.buffer ? p.offset : 0;
	r->access_bytes = (int64_t)size;
	r->address = address;
}

/* A load in the rest of the buffer's last granule: noted, not stopped. */
static bool pass_over(struct vm_ctx *c, const struct vm_instr *in, const struct vm_buffer *b, int64_t address,
	size_t size, int64_t element)
{
	int64_t offset = (int64_t)((uint64_t)address & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1)),
			granule = c->load_granule;
	char where[160];
	if (!b || !granule || c->check || offset + (int64_t)size > (b->bytes + granule - 1) / granule * granule ||
		(uint64_t)address % size)
		return false;
	if (c->passed_over->fault != VM_FAULT_NONE) return true;
	struct vm_report *report = c->report;
	c->report = c->passed_over;
	describe(c, address, where, sizeof where);
	vm_fault(c, in, VM_FAULT_OUT_OF_BOUNDS, element, "%s of element %lld (%zu bytes) at %s", access_name(in),
		(long long)element, size, where);
	report_access(c, in, address, size);
	c->report = report;
	return true;
}

uint8_t *vm_access(struct vm_ctx *c, const struct vm_instr *in, int64_t address, size_t size, int64_t element,
	bool is_read, bool is_write)
{
	address = vm_address(c, address);
	const struct vm_buffer *b = vm_buffer_at(c->memory, (uint64_t)address >> TAPE_ADDRESS_SHIFT);
	int64_t offset = (int64_t)((uint64_t)address & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1));
	char where[160];
	/* What is wrong with it, the worst first. */
	enum vm_fault fault = VM_FAULT_NONE;
	if (!b || offset + (int64_t)size > b->bytes) fault = VM_FAULT_OUT_OF_BOUNDS;
	else if ((uint64_t)address % size) fault = VM_FAULT_MISALIGNED;
	else if (is_write && b->is_read_only) fault = VM_FAULT_READ_ONLY;
	else if (is_read && b->origin && memchr(b->origin + offset, TAPE_ORIGIN_NONE, size)) fault = VM_FAULT_UNINITIALISED;
	if (fault == VM_FAULT_NONE) {
		if (is_write && b->origin) memset(b->origin + offset, TAPE_ORIGIN_KERNEL, size);
		if (is_read && b->read) memset(b->read + offset, 1, size);
		if (is_write && b->written) memset(b->written + offset, 1, size);
		uint8_t *at = vm_buffer_data(b, offset, is_write);
		/* What changes memory by offset reads it and writes elsewhere. */
		if (b->period && is_read && is_write) memcpy(at, vm_buffer_data(b, offset, false), size);
		return at;
	}
	/* Out of bounds within the last granule: a GPU would give something there, here it is 0. */
	static const uint64_t nothing = 0;
	if (fault == VM_FAULT_OUT_OF_BOUNDS && !is_write && pass_over(c, in, b, address, size, element))
		return (uint8_t *)(uintptr_t)&nothing;
	/* A fault: in the report, and where findings are listed with the place it was meant for. */
	bool is_first = c->report->fault == VM_FAULT_NONE;
	describe(c, address, where, sizeof where);
	vm_fault(c, in, fault, element, "%s of element %lld (%zu bytes) at %s", access_name(in), (long long)element, size,
		where);
	if (is_first) report_access(c, in, address, size);
	if (!c->check) return NULL;
	struct place meant = place_of(c, address);
	vm_finding_where(c, meant.index, meant.offset);
	/* The launch goes on behind it: with what is there, or without this lane. */
	if (!c->check->goes_on) return NULL;
	if (fault == VM_FAULT_UNINITIALISED) return vm_buffer_data(b, offset, is_write);
	c->check->nowhere = 0;
	return (uint8_t *)&c->check->nowhere;
}
