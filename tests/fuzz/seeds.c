/* Runs a fuzz entry over the files named on the command line, without libFuzzer: its seeds, or a
 * finding. Ends by the entry's CHECK when a promise is broken. */
#include "fuzz.h"

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct str input = {0};
		struct err err = {0};
		CHECKF(!file_read(argv[i], 1 << 24, &input, &err), "%s", err.text);
		uint8_t *exact = xmalloc(MAX(input.len, 1)); /* so that a read past the end is seen by a sanitizer */
		if (input.len) memcpy(exact, input.data, input.len);
		LLVMFuzzerTestOneInput(exact, input.len);
		free(exact);
		str_release(&input);
	}
	printf("%d inputs\n", argc - 1);
	return 0;
}
