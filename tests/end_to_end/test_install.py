"""`cmake --install`, and programs in C and C++ built against what it installed, by CMake package and by pkg-config."""
import os
import subprocess

import pytest

from support import build_model, paths

CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(tenon REQUIRED)
add_executable(user user.cc)
target_link_libraries(user PRIVATE tenon::tenon)
"""

USER_CC = r"""
#include <cstdio>
#include <tenon/compile.h>
int main(int, char** argv) {
  auto session = tenon::OpenModel(argv[1], {}, {}, "none");
  if (!session.ok()) return std::fprintf(stderr, "%s\n", session.status().message().c_str()), 1;
  const float x[4] = {1, 2, 3, 4};
  tenon::HostTensor input{.name = "x", .dtype = tenon::DType::kF32, .shape = {1, 4}, .data = x, .bytes = sizeof(x)};
  auto y = (*session)->Run({input});
  if (!y.ok()) return std::fprintf(stderr, "%s\n", y.status().message().c_str()), 1;
  std::printf("%zu outputs, %zu bytes\n", y->size(), (*y)[0].bytes);
}
"""

USER_C = r"""
#include <stdio.h>
#include <tenon/tenon.h>
int main(int argc, char** argv) {
  tenon_session* session = tenon_open(argv[argc - 1], "{\"cache_dir\": \"none\"}");
  if (session == NULL) return fprintf(stderr, "%s\n", tenon_last_error()), 1;
  const float x[4] = {1, 2, 3, 4};
  const int64_t shape[2] = {1, 4};
  tenon_value* input = tenon_tensor(1, shape, 2, x, sizeof(x));
  const char* name = "x";
  tenon_value* output = NULL;
  if (tenon_run(session, &name, (const tenon_value* const*)&input, 1, &output) != 0) return fprintf(stderr, "%s\n", tenon_last_error()), 1;
  size_t bytes = 0;
  tenon_value_data(output, &bytes);
  printf("%zu outputs, %zu bytes\n", tenon_output_count(session), bytes);
  tenon_value_free(output);
  tenon_value_free(input);
  tenon_close(session);
  return 0;
}
"""


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", paths.BUILD, "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return build_model.small_net(tmp_path_factory.mktemp("net") / "net.onnx")[0]


def test_installed_command_runs(prefix):
    assert run(prefix / "bin" / "tenon", "version")


def test_only_public_headers(prefix):
    for header in (prefix / "include").rglob("*.h"):
        assert header.relative_to(prefix / "include").parts[0] == "tenon"
        assert not [line for line in header.read_text().splitlines() if line.startswith('#include "') and '"tenon/' not in line]


def test_cmake_package(prefix, net, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "user.cc").write_text(USER_CC)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", "-G", "Ninja")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "user", net) == "1 outputs, 12 bytes\n"


def test_pkg_config_and_plain_c(prefix, net, tmp_path):
    (tmp_path / "user.c").write_text(USER_C)
    pc = next(prefix.rglob("tenon.pc")).parent
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pc)}
    text = run("pkg-config", "--define-variable=prefix=" + str(prefix), "--cflags", "--libs", "tenon", env=environment)
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", tmp_path / "user.c", "-o", tmp_path / "user", *text.split())
    library = next(prefix.rglob("libtenon.so")).parent
    assert run(tmp_path / "user", net, env={**os.environ, "LD_LIBRARY_PATH": str(library)}) == "1 outputs, 12 bytes\n"
