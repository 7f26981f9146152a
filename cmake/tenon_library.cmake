# tenon_library(<folder> DEPS <folders and targets> [PCH <headers>])
#   A static library tenon_<folder> of all *.cc below src/<folder> except *_test.cc, and a test program <folder>_test of the
#   *_test.cc files. The last word of a file's name chooses its instruction set: "..._avx2.cc" and "avx2.cc" alike.
# DEPS are the folders this one may include (scripts/check_layers holds includes against the same rule).

set(TENON_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mpopcnt -maes -mpclmul)
# GCC 12 takes the undefined operand of AVX-512 intrinsics for an uninitialised variable.
set(TENON_FLAGS_avx512 ${TENON_FLAGS_avx2} -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
    -Wno-maybe-uninitialized -Wno-uninitialized)
set(TENON_FLAGS_avx512vnni ${TENON_FLAGS_avx512} -mavx512vnni)
set(TENON_FLAGS_avx512bf16 ${TENON_FLAGS_avx512vnni} -mavx512bf16)
set(TENON_FLAGS_amx ${TENON_FLAGS_avx512bf16} -mamx-tile -mamx-int8 -mamx-bf16)

# Every unit test program; they are not part of the default target, so that using Tenon does not wait for them.
if(TENON_TESTS)
  add_custom_target(unit_tests)
endif()

add_library(tenon_flags INTERFACE)
target_include_directories(tenon_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
target_compile_options(tenon_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off -fopenmp-simd)
target_link_libraries(tenon_flags INTERFACE fmt::fmt Threads::Threads)
if(TENON_SANITIZE)
  target_compile_options(tenon_flags INTERFACE -fsanitize=${TENON_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tenon_flags INTERFACE -fsanitize=${TENON_SANITIZE})
  if(TENON_SANITIZE MATCHES "address,undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes twice as long to compile a check of every access for null, alignment and extent. AddressSanitizer finds what is
    # null or out of bounds; the preset "ubsan" has all of them.
    target_compile_options(tenon_flags INTERFACE -fno-sanitize=null,alignment,object-size,vptr)
  endif()
endif()

# Most of the time of a build goes into code that hardly runs. Under a sanitizer only these folders are optimised; in a release
# build those that work once a command, and the tests, are optimised less: that compiles in three quarters of the time.
set(TENON_SANITIZED_HOT base hw tensor kernels)
set(TENON_COLD api cli guard quantize tune)

function(tenon_compile_fast target)
  if(TENON_SANITIZE AND NOT TENON_FUZZ)
    target_compile_options(${target} PRIVATE -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

function(tenon_library folder)
  cmake_parse_arguments(ARG "" "" "DEPS;PCH" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(tenon_${name} STATIC ${sources})
  target_link_libraries(tenon_${name} PUBLIC tenon_flags)
  foreach(source ${sources})
    get_filename_component(stem ${source} NAME_WE)
    string(REGEX MATCH "[a-z0-9]+$" isa ${stem})
    if(DEFINED TENON_FLAGS_${isa})
      # Other flags than the precompiled header's: these files include for themselves.
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${TENON_FLAGS_${isa}}" SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  if(folder IN_LIST TENON_COLD OR (TENON_SANITIZE AND NOT folder IN_LIST TENON_SANITIZED_HOT))
    tenon_compile_fast(tenon_${name})
  endif()
  if(TENON_PCH AND ARG_PCH)
    target_precompile_headers(tenon_${name} PRIVATE ${ARG_PCH})
  endif()
  foreach(dep ${ARG_DEPS})
    if(TARGET tenon_${dep})
      target_link_libraries(tenon_${name} PUBLIC tenon_${dep})
    else()
      target_link_libraries(tenon_${name} PUBLIC ${dep})
    endif()
  endforeach()
  if(TENON_TESTS AND tests)
    add_executable(${name}_test EXCLUDE_FROM_ALL ${tests})
    target_link_libraries(${name}_test PRIVATE tenon_${name} GTest::gtest GTest::gtest_main GTest::gmock)
    tenon_compile_fast(${name}_test)
    target_compile_definitions(${name}_test PRIVATE TENON_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    add_test(NAME ${name}_test COMMAND ${name}_test)
    if(TENON_PCH AND ARG_PCH)
      target_precompile_headers(${name}_test PRIVATE ${ARG_PCH} <gtest/gtest.h>)
    endif()
    add_dependencies(unit_tests ${name}_test)
  endif()
endfunction()
