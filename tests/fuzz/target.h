// What every fuzz target of this folder defines. libFuzzer drives it in the preset fuzz; in all
// others smoke_main.cc runs the seeds and some thousand mutations of them.
#ifndef FAIRGATE_TESTS_FUZZ_TARGET_H_
#define FAIRGATE_TESTS_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// Good inputs to start from.
std::vector<std::string> FuzzSeeds();

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Optional; run once before all inputs.
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

// Ends the process, as libFuzzer wants it, also without assertions.
#define FUZZ_REQUIRE(condition)                                                    \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

#endif  // FAIRGATE_TESTS_FUZZ_TARGET_H_
