# op_page_test: the worked example of docs/op.md, taken from the page, as one more kernel family.
find_package(Python3 COMPONENTS Interpreter REQUIRED)

set(page ${CMAKE_BINARY_DIR}/op_page)
set(family ${page}/kernels/interleave)
set(extracted ${page}/kernels/families.inc ${family}/interleave.h ${family}/interleave.cc ${family}/kernels.inc
    ${family}/interleave_test.cc)
add_custom_command(OUTPUT ${extracted}
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/extract_example ${PROJECT_SOURCE_DIR}/docs/op.md ${page}
  DEPENDS ${PROJECT_SOURCE_DIR}/docs/op.md ${PROJECT_SOURCE_DIR}/scripts/extract_example
          ${PROJECT_SOURCE_DIR}/src/kernels/families.inc
  COMMENT "the example of docs/op.md")

# The registry is compiled again, with the longer list of families; the one in the library is then not linked.
add_executable(op_page_test EXCLUDE_FROM_ALL ${extracted} ${PROJECT_SOURCE_DIR}/src/kernels/registry.cc)
target_include_directories(op_page_test BEFORE PRIVATE ${page})
target_link_libraries(op_page_test PRIVATE tenon_api GTest::gtest GTest::gtest_main GTest::gmock)
add_test(NAME op_page_test COMMAND op_page_test)
add_dependencies(unit_tests op_page_test)
