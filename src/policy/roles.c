/* roles: one answer from several questions (docs/agents.md, Roles). A role is a template; what the
 * roles before it said fills its holes, and the last role's answer is the answer. */
#include "policy/roles.h"
#include "base/base.h"

#include <stdlib.h>

static const char *const names[ROLE_COUNT] = {"test", "profile", "plan", "code"};
#define TEMPLATE_BYTES_MAX ((size_t)1 << 20)

struct roles {
	char *texts[ROLE_COUNT]; /* NULL: the chain goes without it */
};

const char *role_name(int role) { return names[role]; }

/* The name in a hole at `at`, which begins with two braces; its length behind them, 0
 * where none closes it. */
static size_t hole_at(const char *at)
{
	const char *end = strstr(at + 2, "}}");
	return end ? (size_t)(end - at - 2) : 0;
}

/* Each hole is the request, or a role before this one that the chain has. */
static int template_check(const struct roles *r, int role, const char *path, struct err *err)
{
	bool has_request = false;
	for (const char *at = r->texts[role]; (at = strstr(at, "{{"));) {
		size_t len = hole_at(at);
		struct slice name = {at + 2, len};
		bool is_known = slice_is(name, "request");
		has_request |= is_known;
		for (int k = 0; k < role; k++) is_known |= r->texts[k] && slice_is(name, names[k]);
		if (!is_known)
			return err_set(err, ERR_FORMAT,
				"%s: hole {{%.*s}}: expected request, or a role that the folder has and that comes before %s: of test, "
				"profile, plan, code",
				path, (int)MIN(len, 40), at + 2, names[role]);
		at += len + 4;
	}
	if (has_request) return 0;
	return err_set(err, ERR_FORMAT, "%s: has no {{request}}: the role would not know what is asked", path);
}

int roles_open(const char *folder, struct roles **out, struct err *err)
{
	struct roles *r = xcalloc(1, sizeof *r);
	char *found = path_or_installed(folder);
	int rc = 0;
	for (int i = 0; i < ROLE_COUNT && !rc; i++) {
		char *file = xasprintf("%s/%s.txt", found, names[i]);
		struct str text = {0};
		rc = file_read(file, TEMPLATE_BYTES_MAX, &text, err);
		/* All but the last may be missing. */
		if (rc == ERR_NOT_FOUND && i != ROLE_CODE) rc = 0;
		else if (!rc) r->texts[i] = text.data ? text.data : xstrdup("");
		if (!rc && r->texts[i]) rc = template_check(r, i, file, err);
		free(file);
	}
	free(found);
	if (rc) roles_free(r);
	else *out = r;
	return rc ? err_prefix(err, "--policy_roles") : 0;
}

void roles_free(struct roles *r)
{
	for (int i = 0; r && i < ROLE_COUNT; i++) free(r->texts[i]);
	free(r);
}

int roles_next(const struct roles *r, int role)
{
	do role++;
	while (role < ROLE_CODE && !r->texts[role]);
	return role;
}

void roles_render(const struct roles *r, int role, const char *request, char *const *said, struct str *out)
{
	const char *at = r->texts[role];
	for (const char *hole; (hole = strstr(at, "{{")); at = hole + hole_at(hole) + 4) {
		struct slice name = {hole + 2, hole_at(hole)};
		const char *text = request;
		for (int k = 0; k < role; k++)
			if (slice_is(name, names[k])) text = said[k] ? said[k] : "";
		str_append(out, at, (size_t)(hole - at));
		size_t len = strlen(text);
		while (len && strchr(" \t\r\n", text[len - 1])) len--;
		str_append(out, text, len);
	}
	str_puts(out, at);
}
