// A compare.json that report draws.

#include "fuzz/fuzz_target.hpp"
#include "fuzz/page_check.hpp"
#include "pages/comparison_page.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static InputFile file;
  file.write(Bytes(data, size));
  std::string page;
  accepted(file.path(), [&] { page = program::page_of_comparison(file.path()); });
  check_page(page);
  return 0;
}
