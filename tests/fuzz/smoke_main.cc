// Runs a fuzz target without libFuzzer: each seed, each of its beginnings, and mutations.
// Arguments: how many mutations (3000), the seed of the random numbers (drawn and printed).
#include <algorithm>
#include <iostream>
#include <random>

#include "tests/fuzz/target.h"

namespace {

void Run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::string Mutate(std::string input, const std::string& other, std::mt19937& random) {
  for (auto times = 1 + random() % 4; times > 0; --times) {
    const size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 5) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << random() % 8));
        break;
      case 1:
        input.insert(at, 1, static_cast<char>(random() % 256));
        break;
      case 2:
        input.erase(at, 1 + random() % 4);
        break;
      case 3:
        input.insert(at, input.substr(at, 1 + random() % 16));
        break;
      default:
        input = input.substr(0, at) + other.substr(std::min(other.size(), at));
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::stoi(argv[1]) : 3000;
  const unsigned seed =
      argc > 2 ? static_cast<unsigned>(std::stoul(argv[2])) : std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  std::mt19937 random(seed);
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  const std::vector<std::string> seeds = FuzzSeeds();
  Run("");
  for (const std::string& whole : seeds) {
    for (size_t size = 0; size <= whole.size(); ++size) Run(whole.substr(0, size));
  }
  for (int i = 0; i < count; ++i) {
    Run(Mutate(seeds[random() % seeds.size()], seeds[random() % seeds.size()], random));
  }
}
