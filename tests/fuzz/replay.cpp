// In the place of libFuzzer: the target gets each file of a folder once. So every compiler can run it, and a
// run is the same each time.

#include "fuzz/replay.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int*, char***);

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s TARGET FOLDER\n", argv[0]);
    return 2;
  }
  const auto& targets = orthornn::fuzz::targets();
  const auto target = std::ranges::find(targets, argv[1], &orthornn::fuzz::Target::name);
  if (target == targets.end()) {
    std::fprintf(stderr, "there is no target %s\n", argv[1]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    std::fprintf(stderr, "%s has no file\n", argv[2]);
    return 1;
  }
  LLVMFuzzerInitialize(&argc, &argv);
  for (const std::filesystem::path& file : files) {
    // A target that ends the process says nothing about its input.
    std::fprintf(stderr, "%s\n", file.c_str());
    std::ifstream stream(file, std::ios::binary);
    if (!stream || !std::filesystem::is_regular_file(file)) {
      std::fprintf(stderr, "this is no file that can be read\n");
      return 1;
    }
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(stream), {}};
    target->test(bytes.data(), bytes.size());
  }
  return 0;
}
