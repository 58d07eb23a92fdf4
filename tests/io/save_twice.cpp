// save_twice PATH [first]: saves content A to PATH, then content B (not with `first`), through Hdf5Writer,
// and says on standard output what is done. hdf5_test kills it at every call; content is told by its
// attribute "content".

#include <unistd.h>

#include <cstdio>
#include <numeric>
#include <string_view>

#include "orthornn/io/hdf5.hpp"

namespace {

using namespace orthornn;

void save(const char* path, const char* content, double first) {
  Tensor<double> values(Shape{100, 70});
  std::iota(values.begin(), values.end(), first);
  Hdf5Writer writer;
  writer.dataset("group/values", values);
  writer.attribute("/", "content", content);
  writer.commit(path);
  // Unbuffered: it must be out before the next kill.
  dprintf(STDOUT_FILENO, "saved %s\n", content);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  try {
    save(arguments[1], "A", 0);
    if (count < 3 || std::string_view(arguments[2]) != "first") save(arguments[1], "B", 1000);
  } catch (const Error& error) {
    std::fprintf(stderr, "save_twice: %s\n", error.what());
    return 1;
  }
}
