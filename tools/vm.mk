# The vm's element loops rely on the vectoriser, which -O2 of gcc 12 hardly uses.
CFLAGS_map_int := -O3
CFLAGS_map_float := -O3
CFLAGS_map_cast := -O3
CFLAGS_map_cmp := -O3
CFLAGS_vm_math := -O3
CFLAGS_exec_core := -O3
CFLAGS_exec_memory := -O3
CFLAGS_exec_reduce := -O3
CFLAGS_exec_dot := -O3
